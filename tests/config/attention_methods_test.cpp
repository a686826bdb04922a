#include "config/attention_methods.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rondo {
namespace {

using Prefill = PrefillAttention::Method;
using Decode = DecodeAttention::Method;

std::vector<AttentionMethod> methods_of(const std::vector<std::string>& overrides) {
    const auto settings = settings_from_yaml("", "test", overrides);
    EXPECT_TRUE(settings.is_ok()) << settings.error().message;
    return attention_methods(settings.value().pipeline);
}

MATCHER_P3(Attends, name, prefill, decode, "") {
    return arg.name == name && arg.prefill.method == prefill && arg.decode.method == decode;
}

TEST(AttentionMethods, AreWhatTheirNamesSayWhateverIsConfigured) {
    EXPECT_THAT(methods_of({"preset=loopserve", "pipeline.methods=[snapkv, progressive, a_shape]"}),
                ::testing::ElementsAre(Attends("loopserve", Prefill::loopserve, Decode::progressive),
                                       Attends("dense", Prefill::dense, Decode::dense),
                                       Attends("snapkv", Prefill::dense, Decode::snapkv),
                                       Attends("progressive", Prefill::dense, Decode::progressive),
                                       Attends("a_shape", Prefill::a_shape, Decode::dense)));
}

TEST(AttentionMethods, OfTwoPhasesAreNamedByBoth) {
    EXPECT_EQ(methods_of({"preset=loopserve", "pipeline.decode.attention.method=snapkv"}).front().name,
              "loopserve+snapkv");
    EXPECT_EQ(methods_of({"preset=loopserve", "pipeline.decode.attention.method=dense"}).front().name,
              "loopserve+dense");
    EXPECT_EQ(methods_of({"pipeline.decode.attention.method=snapkv"}).front().name, "snapkv");
    EXPECT_EQ(methods_of({"pipeline.prefill.attention.method=a_shape"}).front().name, "a_shape");
}

TEST(AttentionMethods, OfRoundsAreNamedBehindThePhases) {
    const auto name_of = [](std::vector<std::string> settings) { return methods_of(settings).front().name; };
    EXPECT_EQ(name_of({"pipeline.rounds.method=fixed_rounds"}), "fixed_rounds");
    EXPECT_EQ(name_of({"preset=rondo"}), "rondo");
    EXPECT_EQ(name_of({"preset=loopserve", "pipeline.rounds.method=top_rounds"}), "rondo");
    EXPECT_EQ(name_of({"preset=loopserve", "pipeline.rounds.method=fixed_rounds"}), "loopserve+fixed_rounds");
    EXPECT_EQ(name_of({"preset=rondo", "pipeline.decode.attention.method=dense"}), "loopserve+dense+top_rounds");
    EXPECT_EQ(name_of({"preset=rondo", "pipeline.rounds.method=none"}), "loopserve");
}

TEST(AttentionMethods, OfRoundsLeaveThePhasesDenseAndOthersTheRounds) {
    const auto all =
        methods_of({"preset=rondo", "pipeline.methods=[fixed_rounds, loopserve]", "pipeline.rounds.share=0.5"});
    ASSERT_EQ(all.size(), 4U);
    EXPECT_EQ(all[0].rounds.method, RoundSettings::Method::top_rounds);
    EXPECT_TRUE(all[1].is_dense());
    EXPECT_EQ(all[2].name, "fixed_rounds");
    EXPECT_EQ(all[2].prefill.method, Prefill::dense);
    EXPECT_EQ(all[2].decode.method, Decode::dense);
    EXPECT_EQ(all[2].rounds.share, 0.5) << "with the configured keys";
    EXPECT_FALSE(all[2].is_dense());
    EXPECT_FALSE(all[3].chooses_rounds());
}

TEST(AttentionMethods, AsSettingsSayBothPhasesWhateverIsConfigured) {
    const auto with = [](std::vector<std::string> configured, const std::string& method) {
        const auto settings = method_settings(method);
        EXPECT_TRUE(settings.is_ok());
        configured.insert(configured.end(), settings.value().begin(), settings.value().end());
        return methods_of(configured).front();
    };
    EXPECT_THAT(with({"pipeline.decode.attention.method=snapkv"}, "dense"),
                Attends("dense", Prefill::dense, Decode::dense));
    EXPECT_THAT(with({"preset=loopserve"}, "snapkv"), Attends("snapkv", Prefill::dense, Decode::snapkv));
    EXPECT_THAT(with({"preset=loopserve"}, "a_shape"), Attends("a_shape", Prefill::a_shape, Decode::dense));
    EXPECT_THAT(with({"pipeline.decode.attention.method=h2o"}, "loopserve"),
                Attends("loopserve", Prefill::loopserve, Decode::progressive));
    EXPECT_EQ(method_settings("snap").error().code, ErrorCode::unsupported);
}

TEST(AttentionMethods, KeepTheKeysOfTheirPhase) {
    const auto methods = methods_of({"pipeline.methods=[snapkv]", "pipeline.decode.attention.budget_tokens=77"});
    ASSERT_EQ(methods.size(), 2U);
    EXPECT_EQ(methods[1].decode.budget_tokens, 77);
}

}  // namespace
}  // namespace rondo
