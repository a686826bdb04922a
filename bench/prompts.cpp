// Prompts of a 0.5 B and a 1 B model by every type of weights, which are random: tokens/s, the products' rate beside a
// loop of the type's own instructions, and where the time goes. One chunk is checked against tokens that come singly.
// usage: bench_prompts [--json] [--threads N] [--repeat R] [--tokens N] [--types q4_0,q8_0]
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "kernels/backend.hpp"
#include "machine/machine.hpp"
#include "machine/random_rows.hpp"
#include "model/generator.hpp"
#include "model/random_weights.hpp"

namespace {

using namespace rondo;

template <class T>
T must(Result<T> result) {
    if (result.is_ok()) return std::move(result).value();
    std::fprintf(stderr, "bench_prompts: %s\n", result.error().message.c_str());
    std::exit(1);
}

void must(const Status& status) {
    if (status.is_ok()) return;
    std::fprintf(stderr, "bench_prompts: %s\n", status.error().message.c_str());
    std::exit(1);
}

struct Shape {
    const char* name;
    int layers, width, heads, kv_heads, ffn_width, vocabulary;

    ModelSpec spec() const {
        ModelSpec spec;
        spec.architecture = "llama";
        spec.layers = layers;
        spec.width = width;
        spec.heads = heads;
        spec.kv_heads = kv_heads;
        spec.head_dim = width / heads;
        spec.ffn_width = ffn_width;
        spec.vocabulary = vocabulary;
        spec.context_tokens = 32768;
        spec.tied_embeddings = true;
        return spec;
    }
};
constexpr Shape half_b{"qwen2-0.5b", 24, 896, 14, 2, 4864, 151936};
constexpr Shape one_b{"llama-1b", 16, 2048, 32, 8, 8192, 128256};

struct Case {
    const Shape& shape;
    DType type;
};
/// Rows of 896 are no multiple of a K type's 256.
constexpr Case cases[] = {{half_b, DType::bf16},   {half_b, DType::f16},  {half_b, DType::f32},  {half_b, DType::q8_0},
                          {half_b, DType::q4_0},   {half_b, DType::q4_1}, {half_b, DType::q5_0}, {half_b, DType::q5_1},
                          {half_b, DType::iq4_nl}, {one_b, DType::bf16},  {one_b, DType::q4_0},  {one_b, DType::q2_k},
                          {one_b, DType::q3_k},    {one_b, DType::q4_k},  {one_b, DType::q5_k},  {one_b, DType::q6_k},
                          {one_b, DType::iq4_xs}};

/// Random weights whose matrices have another type. Those of as many columns have the same bytes: each is packed apart.
class TypedWeights final : public WeightsFile {
public:
    TypedWeights(std::unique_ptr<WeightsFile> others, DType type)
        : others_(std::move(others)), tensors_(others_->tensors()) {
        std::map<int64_t, int64_t> rows;  // the most, by columns
        for (const FileTensor& tensor : tensors_)
            if (is_matrix(tensor)) rows[tensor.shape[1]] = std::max(rows[tensor.shape[1]], tensor.shape[0]);
        for (const auto& [columns, most] : rows) bytes_[columns] = bench::random_rows(type, most, columns);
        for (FileTensor& tensor : tensors_) {
            if (!is_matrix(tensor)) continue;
            tensor.dtype = type;
            tensor.file_type = traits(type).name;
            tensor.data = bytes_.at(tensor.shape[1]).data();
            tensor.bytes = bytes_of(type, tensor.shape[0] * tensor.shape[1]);
        }
    }
    const FileTensor* find(std::string_view name) const override {
        const auto found = std::ranges::find(tensors_, name, &FileTensor::name);
        if (found == tensors_.end()) return nullptr;
        if (!is_matrix(*found)) (void)others_->find(name);  // which makes its bytes
        return &*found;
    }
    const std::vector<FileTensor>& tensors() const override { return tensors_; }
    void will_need(const FileTensor& tensor) const override {
        if (!is_matrix(tensor)) others_->will_need(tensor);
    }
    void done_with(const FileTensor& tensor) const override {
        if (!is_matrix(tensor)) others_->done_with(tensor);
    }

private:
    static bool is_matrix(const FileTensor& tensor) { return tensor.shape.size() == 2; }

