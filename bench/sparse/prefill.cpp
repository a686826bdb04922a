#include "sparse/choices.hpp"
#include "sparse/parts.hpp"

namespace rondo::bench {

namespace {

constexpr int64_t keys = 16384;

/// Lines of each head, and what they cover in all heads.
struct Choice {
    std::string method;
    std::vector<Lines> heads;
    Coverage coverage;
    LinesOfHeads lines;

    Choice(std::string name, const ChunkShape& chunk, std::vector<Lines> chosen)
        : method(std::move(name)), heads(std::move(chosen)), lines(heads) {
        for (const Lines& each : heads) {
            const Coverage of_head = rondo::coverage(chunk, each);
            coverage.covered += of_head.covered;
            coverage.causal += of_head.causal;
        }
    }
    double density() const { return static_cast<double>(coverage.covered) / static_cast<double>(coverage.causal); }
};

/// What `make` makes for each head.
template <class Make>
Choice choose(const std::string& method, const ChunkShape& chunk, int heads, const Make& make) {
    std::vector<Lines> chosen;
    for (int head = 0; head < heads; ++head) chosen.push_back(make(head));
    return {method, chunk, std::move(chosen)};
}

/// The last rows of the context as one chunk.
class Chunk {
public:
    Chunk(const KvStore& store, int64_t rows)
        : context_(store, 0, 0, keys, rows),
          shape_{context_.first_row(), rows, context_.block_begin()},
          heads_(store.shape().heads),
          what_(std::string(store.shape().name) + ", " + std::to_string(rows) + " rows, "),
          q_(random_floats(rows * store.shape().columns(), 3)),
          dense_(q_.size()),
          sparse_(q_.size()) {
        const auto tensor = [&](std::vector<float>& floats) {
            return Tensor::of(floats.data(), DType::f32, rows, store.shape().columns());
        };
        dense_args_ = context_.attend_args(tensor(q_), tensor(dense_));
        sparse_args_ = context_.attend_args(tensor(q_), tensor(sparse_));
        choices_.push_back(choose("dense", shape_, heads_, [&](int head) { return all_lines(shape_, head % 3); }));
        for (const double density : {0.05, 0.1, 0.2}) {
            std::mt19937_64 random(static_cast<uint64_t>(density * 100));
            choices_.push_back(
                choose("lines", shape_, heads_, [&](int) { return random_lines(shape_, density, random); }));
            choices_.push_back(
                choose("blocks", shape_, heads_, [&](int) { return random_blocks(shape_, density, random); }));
        }
    }

    void validate() {
        attend(choices_[0]);
        check(choices_[0], dense_args_);
        expect(ops().attend_lines(sparse_args_, choices_[0].lines.tables()));
        Deviation sum;
        for (size_t i = 0; i < dense_.size(); ++i) sum.add(sparse_[i], dense_[i]);
        expect_small(sum.relative(), what_ + "attention to all lines");
        for (size_t i = 1; i < choices_.size(); ++i) {
            attend(choices_[i]);
            check(choices_[i], sparse_args_);
        }
    }

    std::vector<double> seconds(int rounds) {
        std::vector<std::function<void()>> works;
        for (const Choice& each : choices_) works.emplace_back([this, &each] { attend(each); });
        return seconds_in_turn(rounds, works);
    }

    /// The first is dense.
    std::span<const Choice> choices() const { return choices_; }

private:
    Ops& ops() const { return context_.store().device().ops(); }

    void attend(const Choice& choice) {
        expect(&choice == choices_.data() ? ops().attend(dense_args_)
                                          : ops().attend_lines(sparse_args_, choice.lines.tables()));
    }

    /// A few rows in all heads.
    void check(const Choice& choice, const AttendArgs& args) const {
        Deviation sum;
        for (const int64_t row : {int64_t{0}, shape_.rows / 2 + 5, shape_.rows - 1}) {
            for (int head = 0; head < heads_; ++head) {
                const Lines& lines = choice.heads[static_cast<size_t>(head)];
                context_.compare(args, row, head, keys_of_row(shape_, lines, row), sum);
            }
        }
        expect_small(sum.relative(), what_ + choice.method + " of density " + std::to_string(choice.density()));
    }

    Context context_;
    ChunkShape shape_;
    int heads_;
    std::string what_;
    std::vector<float> q_, dense_, sparse_;
    AttendArgs dense_args_, sparse_args_;
    std::vector<Choice> choices_;
};

}  // namespace

void bench_prefill(const Setting& setting, const KvStore& store, const AddRow& add_row) {
    const AttentionShape& shape = store.shape();
    for (const int64_t rows : {512, 2048}) {
        Chunk chunk(store, rows);
        chunk.validate();
        const std::vector<double> seconds = chunk.seconds(setting.repeat);
        for (size_t i = 0; i < seconds.size(); ++i) {
            const Choice& choice = chunk.choices()[i];
            const double speed_up = seconds[0] / seconds[i];
            const double entries = static_cast<double>(choice.coverage.covered) / seconds[i] / 1e9;
            const double gflops = 4.0 * shape.head_dim * entries;
            add_row({{"shape", shape.name},
                     {"method", choice.method},
                     {"rows", rows},
                     {"keys", keys},
                     {"density", choice.density()},
                     {"ms", seconds[i] * 1e3},
                     {"speed_up", speed_up},
                     {"gentries_per_s", entries},
                     {"of_dense", speed_up * choice.density()},
                     {"gflop_per_s", gflops},
                     {"of_gemm", gflops / setting.gemm_gflop_per_s}});
        }
    }
}

}  // namespace rondo::bench
