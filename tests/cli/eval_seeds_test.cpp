#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/measure/eval/seed_use.hpp"
#include "tests/cli/rondo_process.hpp"

namespace rondo::cli::eval {
namespace {

using rondo::testing::expect_failure;
using rondo::testing::run_json;
using rondo::testing::run_rondo;
using ::testing::HasSubstr;

TEST(EvalSeeds, OfDevelopmentAndReportsCannotMeet) {
    const SeedRange development = seeds_of(SeedUse::development), report = seeds_of(SeedUse::report);
    EXPECT_LE(development.first + development.count, report.first);
    EXPECT_TRUE(check_seeds(SeedUse::report, report.first, report.count));
    for (const SeedUse use : {SeedUse::development, SeedUse::report}) {
        const SeedRange own = seeds_of(use),
                        other = seeds_of(use == SeedUse::report ? SeedUse::development : SeedUse::report);
        EXPECT_FALSE(check_seeds(use, other.first, 1));
        EXPECT_FALSE(check_seeds(use, own.first - 1, 1));
        EXPECT_FALSE(check_seeds(use, own.first, own.count + 1)) << "the last would be beyond";
        EXPECT_FALSE(check_seeds(use, own.first + own.count - 1, 2));
        EXPECT_FALSE(check_seeds(use, own.first, ~uint64_t{0})) << "must not wrap";
    }
}

TEST(EvalSeeds, ARunTakesThoseItSaysAndNoOthers) {
    for (const auto& [use, first] : {std::pair("development", 1'000'000), std::pair("report", 20'000'000)}) {
        const auto json = run_json(
            {"eval", "--dialogues", "1", "--rounds", "2", "--methods", "dense", "--places", "end", "--seeds", use});
        EXPECT_EQ(json.at("dialogue_seeds").at(0), first);
        EXPECT_THAT(json.at("flags").get<std::string>(), HasSubstr("--seeds " + std::string(use)));
    }
}

TEST(EvalSeeds, AMixUpIsOneLine) {
    const std::vector<std::string> eval = {"eval", "--methods", "dense", "--seed"};
    for (const auto& [more, said] : std::vector<std::pair<std::vector<std::string>, std::string>>{
             {{"20000000"}, "seeds of development must be 1000000 to 1999999, or --seeds must be report"},
             {{"1000000", "--seeds", "report"}, ", or --seeds must be development"},
             {{"1999999", "--dialogues", "2"}, "seeds of development must be"},
             {{"7"}, "seeds of development must be"}}) {
        std::vector<std::string> args = eval;
        args.insert(args.end(), more.begin(), more.end());
        expect_failure(run_rondo(args), said);
    }
}

}  // namespace
}  // namespace rondo::cli::eval
