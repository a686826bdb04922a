// What a model attends to, beside what tools/attention_figures.py computed in float64 from the papers' definitions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/measure/attention/measure_dialogue.hpp"
#include "cli/measure/attention/summary.hpp"
#include "tests/model/tiny_engine.hpp"

namespace rondo::cli::attention {
namespace {

using nlohmann::json;
using testing::need;

constexpr double tolerance = 1e-4;

class AttentionGolden : public ::testing::Test {
protected:
    AttentionGolden() {
        tokens_.name = "golden";
        tokens_.ids = fixture_.at("tokens").get<std::vector<int32_t>>();
        tokens_.prompt = fixture_.at("prompt");
        tokens_.round_begins = fixture_.at("rounds").get<std::vector<size_t>>();
        tokens_.question_begin = fixture_.at("question");
        tokens_.turn_ends = fixture_.at("turns").get<std::vector<size_t>>();
        choice_ = {fixture_.at("gamma"), fixture_.at("layer_ratio")};
    }

    static json read() {
        std::ifstream file(RONDO_SOURCE_DIR "/tests/fixtures/golden/attention.json");
        return json::parse(file).at("cases").at(0);
    }
    Conversation measure(size_t kept_bytes_max = MeasureOptions{}.kept_bytes_max) {
        MeasureOptions options;
        options.kv_type = DType::f32;
        options.kept_bytes_max = kept_bytes_max;
        const auto going_on = [](size_t) { return true; };
        return conversation_of(tokens_, need(measure_dialogue(model_, *device_, options, tokens_, going_on)), choice_);
    }
    /// The fixture's numbers of a layer.
    Masses said(const char* key, size_t layer) const { return fixture_.at(key).at(layer).get<Masses>(); }
    double number(const char* key, size_t layer) const { return fixture_.at(key).at(layer); }

    const json fixture_ = read();
    const std::unique_ptr<Device> device_ = need(open_device(need(parse_device("cpu:2"))));
    const Model model_ = testing::load_case(golden::read_cases("attention").at(0), DType::f32, *device_);
    DialogueTokens tokens_;
    PairChoice choice_;
};

void expect_near(const Masses& actual, const Masses& expected, const char* what) {
    ASSERT_EQ(actual.size(), expected.size()) << what;
    for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], tolerance) << what << " " << i;
}

TEST_F(AttentionGolden, FiguresOfLayersAreNumpys) {
    const Conversation conversation = measure();
    ASSERT_EQ(conversation.layers.size(), 6U);
    for (size_t i = 0; i < conversation.layers.size(); ++i) {
        SCOPED_TRACE(i);
        const LayerFigures& layer = conversation.layers[i];
        EXPECT_NEAR(layer.initial_recent, number("initial_recent", i), tolerance);
        expect_near(layer.question, said("question_masses", i), "question");
        expect_near(layer.answer, said("answer_masses", i), "answer");
        expect_near(layer.last_row, said("last_row_masses", i), "last row");
        EXPECT_NEAR(top_share(layer.question), number("top_share", i), tolerance);
        EXPECT_EQ(top_rounds(layer.question).front() + 1, fixture_.at("top_rounds").at(i).at(0));
        EXPECT_NEAR(rank_correlation(layer.question, layer.answer).value(), number("rank_correlation", i), tolerance);
        EXPECT_NEAR(layer.line_share, number("line_share", i), tolerance);
        EXPECT_NEAR(layer.line_overlap.value(), number("line_overlap", i), tolerance);
    }
}

TEST_F(AttentionGolden, FiguresBetweenLayersAreNumpys) {
    const Conversation conversation = measure();
    expect_near(conversation.divergences, fixture_.at("divergences").get<Masses>(), "D");
    for (size_t i = 0; i < 6; ++i) {
        const auto row = conversation.distances.begin() + static_cast<std::ptrdiff_t>(6 * i);
        expect_near(Masses(row, row + 6), said("distances", i), "distances");
    }
    json pairs = json::array();
    for (const LayerPair& pair : conversation.pairs) pairs.push_back({pair.lower + 1, pair.upper + 1});
    EXPECT_EQ(pairs, fixture_.at("pairs"));
}

/// Small chunks, each of one block, give what one chunk a turn gives; but lines, which are of a turn's last chunk.
TEST_F(AttentionGolden, DoNotDependOnHowLittleMayBeKept) {
    const Conversation whole = measure(), pieces = measure(size_t{4} * 6 * 4 * tokens_.ids.size());
    expect_near(pieces.divergences, whole.divergences, "D");
    expect_near(pieces.distances, whole.distances, "distances");
    for (size_t i = 0; i < whole.layers.size(); ++i) {
        EXPECT_NEAR(pieces.layers[i].initial_recent, whole.layers[i].initial_recent, tolerance);
        expect_near(pieces.layers[i].question, whole.layers[i].question, "question");
        expect_near(pieces.layers[i].answer, whole.layers[i].answer, "answer");
    }
}

/// Sums of 16 keys are nearer to each other than the keys are.
TEST_F(AttentionGolden, PooledKeysGiveSmallerDistances) {
    const Conversation whole = measure(), pooled = measure(size_t{4} * 6 * 4 * tokens_.ids.size() / 10);
    for (size_t i = 0; i < whole.distances.size(); ++i) {
        EXPECT_LE(pooled.distances[i], whole.distances[i]);
        EXPECT_EQ(pooled.distances[i] > 0.0, whole.distances[i] > 0.0);
    }
}

TEST_F(AttentionGolden, StopsWhereItIsToldTo) {
    const auto stopped = measure_dialogue(model_, *device_, {}, tokens_, [](size_t) { return false; });
    ASSERT_FALSE(stopped.is_ok());
    EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
}

}  // namespace
}  // namespace rondo::cli::attention
