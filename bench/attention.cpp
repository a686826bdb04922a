// Attention through Ops::attend over depth, checked against double and then timed: one decode row beside the rate at
// which memory is read, a chunk of 512 rows beside the rate of products, for each type of KV.
// usage: bench_attention [--json] [--threads N] [--repeat R] [--kv bf16,i8,f32] [--depths 512,8192]
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <thread>

#include "kernels/backend.hpp"
#include "kernels/ops.hpp"
#include "machine/machine.hpp"

namespace {

using namespace rondo;

/// `layers` layers of one sequence of `depth` keys, and the queries of its last `rows` tokens.
class Sequence {
public:
    Sequence(Device& device, DType kv, int heads, int kv_heads, int head_dim, int64_t depth, int64_t rows, int layers)
        : device_(device),
          atom_{kv, head_dim},
          heads_(heads),
          kv_heads_(kv_heads),
          d_(head_dim),
          depth_(depth),
          rows_(rows),
          layers_(layers),
          blocks_((depth + kv_block_tokens - 1) / kv_block_tokens) {
        layer_bytes_ = static_cast<size_t>(blocks_ * kv_heads) * atom_.bytes();
        pool_ = std::move(device.allocate(layer_bytes_ * static_cast<size_t>(layers))).value();
        std::mt19937 random(5);
        std::normal_distribution<float> normal;
        k_.resize(static_cast<size_t>(depth * kv_heads * head_dim));
        v_.resize(k_.size());
        q_.resize(static_cast<size_t>(rows * heads * head_dim));
        for (auto* side : {&k_, &v_, &q_}) {
            for (float& value : *side) value = normal(random);
        }
        out_.resize(q_.size());
        for (int64_t i = 0; i < depth; ++i) slots_.push_back(static_cast<int32_t>(i));
        for (int64_t b = 0; b <= blocks_; ++b) {
            ids_.push_back(static_cast<int32_t>(b));
            begins_.push_back(static_cast<int32_t>(std::min<int64_t>(b * kv_block_tokens, depth)));
        }
        const int64_t columns = int64_t{kv_heads} * head_dim;
        for (int l = 0; l < layers; ++l) {
            (void)device.ops()
                .append_kv(layer(l), Tensor::of(k_.data(), DType::f32, depth, columns),
                           Tensor::of(v_.data(), DType::f32, depth, columns), slots_.data())
                .is_ok();
        }
    }

    void attend(int l) {
        const auto kv_length = static_cast<int32_t>(depth_), block_count = static_cast<int32_t>(blocks_);
        const int32_t row_begin[2] = {0, static_cast<int32_t>(rows_)};
        AttendArgs args;
        args.q = Tensor::of(q_.data(), DType::f32, rows_, int64_t{heads_} * d_);
        args.out = Tensor::of(out_.data(), DType::f32, rows_, int64_t{heads_} * d_);
        args.heads = heads_;
        args.kv = layer(l);
        args.sequences = {1,           static_cast<int>(rows_), blocks_ + 1, row_begin, &kv_length, &block_count,
                          ids_.data(), begins_.data()};
        args.scale = 1.0F / std::sqrt(static_cast<float>(d_));
        args.rows = rows_ == 1 ? Rows::invariant : Rows::bulk;
        (void)device_.ops().attend(args).is_ok();
    }

    /// ‖Δ‖ / ‖reference‖ of the first row.
    double relative_error() {
        attend(0);
        double difference = 0.0, norm = 0.0;
        const int64_t keys = depth_ - rows_ + 1;
        for (int h = 0; h < heads_; ++h) {
            const int64_t kv_head = h / (heads_ / kv_heads_);
            std::vector<double> weight(static_cast<size_t>(keys)), sum(static_cast<size_t>(d_));
            double total = 0.0;
            for (int64_t t = 0; t < keys; ++t) {
                double dot = 0.0;
                for (int64_t c = 0; c < d_; ++c)
                    dot += double{q_[static_cast<size_t>(h * d_ + c)]} *
                           k_[static_cast<size_t>((t * kv_heads_ + kv_head) * d_ + c)];
                total += weight[static_cast<size_t>(t)] = std::exp(dot / std::sqrt(static_cast<double>(d_)));
            }
            for (int64_t t = 0; t < keys; ++t) {
                for (int64_t c = 0; c < d_; ++c)
                    sum[static_cast<size_t>(c)] += weight[static_cast<size_t>(t)] / total *
                                                   v_[static_cast<size_t>((t * kv_heads_ + kv_head) * d_ + c)];
            }
            for (int64_t c = 0; c < d_; ++c) {
                difference += std::pow(sum[static_cast<size_t>(c)] - out_[static_cast<size_t>(h * d_ + c)], 2);
                norm += std::pow(sum[static_cast<size_t>(c)], 2);
            }
        }
        return std::sqrt(difference / norm);
    }

    double bytes() const { return static_cast<double>(layer_bytes_); }
    double flops() const {
        return 4.0 * heads_ * d_ * static_cast<double>(rows_) *
               (static_cast<double>(depth_) - static_cast<double>(rows_ - 1) / 2);
    }
    int layers() const { return layers_; }

private:
    /// As in a KvPool: a block holds its 16 tokens of all layers, so a layer's keys lie far apart.
    KvLayer layer(int l) const {
        const size_t of_a_layer = static_cast<size_t>(kv_heads_) * atom_.bytes();
        return {pool_.as<std::byte>() + static_cast<size_t>(l) * of_a_layer, static_cast<size_t>(layers_) * of_a_layer,
                kv_heads_, atom_};
    }

