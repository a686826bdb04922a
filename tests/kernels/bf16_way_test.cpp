#include "kernels/cpu/bf16_way.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>

#include "kernels/cpu/cpu_features.hpp"

namespace rondo::cpu {
namespace {

namespace fs = std::filesystem;

class Bf16WayTest : public testing::Test {
protected:
    void SetUp() override {
        folder_ = fs::temp_directory_path() / ("rondo-bf16-" + std::to_string(::getpid()));
        fs::remove_all(folder_);
    }
    void TearDown() override {
        fs::remove_all(folder_);
        override_cpu_features_for_test({true, true, true, true});
    }
    std::vector<fs::path> kept() const {
        std::vector<fs::path> files;
        if (!fs::exists(folder_)) return files;
        for (const auto& entry : fs::directory_iterator(folder_)) files.push_back(entry.path());
        return files;
    }
    static std::string text_of(const fs::path& file) {
        std::ifstream in(file);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    fs::path folder_;
};

/// A race of ways that need not be this processor's: `first` takes half of the others' time.
Bf16Race race_won_by(Bf16Way first) {
    return {{Bf16Way::pairs, Bf16Way::floats}, [first](Bf16Way way) { return way == first ? 1.0 : 2.0; }};
}

Bf16Way fastest(std::map<Bf16Way, double> seconds) {
    std::vector<Bf16Way> ways;
    for (const auto& [way, unused] : seconds) ways.push_back(way);  // tiles, pairs, floats: the enum's order
    return fastest_way(ways, [&](Bf16Way way) { return seconds.at(way); });
}

TEST(FastestWay, IsTheFirstThatNoOtherClearlyBeats) {
    EXPECT_EQ(fastest({{Bf16Way::pairs, 1.0}, {Bf16Way::floats, 2.0}}), Bf16Way::pairs);
    EXPECT_EQ(fastest({{Bf16Way::pairs, 2.0}, {Bf16Way::floats, 1.0}}), Bf16Way::floats);
    EXPECT_EQ(fastest({{Bf16Way::tiles, 5.0}, {Bf16Way::pairs, 2.0}, {Bf16Way::floats, 1.0}}), Bf16Way::floats);
    EXPECT_EQ(fastest({{Bf16Way::tiles, 2.0}, {Bf16Way::pairs, 1.0}, {Bf16Way::floats, 3.0}}), Bf16Way::pairs);
}

TEST(FastestWay, ACloseRaceGoesToTheFirstWhicheverWayItComesOut) {
    for (const double other : {0.9, 1.0, 1.1})
        EXPECT_EQ(fastest({{Bf16Way::pairs, 1.0}, {Bf16Way::floats, other}}), Bf16Way::pairs) << other;
}

/// The second is a close race with the last, and no close race with another way decides about it.
TEST(FastestWay, IsNotPassedOverForOneThatBeatsOnlyThoseBeforeIt) {
    EXPECT_EQ(fastest({{Bf16Way::tiles, 1.0}, {Bf16Way::pairs, 0.9}, {Bf16Way::floats, 0.8}}), Bf16Way::pairs);
    EXPECT_EQ(fastest({{Bf16Way::tiles, 1.0}, {Bf16Way::pairs, 0.9}, {Bf16Way::floats, 0.85}}), Bf16Way::tiles);
}

/// A core that was idle is slow at first, whichever way it multiplies then.
TEST(FastestWay, DoesNotHangOnAClockThatRisesMeanwhile) {
    for (const int slow : {1, 24, 30}) {
        int products = 0;
        const auto seconds = [&](Bf16Way way) {
            return (way == Bf16Way::pairs ? 1.0 : 2.0) * (++products <= slow ? 3.0 : 1.0);
        };
        EXPECT_EQ(fastest_way({Bf16Way::pairs, Bf16Way::floats}, seconds), Bf16Way::pairs) << slow;
    }
}

TEST_F(Bf16WayTest, WhatWasMeasuredOnceIsKept) {
    EXPECT_EQ(*choose_bf16_way(Bf16Way::measured, folder_, race_won_by(Bf16Way::floats)), Bf16Way::floats);
    ASSERT_EQ(kept().size(), 1U);
    EXPECT_EQ(text_of(kept()[0]), "floats\n");
    // The kept choice counts, not what would be measured now.
    for (const Bf16Way way : {Bf16Way::pairs, Bf16Way::floats}) {
        std::ofstream(kept()[0]) << name_of(way) << "\n";
        for (const Bf16Way faster : {Bf16Way::pairs, Bf16Way::floats})
            EXPECT_EQ(*choose_bf16_way(Bf16Way::measured, folder_, race_won_by(faster)), way);
    }
}

TEST_F(Bf16WayTest, ThisProcessorsWaysAreMeasuredByTheClock) {
    if (bf16_ways_here().size() < 2) GTEST_SKIP() << "this processor multiplies bf16 in one way alone";
    const Bf16Way first = *choose_bf16_way(Bf16Way::measured, folder_);
    ASSERT_EQ(kept().size(), 1U);
    EXPECT_EQ(text_of(kept()[0]), std::string(name_of(first)) + "\n");
}

TEST_F(Bf16WayTest, WhatIsKeptForOtherFeaturesDoesNotCount) {
    Bf16Race race = race_won_by(Bf16Way::floats);
    ASSERT_EQ(*choose_bf16_way(Bf16Way::measured, folder_, race), Bf16Way::floats);
    race = race_won_by(Bf16Way::pairs);
    race.ways.insert(race.ways.begin(), Bf16Way::tiles);
    EXPECT_EQ(*choose_bf16_way(Bf16Way::measured, folder_, race), Bf16Way::pairs);
    EXPECT_EQ(kept().size(), 2U);
    race.ways = {Bf16Way::floats};
    EXPECT_EQ(*choose_bf16_way(Bf16Way::measured, folder_, race), Bf16Way::floats);
}

/// Without the compiler's optimization another way may be the fastest.
TEST_F(Bf16WayTest, ADebugBuildKeepsAChoiceOfItsOwn) {
    ASSERT_TRUE(choose_bf16_way(Bf16Way::measured, folder_, race_won_by(Bf16Way::pairs)));
#if defined(__OPTIMIZE__)
    constexpr bool optimized = true;
#else
    constexpr bool optimized = false;
#endif
    EXPECT_EQ(kept()[0].filename().string().find("-unoptimized") == std::string::npos, optimized);
}

TEST_F(Bf16WayTest, ADamagedFileIsMeasuredAnew) {
    const Bf16Race race = race_won_by(Bf16Way::floats);
    ASSERT_TRUE(choose_bf16_way(Bf16Way::measured, folder_, race));
    for (const std::string& damage :
         {std::string(), std::string("measured"), std::string("par"), std::string("tiles"), std::string(100, 'x')}) {
        std::ofstream(kept()[0]) << damage;
        EXPECT_EQ(*choose_bf16_way(Bf16Way::measured, folder_, race), Bf16Way::floats) << damage;
        EXPECT_EQ(text_of(kept()[0]), "floats\n") << damage;
    }
}

/// Two processes that start at once may measure differently, but must not go on with different ways.
TEST_F(Bf16WayTest, AChoiceThatAnotherProcessKeptMeanwhileCounts) {
    Bf16Race race = race_won_by(Bf16Way::pairs);
    ASSERT_TRUE(choose_bf16_way(Bf16Way::measured, folder_, race));
    const fs::path file = kept()[0];
    fs::remove(file);
    race.seconds = [&file, seconds = race.seconds](Bf16Way way) {
        std::ofstream(file) << "floats\n";
        return seconds(way);
    };
    EXPECT_EQ(*choose_bf16_way(Bf16Way::measured, folder_, race), Bf16Way::floats);
    EXPECT_EQ(kept(), std::vector<fs::path>{file});
    EXPECT_EQ(text_of(file), "floats\n");
}

/// A file where the folder should be, a file system that takes no files, and no folder at all.
TEST_F(Bf16WayTest, AFolderThatCannotBeUsedStopsNobody) {
    std::ofstream(folder_) << "a file where the folder should be";
    for (const fs::path& folder : {folder_, fs::path("/proc/rondo"), fs::path()}) {
        EXPECT_TRUE(choose_bf16_way(Bf16Way::measured, folder));
        EXPECT_TRUE(choose_bf16_way(Bf16Way::measured, folder, race_won_by(Bf16Way::pairs)));
    }
}

/// A process may have several CPU devices, which must multiply alike.
TEST_F(Bf16WayTest, WithoutAFolderAProcessHasOneWay) {
    std::ofstream(folder_) << "a file where the folder should be";
    for (const fs::path& folder : {fs::path(), fs::path("/proc/rondo"), folder_}) {
        EXPECT_EQ(*choose_bf16_way(Bf16Way::measured, folder, race_won_by(Bf16Way::pairs)),
                  *choose_bf16_way(Bf16Way::measured, folder, race_won_by(Bf16Way::floats)));
    }
}

/// A full disk, or what looks like one here: no file may grow.
TEST_F(Bf16WayTest, AChoiceThatCannotBeWrittenLeavesNothingBehind) {
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit none{0, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
    const auto way = choose_bf16_way(Bf16Way::measured, folder_, race_won_by(Bf16Way::pairs));
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    EXPECT_TRUE(way);
    EXPECT_TRUE(fs::is_directory(folder_));
    EXPECT_TRUE(kept().empty());
}

TEST_F(Bf16WayTest, ASettingDecidesAndKeepsNothing) {
    for (const Bf16Way way : bf16_ways_here()) EXPECT_EQ(*choose_bf16_way(way, folder_), way);
    EXPECT_TRUE(kept().empty());
}

TEST_F(Bf16WayTest, AWayTheProcessorHasNotIsRefused) {
    override_cpu_features_for_test({});
    const auto way = choose_bf16_way(Bf16Way::pairs, folder_);
    ASSERT_FALSE(way);
    EXPECT_EQ(way.error().message, "bf16 in pairs: not on this processor, must be measured or floats");
    DeviceOptions options;
    options.bf16 = Bf16Way::tiles;
    EXPECT_EQ(open_device(options).error().code, ErrorCode::unsupported);
}

TEST_F(Bf16WayTest, TheDeviceSaysItsWay) {
    for (const Bf16Way way : bf16_ways_here()) {
        DeviceOptions options;
        options.bf16 = way;
        options.threads = 1;
        EXPECT_NE((*open_device(options))->name().find("bf16 in " + std::string(name_of(way))), std::string::npos);
    }
}

}  // namespace
}  // namespace rondo::cpu
