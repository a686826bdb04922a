#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/measure/eval/contestant.hpp"
#include "cli/measure/eval/faults.hpp"
#include "cli/measure/eval/roundtalk.hpp"
#include "cli/measure/eval/roundtalk_prompt.hpp"
#include "cli/measure/eval/seed_use.hpp"
#include "kernels/backend.hpp"
#include "model/attention/policies/decode_selection/decode_selection.hpp"
#include "model/model_files.hpp"

namespace rondo::cli::eval {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

EvalRecord record_of(const std::string& method, const std::string& budget, uint64_t dialogue, bool exact) {
    EvalRecord record;
    record.method = method;
    record.budget = budget;
    record.dialogue = dialogue;
    record.exact = exact;
    record.density = budget.empty() ? 1.0 : 0.3;
    record.kl_to_dense = method == dense_name ? 0.0 : 0.01;
    return record;
}

/// 40 dialogues, dense right in 36 of them and the method in 34.
std::vector<EvalRecord> sound() {
    std::vector<EvalRecord> records;
    for (uint64_t i = 0; i < 40; ++i) {
        records.push_back(record_of("dense", "", i, i >= 4));
        records.push_back(record_of("snapkv", "20%", i, i >= 6));
    }
    return records;
}

std::vector<std::string> faults_in(const std::vector<EvalRecord>& records) {
    return find_faults(records, tabulate(records));
}

TEST(EvalFaults, SoundAnswersHaveNone) {
    EXPECT_THAT(faults_in(sound()), IsEmpty());
}

TEST(EvalFaults, AMethodThatSeesTheAnswerIsFound) {
    auto records = sound();
    for (EvalRecord& record : records) record.exact |= record.method == "snapkv";
    EXPECT_THAT(faults_in(records), ElementsAre(HasSubstr("snapkv at 20%: right more often than dense")));
}

TEST(EvalFaults, ADialogueThatCountsTwiceIsFound) {
    auto records = sound();
    records.push_back(records[21]);
    EXPECT_THAT(faults_in(records), ElementsAre("snapkv at 20%: dialogue 10 counts twice"));
}

TEST(EvalFaults, DensePassedOffAsSparseIsFound) {
    auto records = sound();
    for (EvalRecord& record : records) record.kl_to_dense = 0.0;
    EXPECT_THAT(faults_in(records), ElementsAre(HasSubstr("gives dense's logits to the bit at a density of 0.300")));
    for (EvalRecord& record : records) record.density = 1.0;
    EXPECT_THAT(faults_in(records),
                ElementsAre("snapkv at 20%: attends to everything, so it is dense and no comparison"));
}

/// Planted: each head chooses by another head's scores.
class ShuffledHeads final : public DecodeSelection {
public:
    explicit ShuffledHeads(const DecodeAttention& settings) : method_(make_decode_selection(settings)) {}
    ChoiceTriggers triggers() const override { return method_->triggers(); }
    int queries() const override { return method_->queries(); }
    bool wanted(int64_t keys) const override { return method_->wanted(keys); }
    void select(const KeyScores& scores, uint64_t seed, std::span<std::vector<int32_t>> chosen) const override {
        method_->select(scores, seed, chosen);
        std::ranges::rotate(chosen, chosen.begin() + 1);
    }

private:
    const std::unique_ptr<DecodeSelection> method_;
};

/// Forces the demo model's answers to some dialogues of development.
class Trial : public ::testing::Test {
protected:
    void answer(const std::vector<Contestant>& contestants, uint64_t dialogues) {
        for (uint64_t i = 0; i < dialogues; ++i) {
            const uint64_t seed = seeds_of(SeedUse::development).first + i;
            const auto rounds =
                make_dialogue(seed, {.rounds = 6, .tasks = {Task::recall}, .place = Place::end}).value();
            const auto question = make_question(model_, rounds, 5, {}, true).value();
            DensePrompt prompt = std::move(DensePrompt::create(machine_, question).value());
            for (const Contestant& contestant : contestants) {
                const int keys = contestant.has_budget() ? static_cast<int>(question.prompt.size()) / 10 : 8;
                Attempt attempt = prompt.answer(contestant, keys).value();
                ASSERT_TRUE(measure_choices(machine_, contestant, keys, question, attempt));
                EvalRecord record = record_of(contestant.label, contestant.has_budget() ? "10%" : "", seed,
                                              attempt.argmax == question.answer);
                record.task = Task::recall;
                if (!attempt.masses.empty())
                    record.mass_mean = std::accumulate(attempt.masses.begin(), attempt.masses.end(), 0.0) /
                                       static_cast<double>(attempt.masses.size());
                records_.push_back(record);
            }
        }
    }
    static Contestant contestant(const std::string& text) {
        return parse_contestant(
                   text, {"pipeline.decode.attention.cold_tokens=2", "pipeline.decode.attention.reselect_every=4",
                          "pipeline.decode.attention.lag_steps=0"})
            .value();
    }

