#include "model/attention/policies/prefill_sparsity/head_patterns.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "model/generator.hpp"
#include "tests/model/sampled_attention.hpp"
#include "tests/model/tiny_engine.hpp"

namespace rondo {
namespace {

using PatternKind = HeadPattern::Kind;
using testing::need;
using testing::Pattern;

constexpr std::string_view two_heads =
    R"([{"0": ["vertical_and_slash", 200, 320, 0.98], "1": ["stream_llm", 5, 33, 1.0]},
        {"0": ["block_sparse", 2, 0, 0.5], "1": ["vertical_and_slash", 0, 0]}])";

HeadPatterns parsed(std::string_view json) {
    return need(HeadPatterns::parse(json, "patterns.json", 2, 2));
}

TEST(HeadPatterns, AreReadAsTheSearchWritesThem) {
    const HeadPatterns patterns = parsed(two_heads);
    EXPECT_EQ(patterns.of(0, 0), (HeadPattern{PatternKind::lines, 200, 320}));
    EXPECT_EQ(patterns.of(0, 1), (HeadPattern{PatternKind::window, 5, 33}));
    EXPECT_EQ(patterns.of(1, 0), (HeadPattern{PatternKind::blocks, 2, 0}));
    EXPECT_EQ(patterns.of(1, 1), (HeadPattern{PatternKind::lines, 0, 0}));
    EXPECT_TRUE(patterns.any(PatternKind::blocks));
    EXPECT_TRUE(HeadPatterns().empty());
    EXPECT_FALSE(HeadPatterns().any(PatternKind::lines));
}

TEST(HeadPatterns, OfAnotherModelOrNoneAreOneLineOfError) {
    const std::pair<std::string_view, std::string_view> wrong[] = {
        {"", "not valid JSON"},
        {"{}", "must be a list of 2 layers"},
        {R"([{"0": ["stream_llm", 1, 1], "1": ["stream_llm", 1, 1]}])", "holds 1 layers"},
        {R"([{"0": ["stream_llm", 1, 1]}, {}])", "layer 0: the file must be a list"},
        {R"([{"0": ["stream_llm", 1, 1], "2": ["stream_llm", 1, 1]}, {}])", "layer 0 has no head 1"},
        {R"([{"0": ["tri_shape", 1, 1], "1": ["stream_llm", 1, 1]}, {}])", "layer 0, head 0: 'tri_shape' must be"},
        {R"([{"0": ["stream_llm", -1, 1], "1": ["stream_llm", 1, 1]}, {}])", "layer 0, head 0 must be ["},
        {R"([{"0": ["stream_llm", 1, 99999999999], "1": 7}, {}])", "layer 0, head 0 must be ["},
        {R"([{"0": ["stream_llm", 1, 1.5], "1": 7}, {}])", "layer 0, head 0 must be ["},
        {R"([{"0": ["stream_llm", 1], "1": 7}, {}])", "layer 0, head 0 must be ["},
        {R"([[], []])", "layer 0: the file must be a list"},
    };
    for (const auto& [json, message] : wrong) {
        const auto made = HeadPatterns::parse(json, "patterns.json", 2, 2);
        ASSERT_FALSE(made.is_ok()) << json;
        EXPECT_TRUE(made.error().message.starts_with("patterns.json: ")) << made.error().message;
        EXPECT_NE(made.error().message.find(message), std::string::npos) << made.error().message;
        EXPECT_EQ(made.error().message.find('\n'), std::string::npos);
    }
}

/// What each head of a layer of `two_heads` chooses in a chunk of 96 rows that ends with key 1696.
class MInferenceByPatterns : public ::testing::Test {
protected:
    Lines choose(int layer, int head, std::span<const float> scores = {}) {
        Lines lines;
        SampledRows sampled = in_.sampled();
        sampled.layer = layer;
        sampled.head = head;
        sampled.block_scores = scores;
        method_->select(in_.chunk(), sampled, lines);
        return lines;
    }
    int64_t blocks() const { return in_.chunk().blocks(); }
    int64_t first_block() const { return in_.block_of(in_.first_row); }

    const testing::SampledAttention in_ =
        testing::sampled_attention({.first_row = 1600, .rows = 96, .sampled = 64, .spread = false}, Pattern::peaked, 5);
    const std::unique_ptr<PrefillSparsity> method_ =
        make_prefill_sparsity({.method = PrefillAttention::Method::minference, .density = 1.0}, parsed(two_heads));
};

TEST_F(MInferenceByPatterns, LinesAreTakenInTheCountsThatStandThere) {
    const Lines many = choose(0, 0);
    EXPECT_EQ(many.columns.size(), 200U);
    EXPECT_EQ(many.bands.size(), 320U / 16);
    const Lines few = choose(1, 1);
    EXPECT_EQ(few.columns.size(), 30U) << "what is always taken";
    EXPECT_EQ(few.bands.size(), 8U) << "100 diagonals, also of a block's first row";
    EXPECT_TRUE(std::ranges::includes(many.columns, few.columns));
}

