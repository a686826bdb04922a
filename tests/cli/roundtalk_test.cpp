#include "cli/measure/eval/roundtalk.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/measure/eval/python_random.hpp"

namespace rondo::cli::eval {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const json& fixture() {
    static const json parsed =
        json::parse(std::ifstream(RONDO_SOURCE_DIR "/tests/fixtures/roundtalk.json", std::ios::binary));
    return parsed;
}

DialogueOptions options_of(const json& from) {
    DialogueOptions options;
    options.rounds = from.at("rounds");
    options.facts_per_round = {from.at("facts_per_round")[0], from.at("facts_per_round")[1]};
    options.filler = {from.at("filler")[0], from.at("filler")[1]};
    if (!from.at("kinds").is_null()) {
        for (const std::string name : from.at("kinds")) options.tasks.push_back(parse_task(name).value());
    }
    if (!from.at("where").is_null()) options.place = parse_place(from.at("where").get<std::string>()).value();
    return options;
}

std::string text_of(const DialogueRound& round) {
    std::string evidence;
    for (const size_t each : round.evidence) evidence += (evidence.empty() ? "" : " ") + std::to_string(each);
    return round.user + "\n" + round.answer + "\n" + std::string(to_string(round.task)) + "\n" +
           std::string(to_string(round.place)) + "\n" + evidence + "\n";
}

/// FNV-1a in hexadecimal, as the fixture's maker writes it.
std::string fingerprint(const std::vector<DialogueRound>& rounds) {
    uint64_t state = 0xCBF29CE484222325U;
    for (const DialogueRound& round : rounds) {
        for (const char byte : text_of(round)) state = (state ^ static_cast<unsigned char>(byte)) * 0x100000001B3U;
    }
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(state));
    return text;
}

TEST(PythonRandom, DrawsWhatPythonDraws) {
    struct Expected {
        uint64_t seed;
        double first;
        uint32_t bits, bit;
        int die, million;
        double last;
    };
    const Expected known[] = {
        {0, 0x1.b0580f98a7dbep-1, 3255389356, 1, 4, 42450, 0x1.f19707b3d4e1ap-2},
        {42, 0x1.4762f307200c5p-1, 107420369, 1, 3, 256787, 0x1.a3d1fb5a785a8p-4},
        {4294967296, 0x1.ced31cb3df170p-4, 1794561286, 1, 1, 23930, 0x1.acf9d0e2eb3dep-1},
        {18446744073709551615U, 0x1.659799fd7f980p-6, 1452108352, 1, 2, 478217, 0x1.8936586edaee2p-1},
    };
    const std::vector<double> weights = {0.5, 2, 1};
    for (const Expected& expected : known) {
        PythonRandom random(expected.seed);
        EXPECT_EQ(random.random(), expected.first);
        EXPECT_EQ(random.getrandbits(32), expected.bits);
        EXPECT_EQ(random.getrandbits(1), expected.bit);
        EXPECT_EQ(random.randint(1, 6), expected.die);
        EXPECT_EQ(random.below(1000000), static_cast<uint32_t>(expected.million));
        EXPECT_EQ(random.weighted(weights), 1U);
        random.choice(std::string_view("xyz"));
        EXPECT_EQ(random.random(), expected.last);
    }
}

TEST(PythonRandom, GoesOnAsPythonDoes) {
    PythonRandom random(7);
    for (int i = 0; i < 10000; ++i) random.getrandbits(32);
    EXPECT_EQ(random.getrandbits(32), 4122213605U);
    EXPECT_EQ(random.below(1), 0U);  // which draws too
    EXPECT_EQ(random.getrandbits(32), 4216173803U);
}

TEST(PythonRandom, WeighsAsPythonDoes) {
    PythonRandom random(11);
    const std::vector<double> weights = {0.5, 2, 1};
    std::array<int, 3> counts{};
    for (int i = 0; i < 10000; ++i) ++counts[random.weighted(weights)];
    EXPECT_THAT(counts, ElementsAre(1438, 5747, 2815));
}

TEST(Roundtalk, IsPythonsByteForByte) {
    ASSERT_EQ(fixture().at("dialogues").size(), 40U);
    for (const json& expected : fixture().at("dialogues")) {
        const json& from = expected.at("options");
        const auto rounds = make_dialogue(from.at("seed"), options_of(from));
        ASSERT_TRUE(rounds.is_ok()) << from << rounds.error().message;
        ASSERT_EQ(rounds->size(), expected.at("rounds").size()) << from;
        for (size_t i = 0; i < rounds->size(); ++i) {
            const DialogueRound& round = (*rounds)[i];
            const json made = {round.user, round.answer, to_string(round.task), to_string(round.place), round.evidence};
            EXPECT_EQ(made, expected.at("rounds")[i]) << from << " round " << i;
        }
    }
}

