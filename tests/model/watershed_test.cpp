#include "model/attention/watershed.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/attention/round_attention.hpp"
#include "tests/model/tiny_engine.hpp"

namespace rondo {
namespace {

using testing::need;

TEST(Watershed, IsKnownOfSomeModelsAndSaidForOthers) {
    ModelSpec spec;
    spec.layers = 24;
    spec.width = 896;
    spec.vocabulary = 151'936;
    EXPECT_EQ(need(watershed_layer(spec, {})), 11);
    EXPECT_EQ(need(watershed_layer(spec, {.watershed_layer = 7})), 7);
    EXPECT_EQ(need(layers_below_watershed(spec, {})), 0);
    EXPECT_EQ(need(layers_below_watershed(spec, {.method = RoundSettings::Method::top_rounds})), 11);
    const auto too_high = watershed_layer(spec, {.watershed_layer = 24});
    EXPECT_EQ(too_high.error().message,
              "pipeline.rounds.watershed_layer: is 24; the model has 24 layers, and it must be below that");
    spec.width = 897;
    const auto unknown = watershed_layer(spec, {});
    EXPECT_EQ(
        unknown.error().message,
        "pipeline.rounds.watershed_layer: is 0, and nothing is known of this model; it must be set: `rondo inspect "
        "attention` measures it");
}

TEST(RoundsOfAPrompt, BeginBehindWhatStandsBeforeThem) {
    using ::testing::ElementsAre;
    EXPECT_THAT(apart_from_preamble({}), ElementsAre(16));
    EXPECT_THAT(apart_from_preamble({40, 90}), ElementsAre(16, 40, 90));
    EXPECT_THAT(apart_from_preamble({40, 90}, 25), ElementsAre(25, 40, 90));
    EXPECT_THAT(apart_from_preamble({40, 90}, 3), ElementsAre(16, 40, 90)) << "next to nothing";
    EXPECT_THAT(apart_from_preamble({12, 90}), ElementsAre(12, 90)) << "the first round is no longer than a block";
    EXPECT_THAT(apart_from_preamble({40, 90}, 40), ElementsAre(40, 90));
}

}  // namespace
}  // namespace rondo