    std::unique_ptr<WeightsFile> others_;
    std::vector<FileTensor> tensors_;
    std::map<int64_t, std::vector<std::byte>> bytes_;  // by columns
};

Model model_of(const Case& one, Device& device) {
    Model model;
    model.name = one.shape.name;
    model.spec = one.shape.spec();
    const TypedWeights weights(must(random_weights(model.spec, 1, DType::f32, model.name)), one.type);
    model.weights = must(load_weights(model.spec, weights, device));
    return model;
}

/// Operations of all products of a prompt: of the last layer's, rows without logits meet only queries, keys and values.
double operations(const ModelSpec& spec, int64_t tokens) {
    const double qkv =
        static_cast<double>(spec.heads + 2 * spec.kv_heads) * spec.head_dim * static_cast<double>(spec.width);
    const double others = static_cast<double>(spec.width * spec.width + 3 * spec.width * spec.ffn_width);
    const double head = static_cast<double>(spec.width * spec.vocabulary);
    const auto rows = static_cast<double>(tokens);
    return 2.0 * (rows * (qkv * spec.layers + others * (spec.layers - 1)) + others + head);
}

std::vector<int32_t> prompt_of(int64_t tokens) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < tokens; ++i) ids.push_back(static_cast<int32_t>(i * 7919 % 30011));
    return ids;
}

/// ‖Δ‖ / ‖logits‖ of a chunk's last token and of the same tokens computed singly.
double chunk_error(const Model& model, Device& device) {
    const std::vector<int32_t> ids = prompt_of(24);
    const auto chunk = must(Generator::create(model, device, {.context_tokens_max = 64}));
    const auto single = must(Generator::create(model, device, {.chunk_tokens = 1, .context_tokens_max = 64}));
    must(chunk->prefill(ids));
    must(single->prefill(ids));
    double difference = 0.0, norm = 0.0;
    for (size_t i = 0; i < chunk->logits().size(); ++i) {
        const double other = single->logits()[i];
        difference += std::pow(chunk->logits()[i] - other, 2);
        norm += other * other;
    }
    return std::sqrt(difference / norm);
}

struct Options {
    bool json = false;
    int threads = static_cast<int>(std::thread::hardware_concurrency());
    int repeat = 3;
    int64_t tokens = 512;
    std::vector<std::string> type_names;

    void add_to(CLI::App& app) {
        app.add_flag("--json", json);
        app.add_option("--threads", threads)->check(CLI::Range(1, 1024));
        app.add_option("--repeat", repeat)->check(CLI::Range(1, 1000));
        app.add_option("--tokens", tokens, "of the prompt")->check(CLI::Range(1, 8192));
        app.add_option("--types", type_names, "which weight types (default: all)")->delimiter(',');
    }
    bool wants(DType type) const {
        return type_names.empty() || std::ranges::count(type_names, traits(type).name) != 0;
    }
};

/// What a prompt took, and its parts.
struct Prompt {
    double seconds = 0.0;
    StepSeconds step;
};

/// The prompt in the middle, after one that does not count.
Prompt time_prompt(const Model& model, Device& device, const Options& options) {
    const auto generator = must(
        Generator::create(model, device, {.chunk_tokens = options.tokens, .context_tokens_max = options.tokens + 1}));
    const std::vector<int32_t> ids = prompt_of(options.tokens);
    std::vector<Prompt> prompts;
    for (int i = 0; i <= options.repeat; ++i) {
        generator->truncate(0);
        const StepSeconds before = generator->transformer().seconds();
        const auto start = std::chrono::steady_clock::now();
        must(generator->prefill(ids));
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        if (i > 0) prompts.push_back({took.count(), generator->transformer().seconds() - before});
    }
    std::ranges::sort(prompts, {}, &Prompt::seconds);
    return prompts[prompts.size() / 2];
}

