#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/model_options.hpp"
#include "cli/multi_turn/multi_turn.hpp"
#include "cli/progress.hpp"
#include "config/checked.hpp"
#include "memory/sequence_kv.hpp"
#include "model/batch.hpp"
#include "model/transformer.hpp"

namespace rondo::cli {

namespace {

struct Options {
    ModelOptions model;
    int64_t tokens = 512;
    int64_t depth = 0;
    int batch = 1;
    int repeat = 5;
    bool json = false;
};

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Ids spread over the vocabulary: what they are does not matter for speed, that they differ does for the embedding.
std::vector<int32_t> some_ids(int64_t count, int64_t vocabulary) {
    std::vector<int32_t> ids(static_cast<size_t>(count));
    for (size_t i = 0; i < ids.size(); ++i)
        ids[i] = static_cast<int32_t>((i * 7919 + 13) % static_cast<size_t>(vocabulary));
    return ids;
}

/// A figure of a run that did not compute anything real is worth nothing.
Status check_finite(std::span<const float> logits) {
    for (const float logit : logits) {
        if (!std::isfinite(logit))
            return make_error(ErrorCode::internal, "the model gave a logit that is not a number");
    }
    return Status::ok();
}

/// Seconds of each repeat after one warm-up. `again` puts things back before each.
template <class Again, class Work>
Result<std::vector<double>> measure(const Options& options, const std::string& what, Again again, Work work) {
    Progress progress(what);
    std::vector<double> seconds;
    for (int i = 0; i <= options.repeat; ++i) {
        RONDO_TRY(again());
        const double start = now();
        RONDO_TRY(work());
        if (i > 0) seconds.push_back(now() - start);
        progress.show(static_cast<double>(i) / options.repeat);
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds;
}

void report(const Options& options, const std::string& kind, double tokens, const std::vector<double>& seconds,
            const Runner& runner) {
    const double median = seconds[seconds.size() / 2];
    nlohmann::ordered_json out = {{"bench", kind},
                                  {"tokens_per_s", tokens / median},
                                  {"tokens_per_s_min", tokens / seconds.back()},
                                  {"tokens_per_s_max", tokens / seconds.front()},
                                  {"seconds", median},
                                  {"repeat", options.repeat},
                                  {"tokens", options.tokens},
                                  {"depth", options.depth},
                                  {"batch", options.batch},
                                  {"kv", name_of(runner.settings.memory.kv_dtype)},
                                  {"method", runner.settings.pipeline.decode.attention_method},
                                  {"device", runner.device->name()},
                                  {"model", runner.model.name},
                                  {"weight_bytes", runner.model.weights->bytes()}};
    if (options.json) {
        std::printf("%s\n", out.dump().c_str());
    } else {
        std::printf("%s: %.1f tokens/s (median of %d; %.1f to %.1f), %s, depth %lld, batch %d, %s\n", kind.c_str(),
                    tokens / median, options.repeat, tokens / seconds.back(), tokens / seconds.front(),
                    runner.model.name.c_str(), static_cast<long long>(options.depth), options.batch,
                    runner.device->name().c_str());
    }
}

Result<std::unique_ptr<Runner>> open_runner(const Options& options) {
    const int64_t wanted = options.depth + options.tokens;
    RONDO_ASSIGN(auto runner, Runner::open(options.model, wanted + 1));
    if (wanted > runner->model.spec.context_tokens) {
        return make_error(ErrorCode::out_of_range, "a depth of " + std::to_string(options.depth) + " and " +
                                                       std::to_string(options.tokens) + " tokens; the context of " +
                                                       runner->model.name + " holds " +
                                                       std::to_string(runner->model.spec.context_tokens));
    }
    return runner;
}

Status bench_prefill(const Options& options) {
    RONDO_ASSIGN(const auto runner, open_runner(options));
    Generator& generator = *runner->generator;
    const auto history = some_ids(options.depth, runner->model.spec.vocabulary);
    const auto prompt = some_ids(options.tokens, runner->model.spec.vocabulary);
    RONDO_TRY(generator.prefill(history));
    RONDO_ASSIGN(const auto seconds, measure(
                                         options, "prefill",
                                         [&] {
                                             generator.truncate(options.depth);
                                             return Status::ok();
                                         },
                                         [&] { return generator.prefill(prompt); }));
    RONDO_TRY(check_finite(generator.logits()));
    report(options, "prefill", static_cast<double>(options.tokens), seconds, *runner);
    return Status::ok();
}

/// Some conversations of one length that decode together.
class Sequences {
public:
    static Result<std::unique_ptr<Sequences>> create(Runner& runner, const Options& options) {
        const ModelSpec& spec = runner.model.spec;
        const int64_t context = options.depth + options.tokens + 1;
        const int64_t chunk = runner.settings.pipeline.prefill.chunk_tokens;
        const int64_t rows = std::max<int64_t>(chunk, options.batch);
        const DType kv_type = kv_dtype(runner.settings.memory.kv_dtype);
        std::unique_ptr<Sequences> made(new Sequences(*runner.device, spec.vocabulary, chunk));
        const auto blocks = static_cast<size_t>(ceil_div<int64_t>(context, kv_block_tokens) * options.batch);
        RONDO_ASSIGN(made->pool_, KvPool::create(*runner.device, Transformer::kv_shape(spec, kv_type), blocks));
        RONDO_ASSIGN(made->transformer_,
                     Transformer::create(*runner.model.weights, *made->pool_, *runner.device, rows));
        RONDO_ASSIGN(Batch batch, Batch::create(*runner.device, spec, {rows, options.batch, context}));
        made->batch_ = std::make_unique<Batch>(std::move(batch));
        const auto logits = static_cast<size_t>(options.batch * spec.vocabulary);
        RONDO_ASSIGN(made->device_logits_, runner.device->allocate(logits * sizeof(float)));
        made->logits_.resize(logits);
        for (int i = 0; i < options.batch; ++i) {
            made->sequences_.push_back(std::make_unique<SequenceKv>(*made->pool_));
            made->sequences_.back()->reserve(context);
        }
        return made;
    }

    Status prefill_all(std::span<const int32_t> ids) {
        for (const auto& sequence : sequences_) {
            for (size_t begin = 0; begin < ids.size(); begin += static_cast<size_t>(chunk_tokens_)) {
                const auto chunk = ids.subspan(begin, std::min(ids.size() - begin, static_cast<size_t>(chunk_tokens_)));
                batch_->clear();
                RONDO_TRY(batch_->add({sequence.get(), chunk, Rows::bulk, BatchPart::Logits::none}));
                RONDO_TRY(batch_->prepare());
                RONDO_TRY(transformer_->forward(*batch_));
            }
        }
        return Status::ok();
    }

    /// One token for each, and their logits brought to the host.
    Status step_all(int32_t id) {
        batch_->clear();
        for (const auto& sequence : sequences_) {
            RONDO_TRY(batch_->add({sequence.get(), {&id, 1}, Rows::invariant, BatchPart::Logits::last}));
        }
        RONDO_TRY(batch_->prepare());
        RONDO_TRY(transformer_->forward(*batch_));
        const Tensor out = Tensor::of(device_logits_.data(), DType::f32, batch_->logit_rows(), vocabulary_);
        RONDO_TRY(transformer_->logits(*batch_, 0, out));
        RONDO_TRY(device_.copy(logits_.data(), out.data, logits_.size() * sizeof(float), StreamId::compute));
        return device_.wait(StreamId::compute);
    }

    void truncate_all(int64_t tokens) {
        for (const auto& sequence : sequences_) sequence->truncate(tokens);
    }
    std::span<const float> logits() const { return logits_; }

private:
    Sequences(Device& device, int64_t vocabulary, int64_t chunk_tokens)
        : device_(device), vocabulary_(vocabulary), chunk_tokens_(chunk_tokens) {}

    Device& device_;
    int64_t vocabulary_, chunk_tokens_;
    std::unique_ptr<KvPool> pool_;
    std::unique_ptr<Transformer> transformer_;
    std::unique_ptr<Batch> batch_;
    std::vector<std::unique_ptr<SequenceKv>> sequences_;
    Buffer device_logits_;
    std::vector<float> logits_;
};

Status bench_decode(const Options& options) {
    RONDO_ASSIGN(const auto runner, open_runner(options));
    RONDO_ASSIGN(const auto sequences, Sequences::create(*runner, options));
    const auto history = some_ids(options.depth, runner->model.spec.vocabulary);
    RONDO_TRY(sequences->prefill_all(history));
    const auto next = some_ids(options.tokens, runner->model.spec.vocabulary);
    RONDO_ASSIGN(const auto seconds, measure(
                                         options, "decode",
                                         [&] {
                                             sequences->truncate_all(options.depth);
                                             return Status::ok();
                                         },
                                         [&]() -> Status {
                                             for (const int32_t id : next) RONDO_TRY(sequences->step_all(id));
                                             return Status::ok();
                                         }));
    RONDO_TRY(check_finite(sequences->logits()));
    report(options, "decode", static_cast<double>(options.tokens) * options.batch, seconds, *runner);
    return Status::ok();
}

}  // namespace

void add_bench(CLI::App& app, Action& run) {
    auto options = std::make_shared<Options>();
    CLI::App* const command = app.add_subcommand("bench", "how fast a model runs here");
    command->require_subcommand(1);
    const auto add = [&](const char* name, const char* what, Status (*bench)(const Options&)) {
        CLI::App* const one = command->add_subcommand(name, what);
        options->model.add_all(*one);
        one->add_option("--tokens", options->tokens, "tokens a repeat")->check(CLI::Range(1, 1 << 20));
        one->add_option("--depth", options->depth, "tokens already in the context")->check(CLI::Range(0, 1 << 24));
        one->add_option("--repeat", options->repeat, "counted repeats; the median is quoted")
            ->check(CLI::Range(1, 1000));
        one->add_flag("--json", options->json);
        one->callback([options, &run, bench] { run = [options, bench] { return bench(*options); }; });
        return one;
    };
    add("prefill", "tokens of a prompt per second", bench_prefill);
    add("decode", "tokens of answers per second", bench_decode)
        ->add_option("--batch", options->batch, "sequences at once")
        ->check(CLI::Range(1, 1024));
    add_multi_turn(*command, run);
}

}  // namespace rondo::cli
