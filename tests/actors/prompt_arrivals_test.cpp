// What prompts do whose keys are on their way. No actor, and the time is what the test says.

#include "actors/prompt_arrivals.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

namespace rondo {
namespace {

using Next = PromptArrivals::Next;

class PromptArrivalsTest : public ::testing::Test {
protected:
    static constexpr int64_t end_token = 32;
    static constexpr int layers = 3;
    static constexpr double patience_s = 5.0, begin_s = 100.0;

    static std::shared_ptr<Arrival> arrival_with(double patience) {
        return std::make_shared<Arrival>(0, end_token, layers, patience, [](Arrival::Why) {});
    }
    Next next_of(uint64_t id, double now) { return arrivals_.look(id, now).next; }
    /// The device computes so many layers of the first prompt's chunk, which stays open.
    void compute(int layers_done) {
        arrivals_.begin_piece(1);
        arrivals_.end_piece(1, {layers_done, true, false});
    }
    /// The device gives the first prompt's open chunk up.
    void drop() {
        arrivals_.begin_piece(1);
        arrivals_.end_piece(1, {0, false, true});
    }

    const std::shared_ptr<Arrival> arrival_ = arrival_with(patience_s);
    PromptArrivals arrivals_;
};

TEST_F(PromptArrivalsTest, AChunkGoesOnAsFarAsKeysHaveCome) {
    arrivals_.add(1, arrival_, begin_s);
    EXPECT_EQ(next_of(1, 100.0), Next::waits) << "nothing has come";
    arrival_->come(1);
    EXPECT_EQ(next_of(1, 101.0), Next::goes_on);
    EXPECT_EQ(arrivals_.begin_piece(1), 1);
    arrival_->come(2);
    EXPECT_EQ(next_of(1, 102.0), Next::nothing) << "the device has a piece of it";
    arrivals_.end_piece(1, {1, true, false});
    EXPECT_EQ(next_of(1, 103.0), Next::goes_on);
    EXPECT_EQ(arrivals_.begin_piece(1), 1) << "of the two layers that have come, one is computed";
    arrivals_.end_piece(1, {2, true, false});
    EXPECT_EQ(next_of(1, 104.0), Next::waits);
    arrival_->come(layers);
    const PromptArrivals::Look look = arrivals_.look(1, 105.0);
    EXPECT_EQ(look.next, Next::ends_waiting) << "the open chunk goes on";
    EXPECT_EQ(look.failed_tokens, 0);
}

TEST_F(PromptArrivalsTest, WhatIsComputedAheadWaitsForNothing) {
    arrivals_.add(1, arrival_, begin_s, true);
    EXPECT_EQ(next_of(1, 100.0), Next::goes_on);
    EXPECT_EQ(arrivals_.begin_piece(1), std::nullopt) << "all layers";
    arrivals_.end_piece(1, {2, true, false, true});
    EXPECT_EQ(next_of(1, 101.0), Next::goes_on) << "between layers too";
    arrival_->come(layers);
    EXPECT_EQ(next_of(1, 102.0), Next::goes_on) << "what has come is of no use without it";
    arrivals_.begin_piece(1);
    arrivals_.end_piece(1, {0, false, false, false});
    EXPECT_EQ(next_of(1, 103.0), Next::ends_waiting);
    EXPECT_EQ(arrivals_.waited_seconds(), 0.0);
}

TEST_F(PromptArrivalsTest, BehindWhatIsComputedAheadKeysAreWaitedFor) {
    arrivals_.add(1, arrival_, begin_s, true);
    arrivals_.begin_piece(1);
    arrivals_.end_piece(1, {0, false, false, false});
    EXPECT_EQ(next_of(1, 101.0), Next::waits);
    EXPECT_EQ(next_of(1, 102.0), Next::waits);
    arrival_->come(1);
    EXPECT_EQ(next_of(1, 104.0), Next::goes_on);
    EXPECT_EQ(arrivals_.waited_seconds(), 3.0);
}

TEST_F(PromptArrivalsTest, WhatIsComputedAheadIsGivenUpForKeysThatFail) {
    arrivals_.add(1, arrival_, begin_s, true);
    arrivals_.begin_piece(1);
    arrivals_.end_piece(1, {1, true, false, true});
    arrival_->finish(16);
    EXPECT_EQ(next_of(1, 101.0), Next::drops_chunk);
    arrivals_.begin_piece(1);
    arrivals_.end_piece(1, {0, false, true, true});
    const PromptArrivals::Look look = arrivals_.look(1, 102.0);
    EXPECT_EQ(look.next, Next::ends_waiting);
    EXPECT_EQ(look.failed_tokens, 16);
}

/// Another prompt took its place: it goes on as soon as it can have it again.
TEST_F(PromptArrivalsTest, WhatIsComputedAheadBeginsAgainWithoutWaiting) {
    arrivals_.add(1, arrival_, begin_s, true);
    arrivals_.begin_piece(1);
    arrivals_.end_piece(1, {1, true, false, true});
    arrivals_.begin_piece(1);
    arrivals_.end_piece(1, {0, false, true, true});
    EXPECT_EQ(next_of(1, 101.0), Next::goes_on);
    arrivals_.begin_piece(1);
    arrivals_.end_piece(1, {0, false, false, false});
    arrival_->come(1);
    EXPECT_EQ(next_of(1, 102.0), Next::goes_on);
}

TEST_F(PromptArrivalsTest, WhatHasComeBeforeThePromptIsNotWaitedFor) {
    arrival_->come(layers);
    arrivals_.add(1, arrival_, begin_s);
    EXPECT_EQ(next_of(1, begin_s), Next::ends_waiting);
    const PromptArrivals::Patience watched = arrivals_.patience(1, begin_s + 100.0);
    EXPECT_FALSE(watched.is_over);
    EXPECT_EQ(watched.again_in_s, 0.0);
}

TEST_F(PromptArrivalsTest, APromptThatWaitsForNoKeysIsNotKnown) {
    EXPECT_EQ(next_of(1, begin_s), Next::nothing);
    EXPECT_FALSE(arrivals_.begin_piece(1)) << "it may have all layers";
    arrivals_.end_piece(1, {1, true, false});
    EXPECT_FALSE(arrivals_.patience(1, begin_s).is_over);
    EXPECT_EQ(arrivals_.patience(1, begin_s).again_in_s, 0.0);
    arrivals_.remove(1, 200.0);
    EXPECT_EQ(next_of(1, begin_s), Next::nothing);
}

TEST_F(PromptArrivalsTest, PatienceIsOverWhenItsTimeIsUpAndNoSooner) {
    arrivals_.add(1, arrival_, begin_s);
    const PromptArrivals::Patience first = arrivals_.patience(1, begin_s);
    EXPECT_FALSE(first.is_over);
    EXPECT_GT(first.again_in_s, patience_s) << "the time is up when it is asked for again";
    EXPECT_LT(first.again_in_s, patience_s + 0.01);
    const double before = std::nextafter(begin_s + patience_s, begin_s);
    EXPECT_FALSE(arrivals_.patience(1, before).is_over);
    EXPECT_EQ(next_of(1, before), Next::waits);
    const PromptArrivals::Patience last = arrivals_.patience(1, begin_s + patience_s);
    EXPECT_TRUE(last.is_over);
    EXPECT_EQ(last.again_in_s, patience_s);
    EXPECT_EQ(next_of(1, begin_s + patience_s), Next::begins_anew);
}

/// Only asking about the patience makes a prompt leave: one that is looked at for another reason waits.
TEST_F(PromptArrivalsTest, ALookAloneDoesNotEndPatience) {
    arrivals_.add(1, arrival_, begin_s);
    EXPECT_EQ(next_of(1, begin_s + 10 * patience_s), Next::waits);
}

TEST_F(PromptArrivalsTest, EachLayerThatComesIsGivenItsTime) {
    arrivals_.add(1, arrival_, begin_s);
    arrival_->come(1);
    EXPECT_EQ(next_of(1, 104.0), Next::goes_on);
    const PromptArrivals::Patience watched = arrivals_.patience(1, 105.0);
    EXPECT_FALSE(watched.is_over);
    EXPECT_NEAR(watched.again_in_s, 4.0, 0.01) << "from when the layer came";
    arrival_->come(2);
    EXPECT_FALSE(arrivals_.patience(1, 112.0).is_over) << "it came, though nobody had looked yet";
    EXPECT_FALSE(arrivals_.patience(1, 116.0).is_over);
    EXPECT_TRUE(arrivals_.patience(1, 117.0).is_over);
}

TEST_F(PromptArrivalsTest, TheSameLayerToldTwiceIsNothingNew) {
    arrivals_.add(1, arrival_, begin_s);
    arrival_->come(1);
    EXPECT_EQ(next_of(1, 101.0), Next::goes_on);
    arrival_->come(1);
    EXPECT_EQ(next_of(1, 104.0), Next::goes_on);
    EXPECT_TRUE(arrivals_.patience(1, 106.0).is_over);
}

TEST_F(PromptArrivalsTest, TheEndToldTwiceIsToldToNobody) {
    arrivals_.add(1, arrival_, begin_s);
    arrival_->finish(16);
    EXPECT_EQ(next_of(1, 101.0), Next::ends_waiting);
    arrivals_.remove(1, 200.0);
    arrival_->finish(16);
    EXPECT_EQ(next_of(1, 102.0), Next::nothing);
}

/// The disk comes back between the message that the time is up and the look that follows it.
TEST_F(PromptArrivalsTest, WhatComesInTheLastMomentIsTaken) {
    arrivals_.add(1, arrival_, begin_s);
    ASSERT_TRUE(arrivals_.patience(1, 105.0).is_over);
    arrival_->come(1);
    EXPECT_EQ(next_of(1, 105.0), Next::goes_on);
    EXPECT_FALSE(arrivals_.patience(1, 109.0).is_over);
    EXPECT_TRUE(arrivals_.patience(1, 110.0).is_over);
}

TEST_F(PromptArrivalsTest, WhatHasFailedToComeIsMissing) {
    arrivals_.add(1, arrival_, begin_s);
    arrival_->come(1);
    arrival_->finish(16);
    const PromptArrivals::Look look = arrivals_.look(1, 101.0);
    EXPECT_EQ(look.next, Next::ends_waiting);
    EXPECT_EQ(look.failed_tokens, end_token - 16);
    EXPECT_EQ(arrivals_.patience(1, 200.0).again_in_s, 0.0) << "nothing is on its way any more";

    const std::shared_ptr<Arrival> nothing = arrival_with(patience_s);
    arrivals_.add(2, nothing, begin_s);
    nothing->finish(0);
    EXPECT_EQ(arrivals_.look(2, 101.0).failed_tokens, end_token);
}

TEST_F(PromptArrivalsTest, AnOpenChunkIsGivenUpBeforeWhatHasFailedIsComputed) {
    arrivals_.add(1, arrival_, begin_s);
    arrival_->come(1);
    compute(1);
    arrival_->finish(16);
    EXPECT_EQ(next_of(1, 101.0), Next::drops_chunk);
    EXPECT_EQ(next_of(1, 102.0), Next::drops_chunk) << "the device has not come to it yet";
    arrivals_.begin_piece(1);
    EXPECT_EQ(next_of(1, 103.0), Next::nothing);
    arrivals_.end_piece(1, {0, false, true});
    EXPECT_EQ(arrivals_.look(1, 104.0).next, Next::ends_waiting);
    EXPECT_EQ(arrivals_.look(1, 104.0).failed_tokens, 16);
}

TEST_F(PromptArrivalsTest, WhatFailsWhileTheDeviceHasAPieceIsSeenWhenThatIsDone) {
    arrivals_.add(1, arrival_, begin_s);
    arrival_->come(1);
    arrivals_.begin_piece(1);
    arrival_->finish(16);
    EXPECT_EQ(next_of(1, 101.0), Next::nothing);
    arrivals_.end_piece(1, {1, true, false});
    EXPECT_EQ(next_of(1, 102.0), Next::drops_chunk);
}

/// Also when more layers have come by then: else two prompts would take the place from each other.
TEST_F(PromptArrivalsTest, AChunkThatGaveItsPlaceBeginsWhenEverythingHasCome) {
    arrivals_.add(1, arrival_, begin_s);
    arrival_->come(1);
    compute(1);
    drop();
    EXPECT_EQ(next_of(1, 101.0), Next::waits);
    arrival_->come(2);
    EXPECT_EQ(next_of(1, 102.0), Next::waits);
    arrival_->come(layers);
    EXPECT_EQ(next_of(1, 103.0), Next::ends_waiting);
}

TEST_F(PromptArrivalsTest, ADiskThatHangsBehindAnOpenChunkIsLeftWithoutIt) {
    arrivals_.add(1, arrival_, begin_s);
    arrival_->come(1);
    ASSERT_EQ(next_of(1, begin_s), Next::goes_on);
    compute(1);
    EXPECT_TRUE(arrivals_.patience(1, 105.0).is_over);
    EXPECT_EQ(next_of(1, 105.0), Next::drops_chunk);
    drop();
    EXPECT_EQ(next_of(1, 106.0), Next::begins_anew);
}

TEST_F(PromptArrivalsTest, ADiskThatGoesOnWhileTheChunkIsGivenUpIsWaitedFor) {
    arrivals_.add(1, arrival_, begin_s);
    arrival_->come(1);
    ASSERT_EQ(next_of(1, begin_s), Next::goes_on);
    compute(1);
    ASSERT_TRUE(arrivals_.patience(1, 105.0).is_over);
    ASSERT_EQ(next_of(1, 105.0), Next::drops_chunk);
    arrival_->come(2);
    drop();
    EXPECT_EQ(next_of(1, 106.0), Next::waits);
    EXPECT_FALSE(arrivals_.patience(1, 110.0).is_over);
    EXPECT_TRUE(arrivals_.patience(1, 111.0).is_over);
}

TEST_F(PromptArrivalsTest, ADiskThatHangsWhileTheDeviceHasAPieceIsAskedForAgain) {
    arrivals_.add(1, arrival_, begin_s);
    arrival_->come(1);
    ASSERT_EQ(next_of(1, begin_s), Next::goes_on);
    arrivals_.begin_piece(1);
    const PromptArrivals::Patience watched = arrivals_.patience(1, 105.0);
    EXPECT_TRUE(watched.is_over);
    EXPECT_EQ(watched.again_in_s, patience_s);
    EXPECT_EQ(next_of(1, 105.0), Next::nothing);
    EXPECT_TRUE(arrivals_.patience(1, 110.0).is_over) << "nothing has come meanwhile";
    arrival_->come(2);
    arrivals_.end_piece(1, {1, true, false});
    EXPECT_EQ(next_of(1, 111.0), Next::goes_on) << "now it has";
    EXPECT_FALSE(arrivals_.patience(1, 115.0).is_over);
    EXPECT_TRUE(arrivals_.patience(1, 116.0).is_over);
}

TEST_F(PromptArrivalsTest, PatienceMayHaveNoEnd) {
    arrivals_.add(1, arrival_with(Arrival::for_ever), begin_s);
    arrivals_.add(2, arrival_, begin_s);
    EXPECT_GT(arrivals_.patience(2, begin_s).again_in_s, 0.0);
    arrival_->wait_for_ever();
    for (const uint64_t id : {1, 2}) {
        EXPECT_FALSE(arrivals_.patience(id, 1e6).is_over) << id;
        EXPECT_EQ(arrivals_.patience(id, 1e6).again_in_s, 0.0) << id;
        EXPECT_EQ(next_of(id, 1e6), Next::waits) << id;
    }
}

TEST_F(PromptArrivalsTest, AWithdrawnPromptIsForgotten) {
    arrivals_.add(1, arrival_, begin_s);
    arrival_->come(1);
    compute(1);
    drop();
    arrivals_.begin_piece(1);
    arrivals_.remove(1, 200.0);
    arrivals_.end_piece(1, {1, true, false});
    EXPECT_EQ(next_of(1, 101.0), Next::nothing);
    EXPECT_FALSE(arrivals_.patience(1, 200.0).is_over);
    EXPECT_EQ(arrival_.use_count(), 1) << "and nothing of it is kept";
}

/// It comes back under its id when it is let in again.
TEST_F(PromptArrivalsTest, APromptThatComesAgainBeginsAnew) {
    arrivals_.add(1, arrival_, begin_s);
    arrival_->come(1);
    compute(1);
    drop();
    arrivals_.remove(1, 200.0);
    const std::shared_ptr<Arrival> again = arrival_with(patience_s);
    arrivals_.add(1, again, 200.0);
    EXPECT_EQ(next_of(1, 200.0), Next::waits);
    EXPECT_FALSE(arrivals_.patience(1, 204.0).is_over);
    again->come(1);
    EXPECT_EQ(next_of(1, 204.0), Next::goes_on) << "no chunk of it was given up";
    EXPECT_EQ(arrivals_.begin_piece(1), 1);
}

TEST_F(PromptArrivalsTest, EachOfManyHasItsOwnKeysAndItsOwnTime) {
    constexpr uint64_t count = 100;
    std::vector<std::shared_ptr<Arrival>> all;
    for (uint64_t id = 0; id < count; ++id) {
        all.push_back(arrival_with(patience_s));
        arrivals_.add(id, all.back(), begin_s + static_cast<double>(id));
    }
    for (uint64_t id = 0; id < count; id += 2) all[id]->come(layers);
    for (uint64_t id = 0; id < count; id += 10) arrivals_.remove(id, 200.0);
    constexpr uint64_t last = 41;  // whose time is up
    const double now = begin_s + patience_s + static_cast<double>(last);
    for (uint64_t id = 0; id < count; ++id) {
        const bool waits = id % 2 != 0, gone = id % 10 == 0;
        EXPECT_EQ(arrivals_.patience(id, now).is_over, waits && id <= last) << id;
        const Next expected = gone         ? Next::nothing
                              : !waits     ? Next::ends_waiting
                              : id <= last ? Next::begins_anew
                                           : Next::waits;
        EXPECT_EQ(next_of(id, now), expected) << id;
    }
}

}  // namespace
}  // namespace rondo
