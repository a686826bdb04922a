#include <sys/resource.h>

#include "tests/model/tokenizer_fixture.hpp"

namespace rondo {
namespace {

/// A message between two special tokens is a text of its own, of which a conversation has thousands.
TEST(TokenizerCosts, APieceBetweenAddedTokensMapsNoMemory) {
    const auto& json = golden_file("byte_level.json")["tokenizer"];
    const auto tokenizer = load(json);
    ASSERT_NE(tokenizer, nullptr);
    constexpr int pieces = 10'000;
    std::string text;
    for (int i = 0; i < pieces; ++i) text += json["added_tokens"][0]["content"].get<std::string>() + "word";
    const auto faults = [] {
        rusage usage{};
        getrusage(RUSAGE_THREAD, &usage);
        return usage.ru_minflt;
    };
    ids_of(*tokenizer, text);
    const auto before = faults();
    ids_of(*tokenizer, text);
    EXPECT_LT(faults() - before, pieces / 2);
}

}  // namespace
}  // namespace rondo