    const std::unique_ptr<Device> device_ = std::move(open_device(parse_device("cpu:2").value()).value());
    const Model model_ = load_model(demo_model_path(), {}, *device_).value();
    const Machine machine_{.model = model_, .device = *device_, .kv_type = DType::f32};
    std::vector<EvalRecord> records_;
};

TEST_F(Trial, ScoresShuffledBetweenHeadsAreTold) {
    Contestant shuffled = contestant("progressive@pooled");
    shuffled.label = "shuffled";
    shuffled.selection = [](const DecodeAttention& settings, const GoldKeys&) {
        return std::make_unique<ShuffledHeads>(settings);
    };
    answer({contestant("dense"), contestant("progressive@pooled"), shuffled}, 36);
    const auto tables = tabulate(records_, "progressive@pooled");
    const auto row = std::ranges::find(tables.at(0).rows, "shuffled", &EvalTable::Row::method);
    ASSERT_NE(row, tables[0].rows.end());
    EXPECT_LT(row->all.lead_interval.high, 0.0) << "right less often, by an interval without zero";
    std::map<std::string, double> mass;
    for (const EvalRecord& record : records_) mass[record.method] += record.mass_mean.value_or(0.0) / 36;
    EXPECT_LT(mass["shuffled"], mass["progressive@pooled"] - 0.02);
}

TEST_F(Trial, APromptThatManyShareAnswersAsOneOfItsOwnDoes) {
    std::vector<Contestant> all;
    for (const char* each : {"dense", "progressive", "snapkv@printed", "snapkv@pooled", "adakv", "h2o@printed", "quest",
                             "streaming_llm@printed", "recent", "oracle", "dense"}) {
        all.push_back(contestant(each));
    }
    for (const uint64_t seed : {seeds_of(SeedUse::development).first + 50, seeds_of(SeedUse::development).first + 51}) {
        const auto rounds = make_dialogue(seed, {.rounds = 6, .tasks = {Task::recall}, .place = Place::begin}).value();
        const auto question = make_question(model_, rounds, 5, {}, true).value();
        DensePrompt prompt = std::move(DensePrompt::create(machine_, question).value());
        for (const Contestant& each : all) {
            const Attempt shared = prompt.answer(each, 60).value(), own = force(machine_, each, 60, question).value();
            EXPECT_EQ(shared.logits, own.logits) << each.label;
            EXPECT_EQ(shared.bytes_read, own.bytes_read) << each.label;
        }
    }
}

/// What Round Attention stands on: the message finds its round at the watershed, and nowhere near it.
TEST_F(Trial, TheRoundOfTheEvidenceIsChosenAtTheWatershed) {
    std::map<std::string, int> right;
    std::map<std::string, double> density;
    const std::vector<std::string> methods = {"dense", "top_rounds", "top_rounds:watershed_layer=4", "recent_rounds"};
    constexpr int dialogues = 12;
    for (int i = 0; i < dialogues; ++i) {
        const uint64_t seed = seeds_of(SeedUse::development).first + 80 + static_cast<uint64_t>(i);
        const auto rounds = make_dialogue(seed, {.rounds = 12, .tasks = {Task::recall}}).value();
        const auto question = make_question(model_, rounds, 11, {}, true).value();
        EXPECT_EQ(question.round_ends.size(), 11U);
        for (const std::string& method : methods) {
            const Attempt attempt = force(machine_, contestant(method), 8, question).value();
            right[method] += is_answered(model_, question, attempt.argmax) ? 1 : 0;
            density[method] += attempt.density / dialogues;
            EXPECT_EQ(attempt.round_mass.has_value(), method != "dense");
        }
    }
    EXPECT_GE(right["dense"], dialogues - 1);
    EXPECT_GE(right["top_rounds"], right["dense"] - 1);
    EXPECT_LE(right["top_rounds:watershed_layer=4"], dialogues / 2);
    EXPECT_LE(right["recent_rounds"], dialogues / 2);
    EXPECT_EQ(density["dense"], 1.0);
    EXPECT_LT(density["top_rounds"], 0.7);
}

/// A model of several tokens that end an answer writes one of them behind a turn, and not always the first.
TEST_F(Trial, AnyTokenThatEndsAnAnswerMayStandLast) {
    Model model = load_model_text(demo_model_path()).value();
    const auto rounds =
        make_dialogue(seeds_of(SeedUse::development).first, {.rounds = 2, .tasks = {Task::recall}}).value();
    const int32_t own = model.spec.eos_ids.front(), other = own == 7 ? 8 : 7;
    model.spec.eos_ids.insert(model.spec.eos_ids.begin(), other);
    const auto question = make_question(model, rounds, 1, {}, true).value();
    std::vector<int32_t> ids = question.answer;
    for (const int32_t last : {own, other}) {
        ids.back() = last;
        EXPECT_TRUE(is_answered(model, question, ids));
    }
    ids.back() = 9;
    EXPECT_FALSE(is_answered(model, question, ids));
    ids.back() = own;
    ids.front() ^= 1;
    EXPECT_FALSE(is_answered(model, question, ids));
    EXPECT_FALSE(is_answered(model, question, {}));
    model.spec.eos_ids.clear();
    EXPECT_THAT(make_question(model, rounds, 1, {}, true).error().message, HasSubstr("eos_token_id"));
}

TEST_F(Trial, ATemplateMayLeaveOutBlanksAroundAnAnswer) {
    Model model = load_model_text(demo_model_path()).value();
    const char* const template_text =
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}<|end|>{% endfor %}<|assistant|>";
    model.chat_template.emplace(ChatTemplate::parse(template_text, "a template").value());
    const auto rounds =
        make_dialogue(seeds_of(SeedUse::development).first, {.rounds = 3, .tasks = {Task::recall}}).value();
    const std::vector<std::string> plain = {"Noted.", "Fine."}, blank = {" Noted.\n", "\nFine. "};
    const auto expected = make_question(model, rounds, 2, plain, true).value();
    const auto question = make_question(model, rounds, 2, blank, true).value();
    EXPECT_EQ(question.prompt, expected.prompt);
    EXPECT_EQ(question.gold, expected.gold);
}

}  // namespace
}  // namespace rondo::cli::eval
