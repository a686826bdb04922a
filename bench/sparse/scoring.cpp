#include <numeric>

#include "model/attention/policies/prefill_sparsity/prefill_sparsity.hpp"
#include "sparse/parts.hpp"

namespace rondo::bench {

namespace {

constexpr int64_t chunk_rows = 2048;  // of which rows are sampled

std::vector<int32_t> first_keys(int64_t count) {
    std::vector<int32_t> keys(static_cast<size_t>(count));
    std::iota(keys.begin(), keys.end(), 0);
    return keys;
}

/// Some rows whose attention to all keys of a context is scored.
class Scored {
public:
    Scored(const Context& context, std::vector<int32_t> row_keys)
        : context_(context), row_keys_(std::move(row_keys)), q_(random_floats(rows() * shape().columns(), 4)) {}

    int64_t rows() const { return std::ssize(row_keys_); }
    ScoreArgs args() {
        return context_.score_args(Tensor::of(q_.data(), DType::f32, rows(), shape().columns()), row_keys_.data());
    }
    double gflop() const {
        return 2e-9 * static_cast<double>(shape().columns() * rows()) * static_cast<double>(context_.keys());
    }

    /// Three rows in all heads, and that nothing stands where they see nothing.
    double error_of_rows() {
        const ScoreArgs scored = args();
        std::vector<Deviation> heads(static_cast<size_t>(shape().heads));
        expect(ops().score_rows(scored, [&](int head, const Tensor& weights) {
            for (const int64_t row : {int64_t{0}, rows() / 2, rows() - 1}) {
                const std::vector<double> wanted = weights_of(scored.q, row, head);
                const float* const got = weights.row<const float>(row);
                for (size_t key = 0; key < static_cast<size_t>(context_.keys()); ++key)
                    heads[static_cast<size_t>(head)].add(got[key], key < wanted.size() ? wanted[key] : 0.0);
            }
        }));
        Deviation sum;
        for (const Deviation& head : heads) sum.add(head);
        return sum.relative();
    }

    /// All rows in the heads of the last KV head.
    double error_of_keys() {
        const ScoreArgs scored = args();
        const std::vector<float>& out = score_keys();
        const auto keys = static_cast<size_t>(context_.keys());
        std::vector<double> wanted(keys);
        for (int head = shape().heads - shape().group(); head < shape().heads; ++head) {
            for (int64_t row = 0; row < rows(); ++row) {
                const std::vector<double> weights = weights_of(scored.q, row, head);
                for (size_t key = 0; key < weights.size(); ++key) wanted[key] += weights[key] / shape().group();
            }
        }
        Deviation sum;
        for (size_t key = 0; key < keys; ++key) sum.add(out[out.size() - keys + key], wanted[key]);
        return sum.relative();
    }

    void score_rows() {
        expect(ops().score_rows(args(), [](int, const Tensor&) {}));
    }
    const std::vector<float>& score_keys() {
        out_.resize(static_cast<size_t>(shape().kv_heads * context_.keys()));
        expect(ops().score_keys(Tensor::of(out_.data(), DType::f32, shape().kv_heads, context_.keys()), args()));
        return out_;
    }

private:
    const AttentionShape& shape() const { return context_.store().shape(); }
    Ops& ops() const { return context_.store().device().ops(); }
    std::vector<double> weights_of(const Tensor& q, int64_t row, int head) const {
        return context_.weights(q, row, head, first_keys(row_keys_[static_cast<size_t>(row)] + 1));
    }

    const Context& context_;
    std::vector<int32_t> row_keys_;
    std::vector<float> q_, out_;
};

/// The last `count` keys.
std::vector<int32_t> last_keys(const Context& context, int32_t count) {
    std::vector<int32_t> keys(static_cast<size_t>(count));
    std::iota(keys.begin(), keys.end(), static_cast<int32_t>(context.keys()) - count);
    return keys;
}

}  // namespace

void bench_scoring(const Setting& setting, const KvStore& store, const AddRow& add_row) {
    const AttentionShape& shape = store.shape();
    for (const int64_t keys : {8192, 16384, 32768}) {
        const Context context(store, 0, 0, keys, chunk_rows);
        std::vector<int32_t> sampled = sample_rows(chunk_rows, 64, 1);
        for (int32_t& row : sampled) row += static_cast<int32_t>(context.first_row());
        Scored rows(context, std::move(sampled)), few(context, last_keys(context, 4)),
            more(context, last_keys(context, 16));

        const std::string what = std::string(shape.name) + ", " + std::to_string(keys) + " keys, ";
        expect_small(rows.error_of_rows(), what + "score_rows");
        expect_small(few.error_of_keys(), what + "score_keys of 4");
        expect_small(more.error_of_keys(), what + "score_keys of 16");

        const std::vector<std::function<void()>> works{[&] { rows.score_rows(); }, [&] { few.score_keys(); },
                                                       [&] { more.score_keys(); }};
        const std::vector<double> seconds = seconds_in_turn(3 * setting.repeat, works);
        const Scored* const scored[] = {&rows, &few, &more};
        for (size_t i = 0; i < seconds.size(); ++i) {
            const double gflops = scored[i]->gflop() / seconds[i];
            add_row({{"shape", shape.name},
                     {"op", i == 0 ? "score_rows" : "score_keys"},
                     {"rows", scored[i]->rows()},
                     {"keys", keys},
                     {"ms", seconds[i] * 1e3},
                     {"gflop_per_s", gflops},
                     {"of_gemm", gflops / setting.gemm_gflop_per_s}});
        }
    }
}

}  // namespace rondo::bench
