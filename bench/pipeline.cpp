// What the pipeline of actors does with a model: how many streams it decodes together, what a long prompt does to
// others, what a further turn costs, and its own overhead beside the bare engine. Both must answer the same.
//
// usage: bench_pipeline [--model M] [--json] [--threads N] [--set K=V]… [--only streams,stall,turns,overhead]
#include <CLI/CLI.hpp>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "actors/engine_inside.hpp"
#include "kernels/backend.hpp"
#include "machine/machine.hpp"
#include "model/generator.hpp"

namespace {

using namespace rondo;
using clock_type = std::chrono::steady_clock;

double seconds_between(clock_type::time_point from, clock_type::time_point to) {
    return std::chrono::duration<double>(to - from).count();
}

template <class T>
T must(Result<T> result) {
    if (result.is_ok()) return std::move(result).value();
    std::fprintf(stderr, "bench_pipeline: %s\n", result.error().message.c_str());
    std::exit(1);
}

/// A turn and when each of its tokens came.
struct Timed {
    clock_type::time_point asked = clock_type::now();
    std::vector<clock_type::time_point> tokens;
    std::vector<int32_t> ids;
    TurnEnd end;
};

class Bench {
public:
    Bench(const std::string& model, int threads, std::vector<std::string> overrides) : threads_(threads) {
        overrides.insert(overrides.begin(), {"model.path=" + model, "devices.cpu.threads=" + std::to_string(threads),
                                             "memory.device_kv_mib=4096"});
        settings_ = must(settings_from_yaml("", "bench_pipeline", overrides));
        engine_ = must(Engine::open(settings_));
    }

    Engine& engine() { return *engine_; }
    std::vector<int32_t> prompt(int64_t tokens) {
        std::vector<int32_t> ids(static_cast<size_t>(tokens));
        for (int32_t& id : ids)
            id = static_cast<int32_t>(random_() % static_cast<uint64_t>(inside(*engine_).model().spec.vocabulary));
        return ids;
    }
    /// Of a long prompt: as many as the context leaves room for, with what is asked behind it.
    int64_t long_tokens() const {
        return std::max<int64_t>(1, std::min<int64_t>(4096, engine_->context_tokens() - 256));
    }
    std::future<std::shared_ptr<Timed>> ask(std::vector<int32_t> ids, int64_t tokens) {
        Ask ask;
        ask.ids = std::move(ids);
        ask.conversation.tenant = "bench";
        ask.options.tokens_max = tokens;
        ask.options.ignore_eos = true;
        auto timed = std::make_shared<Timed>();
        auto promise = std::make_shared<std::promise<std::shared_ptr<Timed>>>();
        TurnCallbacks callbacks;
        callbacks.on_delta = [timed](TurnDelta delta) {
            timed->tokens.push_back(clock_type::now());
            timed->ids.insert(timed->ids.end(), delta.ids.begin(), delta.ids.end());
        };
        callbacks.on_end = [timed, promise](TurnEnd end) {
            timed->end = std::move(end);
            promise->set_value(timed);
        };
        engine_->ask(std::move(ask), std::move(callbacks));
        return promise->get_future();
    }
    std::shared_ptr<Timed> finished(std::future<std::shared_ptr<Timed>> turn, int64_t tokens) {
        std::shared_ptr<Timed> timed = turn.get();
        if (timed->end.outcome == TurnOutcome::length && static_cast<int64_t>(timed->ids.size()) == tokens)
            return timed;
        std::fprintf(stderr, "bench_pipeline: a turn did not give its %ld tokens: %s\n", static_cast<long>(tokens),
                     timed->end.error.message.c_str());
        std::exit(1);
    }

    /// Decode tokens/s of this many streams, from when the last began to when the first was over.
    double streams(int count, int64_t tokens) {
        std::vector<std::future<std::shared_ptr<Timed>>> turns;
        for (int i = 0; i < count; ++i) turns.push_back(ask(prompt(16), tokens));
        std::vector<std::shared_ptr<Timed>> done;
        for (auto& turn : turns) done.push_back(finished(std::move(turn), tokens));
        clock_type::time_point from = done[0]->tokens.front(), to = done[0]->tokens.back();
        for (const auto& one : done) {
            from = std::max(from, one->tokens.front());
            to = std::min(to, one->tokens.back());
        }
        size_t inside = 0;
        for (const auto& one : done)
            inside +=
                static_cast<size_t>(std::ranges::count_if(one->tokens, [&](auto t) { return t > from && t <= to; }));
        return static_cast<double>(inside) / seconds_between(from, to);
    }

    /// Milliseconds between tokens, sorted, of `count` streams; with `long_prompt` tokens arriving in their midst.
    std::vector<double> gaps(int count, int64_t tokens, int64_t long_prompt) {
        std::vector<std::future<std::shared_ptr<Timed>>> turns;
        for (int i = 0; i < count; ++i) turns.push_back(ask(prompt(16), tokens));
        std::future<std::shared_ptr<Timed>> heavy;
        if (long_prompt > 0) {
            std::this_thread::sleep_for(std::chrono::seconds(2));
            heavy = ask(prompt(long_prompt), 1);
        }
        std::vector<double> all;
        for (auto& turn : turns) {
            const auto done = finished(std::move(turn), tokens);
            for (size_t i = 4; i < done->tokens.size(); ++i)
                all.push_back(seconds_between(done->tokens[i - 1], done->tokens[i]) * 1e3);
        }
        if (heavy.valid()) finished(std::move(heavy), 1);
        std::ranges::sort(all);
        return all;
    }