using Json = nlohmann::ordered_json;

/// GOP/s that bound products of a prompt: the type's loop, or oneDNN's products of floats where they are faster.
double ceiling_of(DType type, const Options& options) {
    if (type == DType::bf16) return bench::product_ceiling(512, options.threads, options.repeat);
    const double loop = bench::type_loop_rate(type, options.threads, options.repeat);
    if (is_quantized(type)) return loop;
    return std::max(loop, bench::gemm_rate(DType::f32, 512, options.threads, options.repeat));
}

Json measure(const Case& one, Device& device, const Options& options, double bf16_tokens_per_s) {
    const Model model = model_of(one, device);
    if (const double error = chunk_error(model, device); !(error < 5e-2)) {
        std::fprintf(stderr, "%s of %s is wrong: a chunk's logits are %g off\n",
                     std::string(traits(one.type).name).c_str(), one.shape.name, error);
        std::exit(1);
    }
    const double ceiling = ceiling_of(one.type, options);
    const Prompt prompt = time_prompt(model, device, options);
    const StepSeconds& step = prompt.step;
    const double rate = static_cast<double>(options.tokens) / prompt.seconds;
    return {{"model", one.shape.name},
            {"type", traits(one.type).name},
            {"tokens", options.tokens},
            {"tokens_per_s", rate},
            {"times_bf16", bf16_tokens_per_s > 0.0 ? rate / bf16_tokens_per_s : 1.0},
            {"product_gop_per_s", operations(model.spec, options.tokens) / step.product / 1e9},
            {"ceiling_gop_per_s", ceiling},
            {"share",
             {{"product", step.product / prompt.seconds},
              {"attend", step.attend / prompt.seconds},
              {"norm", step.norm / prompt.seconds},
              {"rope", step.rope / prompt.seconds},
              {"append", step.append / prompt.seconds},
              {"activate", step.activate / prompt.seconds}}}};
}

void print_line(const Json& row) {
    const double rate = row["product_gop_per_s"], ceiling = row["ceiling_gop_per_s"];
    std::printf("%-11s %-7s %9.1f %8.2f %9.0f %9.0f %6.0f%%", row["model"].get<std::string>().c_str(),
                row["type"].get<std::string>().c_str(), row["tokens_per_s"].get<double>(),
                row["times_bf16"].get<double>(), rate, ceiling, ceiling > 0.0 ? 100.0 * rate / ceiling : 0.0);
    for (const auto& [name, share] : row["share"].items()) std::printf(" %8.1f%%", 100.0 * share.get<double>());
    std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{"prompts by every type of weights beside the machine's ceilings"};
    Options options;
    options.add_to(app);
    CLI11_PARSE(app, argc, argv);
    const auto device = must(open_device({DeviceKind::cpu, 0, options.threads}));
    if (!options.json) {
        std::printf("%s; prompts of %ld tokens; shares are of their time\n", device->name().c_str(),
                    static_cast<long>(options.tokens));
        std::printf("%-11s %-7s %9s %8s %9s %9s %7s %9s %9s %9s %9s %9s %9s\n", "model", "weights", "tokens/s",
                    "x bf16", "GOP/s", "ceiling", "share", "product", "attend", "norm", "rope", "append", "activate");
    }
    Json out = Json::array();
    std::map<std::string, double> bf16;  // tokens/s, by model
    for (const Case& one : cases) {
        if (!options.wants(one.type)) continue;
        out.push_back(measure(one, *device, options, bf16[one.shape.name]));
        if (one.type == DType::bf16) bf16[one.shape.name] = out.back()["tokens_per_s"];
        if (!options.json) print_line(out.back());
    }
    if (options.json) std::printf("%s\n", out.dump().c_str());
    return 0;
}
