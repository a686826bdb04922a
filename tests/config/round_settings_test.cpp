#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/method_names.hpp"
#include "config/setting_keys.hpp"
#include "tests/config/read_settings.hpp"

namespace rondo {
namespace {

using testing::error_of;
using testing::value_of;

TEST(RoundSettings, RoundsAreChosenWhereAnswersAreDenseOrChooseAgainAndAgain) {
    EXPECT_EQ(value_of("pipeline: {rounds: {method: top_rounds, share: 0.25}}").pipeline.rounds,
              (RoundSettings{.method = RoundSettings::Method::top_rounds, .share = 0.25}));
    EXPECT_EQ(
        error_of("pipeline: {rounds: {method: top_k}}"),
        "f.yaml:1: pipeline.rounds.method: is \"top_k\", must be " + listed(names_of_methods(MethodSlot::rounds)));
    EXPECT_EQ(
        error_of("pipeline: {rounds: {method: top_rounds}, decode: {attention: {method: snapkv}}}"),
        "f.yaml:1: pipeline.rounds.method: is top_rounds, must be none where answers do not choose keys again and "
        "again (snapkv)");
    EXPECT_EQ(value_of("pipeline: {rounds: {method: top_rounds}, prefill: {attention: {method: loopserve}}}")
                  .pipeline.prefill.attention.method,
              PrefillAttention::Method::loopserve);
}

TEST(RoundSettings, GpusChooseRoundsAndNoKeys) {
    const std::string gpu = "devices: {cpu: {kind: cuda}}\n";
    EXPECT_EQ(
        value_of(gpu + "pipeline: {rounds: {method: top_rounds}, methods: [fixed_rounds, dense]}").pipeline.methods,
        (std::vector<std::string>{"fixed_rounds", "dense"}));
    EXPECT_THAT(error_of(gpu + "pipeline: {methods: [top_rounds, snapkv]}"),
                ::testing::HasSubstr("pipeline.methods: must be dense or of rounds on a GPU; CPUs have the others"));
}

}  // namespace
}  // namespace rondo