    const Settings& settings() const { return settings_; }
    int threads() const { return threads_; }

private:
    int threads_;
    Settings settings_;
    std::unique_ptr<Engine> engine_;
    std::mt19937_64 random_{11};
};

double percentile(const std::vector<double>& sorted, double share) {
    return sorted[std::min(sorted.size() - 1, static_cast<size_t>(share * static_cast<double>(sorted.size())))];
}

nlohmann::ordered_json bench_streams(Bench& bench) {
    bench.streams(1, 8);
    std::vector<double> one, sixteen;
    for (int i = 0; i < 25; ++i) {  // a small model gives one answer in 20 ms, and single ones differ by a quarter
        one.push_back(bench.streams(1, 48));
        sixteen.push_back(bench.streams(16, 48));
    }
    std::ranges::sort(one);
    std::ranges::sort(sixteen);
    const double single = percentile(one, 0.5), batch = percentile(sixteen, 0.5);
    return {{"tokens_per_s_1", single}, {"tokens_per_s_16", batch}, {"ratio", batch / single}};
}

nlohmann::ordered_json bench_stall(Bench& bench) {
    const std::vector<double> base = bench.gaps(4, 96, 0);
    const std::vector<double> beside = bench.gaps(4, 96, bench.long_tokens());
    const double bound = percentile(base, 0.99) + 1.2 * bench.settings().pipeline.decode.step_ms_max;
    return {{"itl_ms_p50", percentile(base, 0.5)},
            {"itl_ms_p99", percentile(base, 0.99)},
            {"beside_prompt_ms_p50", percentile(beside, 0.5)},
            {"beside_prompt_ms_p99", percentile(beside, 0.99)},
            {"bound_ms", bound}};
}

nlohmann::ordered_json bench_turns(Bench& bench) {
    std::vector<double> ratios, first, second;
    for (int i = 0; i < 3; ++i) {
        std::vector<int32_t> ids = bench.prompt(bench.long_tokens());
        const auto one = bench.finished(bench.ask(ids, 8), 8);
        ids.insert(ids.end(), one->ids.begin(), one->ids.end());
        const std::vector<int32_t> more = bench.prompt(64);
        ids.insert(ids.end(), more.begin(), more.end());
        const auto two = bench.finished(bench.ask(ids, 8), 8);
        first.push_back(seconds_between(one->asked, one->tokens[0]) * 1e3);
        second.push_back(seconds_between(two->asked, two->tokens[0]) * 1e3);
        ratios.push_back(second.back() / first.back());
    }
    std::ranges::sort(ratios);
    std::ranges::sort(first);
    std::ranges::sort(second);
    return {{"first_ttft_ms", first[1]}, {"second_ttft_ms", second[1]}, {"share", ratios[1]}};
}

/// Microseconds a decode step of one stream takes, bare and in the pipeline, alternating; the answers must be equal.
nlohmann::ordered_json bench_overhead(Bench& bench) {
    const auto device = must(open_device({DeviceKind::cpu, 0, bench.threads()}));
    const Model model = must(load_model(model_path(bench.settings().model.path), {}, *device));
    const auto generator = must(Generator::create(model, *device, {}));
    constexpr int64_t tokens = 256;
    std::vector<double> bare, piped, differences;
    for (int i = 0; i < 9; ++i) {
        const std::vector<int32_t> ids = bench.prompt(32);
        generator->truncate(0);
        GenerateOptions how;
        how.tokens_max = tokens;
        how.ignore_eos = true;
        const Generated plain = must(generator->generate(ids, how));
        bare.push_back(plain.decode_seconds / static_cast<double>(tokens - 1) * 1e6);
        const auto done = bench.finished(bench.ask(ids, tokens), tokens);
        if (done->ids != plain.ids) {
            std::fprintf(stderr, "bench_pipeline: the pipeline's answer is not the bare engine's\n");
            std::exit(1);
        }
        piped.push_back(seconds_between(done->tokens.front(), done->tokens.back()) / static_cast<double>(tokens - 1) *
                        1e6);
        differences.push_back(piped.back() - bare.back());
    }
    for (auto* figures : {&bare, &piped, &differences}) std::ranges::sort(*figures);
    return {{"bare_step_us", bare[4]}, {"pipeline_step_us", piped[4]}, {"overhead_us", differences[4]}};
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{"what the pipeline does with a model"};
    std::string model = "demo";
    std::vector<std::string> overrides, only{"streams", "stall", "turns", "overhead"};
    int threads = static_cast<int>(std::thread::hardware_concurrency());
    bool json = false;
    app.add_option("--model", model, "folder, .gguf or demo");
    app.add_option("--threads", threads)->check(CLI::Range(1, 1024));
    app.add_option("--set", overrides, "a.b=c: a key of the pipeline file");
    app.add_option("--only", only, "which parts")->delimiter(',');
    app.add_flag("--json", json);
    CLI11_PARSE(app, argc, argv);
    Bench bench(model, threads, overrides);
    nlohmann::ordered_json out{{"model", bench.engine().model_name()},
                               {"device", bench.engine().device_names()},
                               {"read_gb_per_s", bench::read_rate(threads, 3)},
                               {"gemm_16_rows_gflop_per_s", bench::product_ceiling(16, threads, 5)}};
    const std::pair<const char*, nlohmann::ordered_json (*)(Bench&)> parts[] = {
        {"streams", bench_streams}, {"stall", bench_stall}, {"turns", bench_turns}, {"overhead", bench_overhead}};
    for (const auto& [name, part] : parts)
        if (std::ranges::count(only, name) > 0) out[name] = part(bench);
    if (json) {
        std::printf("%s\n", out.dump().c_str());
        return 0;
    }
    std::printf("%s\n", out.dump(2).c_str());
    return 0;
}
