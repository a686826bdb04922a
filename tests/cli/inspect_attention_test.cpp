#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "tests/cli/rondo_process.hpp"
#include "tests/cli/rondo_terminal.hpp"
#include "tests/cli/svg_check.hpp"
#include "tests/model/golden_models.hpp"
#include "tests/model/model_bytes.hpp"

namespace rondo {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using testing::expect_error;
using testing::expect_failure;
using ::testing::HasSubstr;
using testing::run_json;
using testing::run_rondo;
using testing::TemporaryFolder;

std::vector<std::string> attention(const std::vector<std::string>& more) {
    std::vector<std::string> words = {"inspect", "attention"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

json message(const std::string& role, const std::string& content) {
    return {{"role", role}, {"content", content}};
}

/// A file of dialogues, and what the program makes of it.
class AttentionOfAFile : public ::testing::Test {
protected:
    void write(const std::vector<json>& dialogues) {
        std::string text;
        for (const json& dialogue : dialogues) text += dialogue.dump() + "\n";
        folder_.write("talk.jsonl", text);
    }
    std::string file() const { return (folder_.path() / "talk.jsonl").string(); }
    std::vector<std::string> words() const { return attention({"--dialogues", file()}); }

    static json three_rounds() {
        return {{"messages",
                 {message("user", "The code of the red box is 4821. Hello."), message("assistant", "Noted."),
                  message("user", "The weather was calm all day."), message("assistant", "Noted."),
                  message("user", "What is the code of the red box?"),
                  message("assistant", "The code of the red box is 4821.")}},
                {"evidence", {1}}};
    }
    static json one_round() { return {{"messages", {message("user", "Hello!")}}}; }

    const TemporaryFolder folder_;
};

TEST(InspectAttention, LooksAtDialoguesOfRoundtalk) {
    const auto found = run_json(attention({"--count", "2", "--rounds", "4", "--kv", "f32"}));
    EXPECT_EQ(found.at("model"), "demo_model");
    EXPECT_THAT(found.at("dialogues"), HasSubstr("roundtalk, recall, question at begin,middle,end, rounds: 4, seeds of "
                                                 "development from 1000000 on"));
    const size_t layers = found.at("layers").size();
    ASSERT_EQ(layers, run_json({"inspect", "model"}).at("layers"));
    for (const json& layer : found.at("layers")) {
        for (const char* const share :
             {"initial_recent", "question_past", "answer_past", "top_share", "line_share", "line_overlap"}) {
            EXPECT_GT(layer.at(share).at("mean").get<double>(), 0.0) << share;
            EXPECT_LE(layer.at(share).at("mean").get<double>(), 1.0) << share;
            EXPECT_EQ(layer.at(share).at("dialogues"), 2) << share;
        }
        EXPECT_EQ(layer.at("divergence").is_null(), layer.at("layer") == layers);
    }
    EXPECT_NEAR(found.at("evidence_by_chance").at("mean").get<double>(), 1.0 / 3.0, 1e-12);
    EXPECT_EQ(found.at("distances").size(), layers);
    EXPECT_EQ(found.at("distances").at(3).at(5), found.at("distances").at(5).at(3));
    ASSERT_EQ(found.at("each").size(), 2U);
    EXPECT_EQ(found.at("each").at(1).at("dialogue"), "seed 1000000, recall, middle");
    EXPECT_EQ(found.at("each").at(0).at("divergences").size(), layers - 1);
    EXPECT_EQ(found.at("each").at(0).at("layers").at(0).at("question_masses").size(), 3U);
}

TEST(InspectAttention, TheSameFlagsGiveTheSameFigures) {
    const auto args = attention({"--count", "1", "--rounds", "3", "--json"});
    const auto first = run_rondo(args), second = run_rondo(args);
    EXPECT_EQ(first.status, 0) << first.err;
    EXPECT_EQ(first.err, "") << "a pipe sees no progress";
    EXPECT_EQ(first.out, second.out);
}

/// What the demo model was trained for: a layer of the middle finds the round that holds the evidence.
TEST(InspectAttention, FindsTheEvidenceInTheDemoModelsMiddle) {
    const auto found = run_json(attention({"--count", "14", "--rounds", "16", "--kv", "f32"}));
    const auto layers = static_cast<double>(found.at("layers").size());
    double best = 0.0;
    for (const json& layer : found.at("layers")) {
        const double depth = layer.at("layer").get<double>() / layers;
        if (depth >= 0.25 && depth <= 0.6) best = std::max(best, layer.at("evidence_found").at("mean").get<double>());
    }
    const double by_chance = found.at("evidence_by_chance").at("mean");
    EXPECT_LT(by_chance, 0.2);
    EXPECT_GT(best, 0.8);
}

TEST_F(AttentionOfAFile, TakesSeveralDialoguesWithWhatIsKnownOfEach) {
    json asked = three_rounds();
    asked.erase("evidence");
    asked.at("messages").erase(5);
    write({three_rounds(), one_round(), asked});
    auto args = words();
    const auto found = run_json(args);
    EXPECT_EQ(found.at("dialogues"), "dialogues of talk.jsonl");
    const json& layer = found.at("layers").at(2);
    EXPECT_EQ(layer.at("initial_recent").at("dialogues"), 3);
    EXPECT_EQ(layer.at("question_past").at("dialogues"), 2);
    EXPECT_EQ(layer.at("answer_past").at("dialogues"), 1);
    EXPECT_EQ(layer.at("rank_correlation").at("dialogues"), 1);
    EXPECT_EQ(layer.at("divergence").at("dialogues"), 2);
    EXPECT_EQ(layer.at("evidence_found").at("dialogues"), 1);
    EXPECT_DOUBLE_EQ(found.at("evidence_by_chance").at("mean").get<double>(), 0.5);
    EXPECT_EQ(found.at("each").at(0).at("evidence"), json::array({1}));
    EXPECT_EQ(found.at("each").at(1).at("rounds"), 1);
    EXPECT_TRUE(found.at("each").at(1).at("divergences").empty());
}

TEST_F(AttentionOfAFile, OneRoundAloneHasNoRoundsToChooseFrom) {
    write({one_round()});
    const auto found = run_json(words());
    for (const json& layer : found.at("layers")) {
        for (const char* const figure : {"divergence", "question_past", "answer_past", "rank_correlation", "top_share",
                                         "evidence_found", "line_overlap"})
            EXPECT_TRUE(layer.at(figure).is_null()) << figure;
        EXPECT_GT(layer.at("line_share").at("mean").get<double>(), 0.0);
    }
    EXPECT_TRUE(found.at("watershed").is_null());
    EXPECT_EQ(found.at("strategies_differ"), 0.0);
    const auto plain = run_rondo(words());
    EXPECT_EQ(plain.status, 0) << plain.err;
    EXPECT_THAT(plain.out, AllOf(HasSubstr("L_w: unknown"), HasSubstr("No dialogue names evidence")));
}

TEST_F(AttentionOfAFile, PrintsWhatItFoundBeforeItDraws) {
    write({one_round()});
    auto args = words();
    const std::filesystem::path drawings = folder_.path() / "drawings";
    std::filesystem::create_directories(drawings / "layers.svg");
    args.insert(args.end(), {"--plot", drawings.string()});
    const auto plain = run_rondo(args);
    EXPECT_EQ(plain.status, 1);
    EXPECT_THAT(plain.out, HasSubstr("| layer |"));
    EXPECT_THAT(plain.err, HasSubstr("layers.svg cannot be written"));
}

TEST_F(AttentionOfAFile, PrintsATableAndDrawsIt) {
    write({three_rounds(), three_rounds()});
    auto args = words();
    const std::string drawings = (folder_.path() / "new" / "drawings").string();
    for (const std::string& more : {std::string("--plot"), drawings, std::string("--gamma"), std::string("0.3")})
        args.push_back(more);
    const auto plain = run_rondo(args);
    EXPECT_EQ(plain.status, 0) << plain.err;
    EXPECT_THAT(plain.out, AllOf(HasSubstr("demo_model on cpu"), HasSubstr("| layer |"), HasSubstr("\n| 8     |"),
                                 HasSubstr("Evidence found by chance: 0.50."), HasSubstr("Watershed layer L_w: "),
                                 HasSubstr("(γ 0.30, 50% of the layers); two dialogues differ in 0% of cases"),
                                 HasSubstr("Distance by layer pair")));
    for (const char* const name : {"layers.svg", "rounds.svg", "masses.svg", "pairs.svg"}) {
        std::ifstream in(std::filesystem::path(drawings) / name, std::ios::binary);
        const std::string svg((std::istreambuf_iterator<char>(in)), {});
        EXPECT_GT(svg.size(), 1000U) << name;
        testing::expect_sound_svg(svg);
    }
}

TEST_F(AttentionOfAFile, BadInputIsOneLineBeforeAnythingIsComputed) {
    write({three_rounds(), {{"messages", json::array()}}});
    expect_failure(run_rondo(words()), "talk.jsonl:2: \"messages\" must hold a question");
    write({});
    expect_failure(run_rondo(words()), "talk.jsonl holds no dialogue; each line must be one");
    expect_failure(run_rondo(attention({"--dialogues", "/no/such.jsonl"})), "/no/such.jsonl cannot be read");
    std::string words_many;
    for (int i = 0; i < 5000; ++i) words_many += "Hello! ";
    const json long_one = {{"messages", {message("user", words_many)}}};
    write({one_round(), long_one, long_one});
    const auto refused = run_rondo(words());
    expect_failure(refused, "talk.jsonl:2: a dialogue of ");
    EXPECT_THAT(refused.err, HasSubstr("demo_model holds 4096; dialogues that are too long: 2"));
}

/// The weights of all rows, layers and heads would be more than a gigabyte.
TEST(InspectAttention, ALongDialogueTakesLittleMemory) {
    const auto outcome = run_rondo(attention({"--count", "1", "--rounds", "30", "--kv", "f32", "--json"}));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_GT(json::parse(outcome.out).at("each").at(0).at("tokens").get<int>(), 1500);
#ifndef __SANITIZE_ADDRESS__
    EXPECT_LE(outcome.resident_bytes_max, int64_t{300} << 20);
#endif
}

TEST(InspectAttention, WrongUseIsNamed) {
    expect_error(run_rondo(attention({"--dialogues", "f", "--rounds", "3"})), 2, "--dialogues");
    expect_error(run_rondo(attention({"--count", "0"})), 2, "--count");
    expect_error(run_rondo(attention({"--gamma", "1.5"})), 2, "--gamma");
    expect_error(run_rondo(attention({"--seeds", "training"})), 2, "--seeds");
    expect_failure(run_rondo(attention({"--task", "sing"})), "must be recall, local");
    expect_failure(run_rondo(attention({"--places", "end,end"})), "each must be there only once");
    expect_failure(run_rondo(attention({"--seed", "5"})), "seeds of development must be 1000000 to 1999999");
    expect_failure(run_rondo(attention({"--set", "preset=loopserve"})), "attention must be dense");
    const golden::Folder no_text(golden::read_cases("llama").at(0), DType::f32);
    expect_failure(run_rondo(attention({"--model", no_text.path()})), "must have a tokenizer and a chat template");
    expect_failure(run_rondo(attention({"--count", "1", "--plot", "/dev/null/folder"})), "/dev/null/folder");
}

TEST(InspectAttention, CtrlCEndsItOnATerminalThatSawHowFarItWas) {
    testing::RondoTerminal terminal(attention({"--count", "200", "--rounds", "12"}));
    terminal.until("attention [");
    terminal.type(testing::RondoTerminal::ctrl('C'));
    terminal.until("rondo: stopped by Ctrl-C after ");
    terminal.until(" of 200 dialogues; no figures");
    EXPECT_EQ(terminal.end(), 1);
}

}  // namespace
}  // namespace rondo