TEST_F(MInferenceByPatterns, AWindowHoldsTheFirstAndTheNearestKeys) {
    const Lines lines = choose(0, 1);
    EXPECT_EQ(lines.columns, (std::vector<int32_t>{0, 1, 2, 3, 4}));
    EXPECT_EQ(lines.bands, (std::vector<int32_t>{0, 1, 2})) << "a block's first row sees 32 keys before itself";
}

TEST_F(MInferenceByPatterns, BlocksAreThoseWithTheGreatestScores) {
    std::vector<float> scores(static_cast<size_t>((blocks() - first_block()) * blocks()));
    std::mt19937 random(3);
    for (float& score : scores) score = static_cast<float>(random() % 1000);
    EXPECT_TRUE(method_->sampling().blocks);
    const Lines lines = choose(1, 0, scores);
    EXPECT_TRUE(std::ranges::is_sorted(lines.blocks));
    EXPECT_EQ(lines.bands, (std::vector<int32_t>{0}));
    for (int64_t row = first_block(); row < blocks(); ++row) {
        const auto score = [&](int64_t block) {
            return scores[static_cast<size_t>((row - first_block()) * blocks() + block)];
        };
        std::vector<bool> taken(static_cast<size_t>(row));
        for (const Lines::Block& each : lines.blocks) {
            if (each.row_block == row) taken.at(static_cast<size_t>(each.key_block)) = true;
        }
        EXPECT_EQ(std::ranges::count(taken, true), 8) << "two of 64 keys are eight of 16";
        float least = 1e9F, greatest = -1e9F;
        for (int64_t block = 0; block < row; ++block) {
            if (taken[static_cast<size_t>(block)]) {
                least = std::min(least, score(block));
            } else {
                greatest = std::max(greatest, score(block));
            }
        }
        EXPECT_GE(least, greatest);
    }
    scores[7] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(choose(1, 0, scores).dense_rows, in_.row_count) << "no number: everything";
}

/// A model whose heads see windows by a file: as wide as a layer is given.
class MInferenceFile : public ::testing::Test {
protected:
    Generator::Options options(const std::string& json) {
        folder_.write("patterns.json", json);
        Generator::Options options;
        options.chunk_tokens = 64;
        options.kv_type = DType::f32;
        options.context_tokens_max = 256;
        options.prefill = {.method = PrefillAttention::Method::minference, .min_tokens = 0};
        options.prefill.patterns_file = (folder_.path() / "patterns.json").string();
        return options;
    }
    std::string windows(const std::function<int64_t(int layer)>& keys) const {
        std::string json;
        for (int layer = 0; layer < model_.spec.layers; ++layer) {
            json += layer == 0 ? "[{" : ", {";
            for (int head = 0; head < model_.spec.heads; ++head) {
                json += (head == 0 ? "\"" : ", \"") + std::to_string(head) + R"(": ["stream_llm", 0, )" +
                        std::to_string(keys(layer)) + ", 1]";
            }
            json += "}";
        }
        return json + "]";
    }
    std::vector<float> logits(const Generator::Options& options) {
        const auto generator = need(Generator::create(model_, *device_, options));
        need(generator->prefill(ids_));
        return {generator->logits().begin(), generator->logits().end()};
    }

    const std::unique_ptr<Device> device_ = need(open_device(need(parse_device("cpu:2"))));
    const Model model_ =
        testing::load_case(golden::with_layers(golden::read_case("llama_gqa1_head32_tied"), 3), DType::f32, *device_);
    const std::vector<int32_t> ids_ = [this] {
        std::mt19937 random(7);
        return testing::random_ids(random, 200, model_.spec.vocabulary);
    }();
    const testing::TemporaryFolder folder_;
};

TEST_F(MInferenceFile, GivesEachLayerItsOwnPatterns) {
    Generator::Options dense = options("");
    dense.prefill = {};
    const std::vector<float> expected = logits(dense);
    constexpr int64_t all = 100'000, few = 16;
    EXPECT_LE(golden::relative_error(logits(options(windows([](int) { return all; }))), expected), 1e-5);
    std::vector<std::vector<float>> narrow;
    for (int narrowed = 0; narrowed < model_.spec.layers; ++narrowed) {
        narrow.push_back(logits(options(windows([&](int layer) { return layer == narrowed ? few : all; }))));
        EXPECT_GT(golden::relative_error(narrow.back(), expected), 1e-4) << narrowed;
    }
    EXPECT_GT(golden::relative_error(narrow[0], narrow[1]), 1e-4);
    EXPECT_GT(golden::relative_error(narrow[1], narrow[2]), 1e-4);
}

TEST_F(MInferenceFile, ThatIsNotOfTheModelStopsItsStart) {
    const auto wrong = Generator::create(model_, *device_, options("[]"));
    ASSERT_FALSE(wrong.is_ok());
    EXPECT_NE(wrong.error().message.find("patterns.json: holds 0 layers"), std::string::npos) << wrong.error().message;
    Generator::Options missing = options("");
    missing.prefill.patterns_file = (folder_.path() / "none.json").string();
    EXPECT_FALSE(Generator::create(model_, *device_, missing).is_ok());
}

}  // namespace
}  // namespace rondo