    Device& device_;
    KvAtom atom_;
    int heads_, kv_heads_, d_;
    int64_t depth_, rows_;
    int layers_;
    int64_t blocks_;
    size_t layer_bytes_ = 0;
    Buffer pool_;
    std::vector<float> q_, k_, v_, out_;
    std::vector<int32_t> slots_, ids_, begins_;
};

struct Shape {
    const char* name;
    int heads, kv_heads, head_dim;
};
constexpr Shape shapes[] = {
    {"14 heads on 2, d 64", 14, 2, 64}, {"16 heads on 16, d 64", 16, 16, 64}, {"32 heads on 8, d 128", 32, 8, 128}};

/// The reference keeps keys and values as they were before they were stored.
double error_allowed(DType kv) {
    return kv == DType::f32 ? 1e-4 : kv == DType::bf16 ? 2e-2 : 4e-2;
}

struct Ceilings {
    double read, gemm;
};

/// One line of the table; nothing where the result is wrong.
std::optional<nlohmann::ordered_json> measure(Device& device, DType kv, const Shape& shape, int64_t depth, int64_t rows,
                                              int repeat, const Ceilings& ceilings) {
    const size_t layer_bytes = size_t{4} * static_cast<size_t>(depth * shape.kv_heads * shape.head_dim);
    const int layers = rows == 1 ? static_cast<int>(std::clamp<size_t>((size_t{512} << 20) / layer_bytes, 1, 64)) : 1;
    Sequence sequence(device, kv, shape.heads, shape.kv_heads, shape.head_dim, depth, rows, layers);
    const std::string name(traits(kv).name);
    if (const double error = sequence.relative_error(); !(error < error_allowed(kv))) {
        std::fprintf(stderr, "%s, %s KV, at depth %ld is wrong: relative error %g\n", shape.name, name.c_str(),
                     static_cast<long>(depth), error);
        return std::nullopt;
    }
    const auto all_layers = [&] {
        for (int l = 0; l < sequence.layers(); ++l) sequence.attend(l);
    };
    const double seconds = bench::seconds_median(repeat, all_layers) / sequence.layers();
    const double rate = (rows == 1 ? sequence.bytes() : sequence.flops()) / seconds / 1e9;
    return nlohmann::ordered_json{{"shape", shape.name},
                                  {"kv", name},
                                  {"depth", depth},
                                  {"rows", rows},
                                  {"rate", rate},
                                  {"unit", rows == 1 ? "GB/s" : "GFLOP/s"},
                                  {"ceiling", rows == 1 ? ceilings.read : ceilings.gemm}};
}

void print(const nlohmann::ordered_json& line) {
    const double rate = line["rate"], ceiling = line["ceiling"];
    std::printf("%-22s %6s %8ld %6ld %7.1f %-7s %7.1f %7.0f%%\n", line["shape"].get<std::string>().c_str(),
                line["kv"].get<std::string>().c_str(), line["depth"].get<long>(), line["rows"].get<long>(), rate,
                line["unit"].get<std::string>().c_str(), ceiling, 100 * rate / ceiling);
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{"attention over depth beside the machine's ceilings"};
    bool json = false;
    int threads = static_cast<int>(std::thread::hardware_concurrency());
    int repeat = 5;
    std::vector<std::string> kv_types{"bf16", "i8", "f32"};
    std::vector<int64_t> depths{512, 2048, 8192, 32768};
    app.add_flag("--json", json);
    app.add_option("--threads", threads)->check(CLI::Range(1, 1024));
    app.add_option("--repeat", repeat)->check(CLI::Range(1, 1000));
    app.add_option("--kv", kv_types, "types of KV")->delimiter(',')->check(CLI::IsMember({"bf16", "i8", "f32"}));
    app.add_option("--depths", depths, "keys")->delimiter(',')->check(CLI::Range(512, 1 << 20));
    CLI11_PARSE(app, argc, argv);
    const auto device = std::move(open_device({DeviceKind::cpu, 0, threads})).value();
    nlohmann::ordered_json out = nlohmann::ordered_json::array();
    const Ceilings ceilings{bench::read_rate(threads, repeat), bench::product_ceiling(512, threads, repeat)};
    if (!json)
        std::printf("%s\n%-22s %6s %8s %6s %12s %10s %8s\n", device->name().c_str(), "shape", "kv", "depth", "rows",
                    "rate", "ceiling", "share");
    for (const std::string& kv : kv_types) {
        const DType type = kv == "i8" ? DType::i8 : kv == "f32" ? DType::f32 : DType::bf16;
        for (const Shape& shape : shapes) {
            for (const int64_t depth : depths) {
                for (const int64_t rows : {1, 512}) {
                    auto line = measure(*device, type, shape, depth, rows, repeat, ceilings);
                    if (!line) return 1;
                    if (!json) print(*line);
                    out.push_back(std::move(*line));
                }
            }
        }
    }
    if (json) std::printf("%s\n", out.dump().c_str());
    return 0;
}