TEST(Roundtalk, HasPythonsFingerprintForEveryMixOfOptions) {
    size_t refused = 0;
    for (const json& expected : fixture().at("fingerprints")) {
        const json& from = expected.at("options");
        const auto rounds = make_dialogue(from.at("seed"), options_of(from));
        if (expected.at("fingerprint").is_null()) {
            ASSERT_FALSE(rounds.is_ok()) << from;
            EXPECT_THAT(rounds.error().message, HasSubstr("none was told; facts_per_round must be at least 1"));
            ++refused;
        } else {
            ASSERT_TRUE(rounds.is_ok()) << from << rounds.error().message;
            EXPECT_EQ(fingerprint(*rounds), expected.at("fingerprint")) << from;
        }
    }
    EXPECT_GT(refused, 0U);
    EXPECT_GT(fixture().at("fingerprints").size(), 200U + refused);
}

TEST(Roundtalk, OneSeedIsOneDialogue) {
    const auto first = make_dialogue(5, {}), again = make_dialogue(5, {}), other = make_dialogue(6, {});
    EXPECT_EQ(fingerprint(*first), fingerprint(*again));
    EXPECT_NE(fingerprint(*first), fingerprint(*other));
}

/// What a dialogue has in all, by the names of the fixture.
std::map<std::string, double> totals_of(const std::vector<DialogueRound>& rounds) {
    std::map<std::string, double> totals;
    for (size_t i = 0; i < rounds.size(); ++i) {
        const DialogueRound& round = rounds[i];
        totals["user_bytes"] += static_cast<double>(round.user.size());
        totals["answer_bytes"] += static_cast<double>(round.answer.size());
        totals["lags"] += static_cast<double>(lag_of(round, i).value_or(0));
        totals["sentences"] += static_cast<double>(
            std::ranges::count_if(round.user, [](char c) { return c == '.' || c == '?' || c == '!'; }));
        totals["corrections"] += round.user.find("Correction: ") != std::string::npos ? 1.0 : 0.0;
        totals["task " + std::string(to_string(round.task))] += 1.0;
        totals["place " + std::string(to_string(round.place))] += 1.0;
    }
    return totals;
}

// Python's figures are over 2,000 dialogues of other seeds. The difference of two such means has a standard error of
// deviation × √(1/2000 + 1/2000); five of them are passed by chance once in two million.
TEST(Roundtalk, HasPythonsDistributionOverOtherSeeds) {
    const json& expected = fixture().at("statistics");
    const int dialogues = expected.at("dialogues");
    DialogueOptions options;
    options.rounds = expected.at("rounds");
    std::map<std::string, double> sums;
    for (int seed = 0; seed < dialogues; ++seed) {
        for (const auto& [name, total] : totals_of(*make_dialogue(static_cast<uint64_t>(seed), options))) {
            sums[name] += total;
        }
    }
    ASSERT_EQ(sums.size(), expected.at("totals").size());
    for (const auto& [name, figures] : expected.at("totals").items()) {
        const double error = figures.at("deviation").get<double>() * std::sqrt(2.0 / dialogues);
        EXPECT_NEAR(sums.at(name) / dialogues, figures.at("mean").get<double>(), 5.0 * error) << name;
    }
}

// After the first round a task is drawn by the weights 9 : 3 : 3 : 1.5 : 1.5 : .7 : 1.2, and a place evenly. A count of
// n such draws has a standard deviation of √(n p (1 − p)); five of them are allowed. An "unknown" becomes a recall
// where its object is known after all: a third of them ask for one of 500 objects, of which these dialogues tell fewer
// than 15, so that at most 1% move.
TEST(Roundtalk, DrawsTasksAndPlacesAsOftenAsTheirWeights) {
    constexpr std::array<double, 7> weights = {9, 3, 3, 1.5, 1.5, 0.7, 1.2};
    std::array<double, 7> tasks{};
    std::array<double, 3> places{};
    double rounds = 0.0;
    for (uint64_t seed = 0; seed < 2000; ++seed) {
        const auto dialogue = make_dialogue(seed, {});
        for (size_t i = 1; i < dialogue->size(); ++i) {
            ++tasks[static_cast<size_t>((*dialogue)[i].task)];
            ++places[static_cast<size_t>((*dialogue)[i].place)];
            ++rounds;
        }
    }
    const auto spread = [&](double share) { return 5.0 * std::sqrt(rounds * share * (1.0 - share)); };
    const double moved = 0.01 * rounds * 1.5 / 19.9;
    for (size_t i = 0; i < weights.size(); ++i) {
        EXPECT_NEAR(tasks[i], rounds * weights[i] / 19.9, spread(weights[i] / 19.9) + moved) << task_names[i];
    }
    for (size_t i = 0; i < places.size(); ++i)
        EXPECT_NEAR(places[i], rounds / 3.0, spread(1.0 / 3.0)) << place_names[i];
}

