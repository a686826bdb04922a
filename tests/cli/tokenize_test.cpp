#include "tests/cli/rondo_process.hpp"
#include "tests/cli/rondo_terminal.hpp"

namespace rondo {
namespace {

using testing::expect_failure;
using testing::joined;
using testing::run_json;
using testing::run_rondo;

TEST(Tokenize, RoundTripGivesTheTextBack) {
    for (const std::string text :
         {"The code of the red box is 4817.", "  two  spaces\n\tand a tab", "naïve 日本語 🙂", "'\"\\"}) {
        const auto ids = run_json({"tokenize", "--text", text}).at("ids").get<std::vector<int32_t>>();
        EXPECT_FALSE(ids.empty());
        EXPECT_EQ(run_json({"detokenize", "--ids", joined(ids)}).at("text"), text);
        EXPECT_EQ(run_json({"tokenize"}, text).at("ids").get<std::vector<int32_t>>(), ids) << "from standard input";
        const auto plain = run_rondo({"tokenize", "--text", text});
        EXPECT_EQ(plain.out, joined(ids) + "\n");
        EXPECT_EQ(plain.err, "");
        EXPECT_EQ(run_rondo({"detokenize", "--ids", plain.out.substr(0, plain.out.size() - 1)}).out, text + "\n");
    }
}

TEST(Tokenize, EmptyTextHasNoIds) {
    EXPECT_TRUE(run_json({"tokenize", "--text", ""}, "not this").at("ids").empty());
    EXPECT_EQ(run_json({"detokenize", "--ids", ""}).at("text"), "");
}

TEST(Tokenize, SpecialTokensCanBePlainTextOrLeftOut) {
    const auto special = run_json({"tokenize", "--text", "a<|end|>"}).at("ids").get<std::vector<int32_t>>();
    const auto plain = run_json({"tokenize", "--plain", "--text", "a<|end|>"}).at("ids").get<std::vector<int32_t>>();
    EXPECT_EQ(special.size(), 2U);
    EXPECT_GT(plain.size(), 2U);
    EXPECT_EQ(run_json({"detokenize", "--ids", joined(special)}).at("text"), "a<|end|>");
    EXPECT_EQ(run_json({"detokenize", "--plain", "--ids", joined(special)}).at("text"), "a");
    EXPECT_EQ(run_json({"detokenize", "--plain", "--ids", joined(plain)}).at("text"), "a<|end|>");
}

TEST(Tokenize, HalfACharacterIsStillValidJson) {
    const auto ids = run_json({"tokenize", "--text", "🙂"}).at("ids").get<std::vector<int32_t>>();
    ASSERT_GT(ids.size(), 1U);
    EXPECT_EQ(run_json({"detokenize", "--ids", std::to_string(ids[0])}).at("text"), "\xef\xbf\xbd");
}

std::string ids_of(const std::string& text) {
    return joined(run_json({"tokenize"}, text).at("ids").get<std::vector<int32_t>>());
}

TEST(Tokenize, AByteOfZeroDoesNotEndTheText) {
    const std::string text("a\0b", 3);
    EXPECT_EQ(run_rondo({"detokenize", "--ids", ids_of(text)}).out, text + "\n");
}

TEST(Tokenize, ATextDoesNotCommandATerminal) {
    const std::string text = "a\x1b[31m\xc2\x9bz\n";
    testing::RondoTerminal terminal({"detokenize", "--ids", ids_of(text)});
    EXPECT_EQ(terminal.until("\r\n"), "a[31mz\r\n");
    EXPECT_EQ(terminal.end(), 0);
    EXPECT_EQ(run_rondo({"detokenize", "--ids", ids_of(text)}).out, text + "\n") << "a pipe gets all of it";
}

TEST(Tokenize, BadInputIsRefused) {
    expect_failure(run_rondo({"tokenize", "--text", "\xff"}), "UTF-8");
    expect_failure(run_rondo({"tokenize"}, "a\xc3"), "UTF-8");
    expect_failure(run_rondo({"tokenize", "--model", "/no/such/model", "--text", "a"}), "model");
    for (const char* ids : {"640", "1,640", "2147483647"}) {
        expect_failure(run_rondo({"detokenize", "--ids", ids}), "must be 0 to 639");
    }
    for (const char* ids : {"one", "1,", "4294967296"})
        expect_failure(run_rondo({"detokenize", "--ids", ids}), "1,2,3");
    expect_failure(run_rondo({"detokenize", "--ids=-1"}), "1,2,3");
}

}  // namespace
}  // namespace rondo