/// What an answer says of a sentence that told it.
std::string as_answered(std::string sentence) {
    const std::string correction = "Correction: ", meeting = "I meet ";
    if (sentence.starts_with(correction)) sentence.erase(0, correction.size());
    if (sentence.starts_with(meeting)) sentence.replace(0, 1, "You");
    return sentence;
}

TEST(Roundtalk, GoldSpansAreTheSentencesThatTheAnswerRepeats) {
    std::map<Task, size_t> checked;
    size_t corrected = 0;
    for (uint64_t seed = 0; seed < 300; ++seed) {
        const auto rounds = make_dialogue(seed, {});
        for (size_t i = 0; i < rounds->size(); ++i) {
            const DialogueRound& round = (*rounds)[i];
            std::string told;
            std::set<size_t> in_rounds;
            for (const GoldSpan& span : round.gold) {
                ASSERT_LE(span.round, i);
                const DialogueRound& source = (*rounds)[span.round];
                const std::string& text = span.in_answer ? source.answer : source.user;
                ASSERT_LT(span.begin, span.end);
                ASSERT_LE(span.end, text.size());
                const std::string sentence = text.substr(span.begin, span.end - span.begin);
                corrected += sentence.starts_with("Correction: ");
                told += (told.empty() ? "" : " ") + (span.in_answer ? sentence : as_answered(sentence));
                in_rounds.insert(span.round);
            }
            EXPECT_THAT(round.evidence, ::testing::ElementsAreArray(in_rounds)) << seed << " round " << i;
            if (round.gold.empty()) continue;
            EXPECT_EQ(told, round.answer) << seed << " round " << i;
            ++checked[round.task];
        }
    }
    for (const Task task : {Task::recall, Task::local, Task::list, Task::again}) EXPECT_GT(checked[task], 100U);
    EXPECT_EQ(checked.size(), 4U);
    EXPECT_GT(corrected, 50U);
}

TEST(Roundtalk, LagIsToTheOldestEvidence) {
    EXPECT_EQ(lag_of({"", "", Task::list, Place::end, {2, 5}, {}}, 7), 5U);
    EXPECT_EQ(lag_of({"", "", Task::local, Place::end, {7}, {}}, 7), 0U);
    EXPECT_EQ(lag_of({"", "", Task::unknown, Place::end, {}, {}}, 7), std::nullopt);
}

TEST(Roundtalk, ToAskForTheMixIsToAskForNoTask) {
    EXPECT_EQ(parse_asked("mix").value(), std::nullopt);
    EXPECT_EQ(parse_asked("list").value(), Task::list);
}

TEST(Roundtalk, RefusesOptionsWithoutMeaning) {
    const auto refusal = [](auto change) {
        DialogueOptions options;
        change(options);
        const auto rounds = make_dialogue(1, options);
        return rounds.is_ok() ? std::string("accepted") : rounds.error().message;
    };
    EXPECT_EQ(refusal([](DialogueOptions& o) { o.rounds = 0; }), "roundtalk: rounds is 0, must be 1 to 1000");
    EXPECT_THAT(refusal([](DialogueOptions& o) { o.rounds = 1001; }), HasSubstr("rounds is 1001"));
    EXPECT_EQ(refusal([](DialogueOptions& o) {
                  o.filler = {3, 2};
              }),
              "roundtalk: filler is 3 to 2, must be a range within 0 to 64");
    EXPECT_THAT(refusal([](DialogueOptions& o) { o.facts_per_round = {1, 17}; }), HasSubstr("facts_per_round is 1"));
    EXPECT_THAT(refusal([](DialogueOptions& o) { o.facts_per_round = {-1, 2}; }), HasSubstr("facts_per_round is -1"));
    EXPECT_EQ(refusal([](DialogueOptions& o) {
                  o.facts_per_round = {0, 0};
              }),
              "roundtalk: round 1 asks for a fact and none was told; facts_per_round must be at least 1");
    EXPECT_EQ(parse_task("sum").error().message,
              "task \"sum\" is not known, must be recall, local, list, again, unknown, chat, tell");
    EXPECT_EQ(parse_asked("sum").error().message,
              parse_task("sum").error().message + ", or mix for what the model was trained on");
    EXPECT_EQ(parse_place("top").error().message, "question place \"top\" is not known, must be begin, middle, end");
}

}  // namespace
}  // namespace rondo::cli::eval
