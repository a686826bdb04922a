// What is stored of a prompt is read where that is sooner than computing it, by a clock that the test moves.

#include "actors/restoring.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memory/store/round_writer.hpp"
#include "tests/actors/turn_fixture.hpp"
#include "tests/flip_bit.hpp"
#include "tests/memory/store/kv_store_fixture.hpp"

namespace rondo {
namespace {

/// Prompts of one length are stored, each in records of its own. Rates are given in units of what one prompt takes: a
/// disk of 1 reads it as soon as a computer of 1 computes it.
class RestoringTest : public testing::StoreTest {
protected:
    static constexpr int64_t tokens = 256;
    static constexpr int prompts = 4;

    explicit RestoringTest(size_t blocks = 512) : runtime_(testing::small_runtime(blocks)) {}
    void SetUp() override {
        runtime_->context_tokens = 4 * tokens;
        const KvShape& shape = runtime_->pool->shape();
        options_.kind.dtype = shape.atom.dtype;
        options_.kind.layers = shape.layers;
        options_.kind.kv_heads = shape.kv_heads;
        options_.kind.head_dim = shape.atom.head_dim;
        open();
        Device& device = *runtime_->devices[0];
        writer_.emplace(*store_, *runtime_->pool, device, RoundWriter::Options{.post = options_.post});
        reader_.emplace(*store_, *runtime_->pool, device, RoundReader::Options{.post = options_.post});
        for (int prompt = 0; prompt < prompts; ++prompt) {
            write(prompt);
            if (prompt == 0) store_->index().each([this](const auto& record) { of_the_first_ = record.place; });
        }
        ASSERT_EQ(store_->index().bytes() % prompts, 0U);
        bytes_ = store_->index().bytes() / prompts;
        begin();
    }
    ~RestoringTest() override {
        if (restoring_) end_all(0.0);
        restoring_.reset();
        reader_.reset();
        writer_.reset();
        close();  // while there is whoever is told
    }

    /// As after a start: nothing is measured.
    void begin() {
        Restoring::Options options{[this] { return time_; }, [this] { return prompt_tokens_; }, options_.post};
        options.bytes_to_write = [this] { return bytes_to_write_; };
        options.probed_seconds_per_byte = [this] { return probed_; };
        restoring_.emplace(*store_, *reader_, *runtime_->pool, std::move(options));
    }
    static std::vector<int32_t> ids_of(int prompt) {
        std::vector<int32_t> ids{1 + prompt};
        while (std::ssize(ids) < tokens) ids.push_back(static_cast<int32_t>(1 + ids.size() * 7 % 60));
        return ids;
    }
    void write(int prompt) {
        SequenceKv kv(*runtime_->pool);
        kv.plan_rounds({tokens});
        ASSERT_TRUE(kv.extend(tokens));
        writer_->add({space_, ids_of(prompt), std::move(kv), computer_when_written});
        bool written = false;
        writer_->when_idle([&written] { written = true; });
        tasks_->run_until([&written] { return written; });
    }

    /// The prompt has one token more than is stored.
    TurnPtr bare_turn(int prompt) {
        std::vector<int32_t> ids = ids_of(prompt);
        ids.push_back(1);
        auto turn = std::make_shared<Turn>(testing::make_bare_turn(runtime_, ++last_turn_, ids, std::ssize(ids)));
        turn->conversation.name.tenant = space_.tenant;
        turn->space = space_;
        return turn;
    }
    static TurnOfferPtr taken(TurnPtr turn) {
        auto offer = std::make_shared<TurnOffer>(std::move(turn));
        EXPECT_TRUE(offer->take());
        return offer;
    }
    TurnPtr ask(int prompt) {
        const TurnPtr turn = bare_turn(prompt);
        bool done = false;
        restoring_->restore(taken(turn), [&done] { done = true; });
        EXPECT_TRUE(done);
        EXPECT_EQ(turn->kv.tokens(), turn->arrival ? tokens : 0);
        return turn;
    }
    bool is_read(int prompt) { return ask(prompt)->arrival != nullptr; }
    /// All that is read comes after so many seconds.
    void end_all(double seconds) {
        time_ += seconds;
        tasks_->run_until([this] { return restoring_->under_way().empty(); });
    }
    void computer(double seconds_for_a_prompt) { restoring_->computed(seconds_for_a_prompt / tokens); }
    /// As a probe measures it.
    void disk(double seconds_for_a_prompt) { probed_ = seconds_for_a_prompt / static_cast<double>(bytes_in_all()); }
    uint64_t bytes_in_all() const { return Restoring::bytes_to_begin + bytes_; }

    static constexpr double computer_when_written = 1.0 / tokens;
    const RuntimePtr runtime_;
    const PrefixSpace space_{"t"};
    std::optional<RoundWriter> writer_;
    std::optional<RoundReader> reader_;
    std::optional<Restoring> restoring_;
    RecordPlace of_the_first_;  // of the first prompt's last record
    uint64_t bytes_ = 0;        // that are stored of a prompt
    TurnId last_turn_ = 0;
    double time_ = 100.0, probed_ = 0.0;
    int64_t prompt_tokens_ = 0;
    uint64_t bytes_to_write_ = 0;
};

TEST_F(RestoringTest, ReadsFromAFastDisk) {
    computer(1.0);
    disk(0.5);
    const TurnPtr turn = ask(0);
    ASSERT_NE(turn->arrival, nullptr);
    end_all(0.5);
    EXPECT_EQ(turn->arrival->whole(), tokens);
    EXPECT_EQ(restoring_->counts().found, tokens);
    EXPECT_EQ(restoring_->counts().restored, tokens);
    EXPECT_EQ(restoring_->counts().not_worth, 0);
    EXPECT_EQ(restoring_->counts().seconds, 0.5);
}

TEST_F(RestoringTest, ComputesWhatASlowDiskHas) {
    computer(1.0);
    disk(2.0);
    EXPECT_FALSE(is_read(0));
    EXPECT_TRUE(restoring_->under_way().empty());
    EXPECT_EQ(restoring_->counts().found, tokens);
    EXPECT_EQ(restoring_->counts().not_worth, tokens);
    EXPECT_EQ(restoring_->counts().restored, 0);
    EXPECT_EQ(restoring_->counts_of(space_.tenant).not_worth, tokens);
}

TEST_F(RestoringTest, TheFirstRestoreMeasuresADiskThatNobodyHasProbed) {
    computer(1.0);
    EXPECT_TRUE(is_read(0));
    end_all(2.0);
    EXPECT_FALSE(is_read(1));
}

TEST_F(RestoringTest, RestoresCorrectWhatAProbeHasMeasured) {
    computer(1.0);
    disk(0.5);
    EXPECT_TRUE(is_read(0));
    end_all(1.5);
    EXPECT_TRUE(is_read(1)) << "one slow restore may be a chance";
    end_all(5.0);
    EXPECT_FALSE(is_read(2));
}

TEST_F(RestoringTest, BeforeAnyTurnAComputerIsAsFastAsWhenTheRecordsWereWritten) {
    disk(0.9);
    EXPECT_TRUE(is_read(0));
    end_all(0.9);
    begin();
    disk(1.1);
    EXPECT_FALSE(is_read(1));
    computer(1.2);
    EXPECT_TRUE(is_read(1));
}

TEST_F(RestoringTest, CountsWhatIsReadAlready) {
    computer(static_cast<double>(bytes_in_all() + bytes_ / 2) / static_cast<double>(bytes_in_all()));
    disk(1.0);
    EXPECT_TRUE(is_read(0));
    EXPECT_FALSE(is_read(1));
    end_all(1.0);
    EXPECT_TRUE(is_read(1));
}

TEST_F(RestoringTest, CountsWhatTheDiskHasToWrite) {
    computer(1.5);
    disk(1.0);
    bytes_to_write_ = bytes_in_all();
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(is_read(0)) << "the disk is no faster because it is busy";
    bytes_to_write_ = 0;
    EXPECT_TRUE(is_read(0));
}

/// The restore takes twice as long as reading alone, for the disk writes as much before.
TEST_F(RestoringTest, ADiskIsNoSlowerForWhatItHadToWrite) {
    computer(1.5);
    bytes_to_write_ = bytes_in_all();
    EXPECT_TRUE(is_read(0));
    end_all(2.0);
    bytes_to_write_ = 0;
    EXPECT_TRUE(is_read(1));
}

TEST_F(RestoringTest, CountsWhatIsToBeComputedBefore) {
    computer(0.5);
    disk(1.0);
    EXPECT_FALSE(is_read(0));
    prompt_tokens_ = 2 * tokens;
    EXPECT_TRUE(is_read(0));
}

/// Two are asked for at once, and each takes the disk one second.
TEST_F(RestoringTest, WhatIsReadBehindAnotherIsMeasuredFromTheOthersEnd) {
    computer(1.1);
    EXPECT_TRUE(is_read(0));
    EXPECT_TRUE(is_read(1));
    time_ += 1.0;
    tasks_->run_until([this] { return restoring_->under_way().size() == 1; });
    end_all(1.0);
    EXPECT_TRUE(is_read(2));
}

TEST_F(RestoringTest, NothingIsLearnedFromACancelledRestore) {
    computer(1.5);
    disk(1.0);
    const TurnPtr turn = ask(0);
    ASSERT_NE(turn->arrival, nullptr);
    turn->stop_waiting();
    end_all(1000.0);
    EXPECT_EQ(restoring_->counts().restored, 0);
    EXPECT_EQ(restoring_->counts().failed, 0) << "nobody wanted it";
    EXPECT_TRUE(is_read(1));
}

TEST_F(RestoringTest, NothingIsLearnedFromADamagedRecord) {
    testing::flip_bit(options_.path + "/" + Segments::name_of(of_the_first_.segment),
                      of_the_first_.offset + of_the_first_.bytes - disk_alignment);
    computer(1.5);
    disk(1.0);
    const TurnPtr turn = ask(0);
    ASSERT_NE(turn->arrival, nullptr);
    end_all(1000.0);
    EXPECT_EQ(turn->arrival->whole(), 0);
    EXPECT_EQ(restoring_->counts().restored, 0);
    EXPECT_EQ(restoring_->counts().failed, tokens);
    EXPECT_TRUE(is_read(1));
}

TEST_F(RestoringTest, ASlowDiskIsTriedAgain) {
    computer(1.0);
    disk(8.0);
    int computed = 0;
    while (computed < 1000 && !is_read(0)) ++computed;
    EXPECT_GT(computed, 10);
    EXPECT_LT(computed, 100);
    EXPECT_EQ(restoring_->counts().not_worth, computed * tokens);
    end_all(0.1);
    EXPECT_TRUE(is_read(1)) << "it has become fast";
}

TEST_F(RestoringTest, NobodyQueuesForADiskThatHangs) {
    computer(1.0);
    EXPECT_TRUE(is_read(0));
    time_ += 1.5;
    EXPECT_FALSE(is_read(1));
    end_all(0.0);
}

/// Nobody reads from it, whatever is to be computed before; who waits for what it does not bring is let go.
TEST_F(RestoringTest, WhatHangsIsAskedForByNobody) {
    computer(1.0);
    disk(0.5);
    const TurnPtr reads = ask(0);
    ASSERT_NE(reads->arrival, nullptr);
    const TurnPtr waits = bare_turn(0);
    const TurnOfferPtr offer = taken(waits);
    bool waited = false;
    restoring_->restore(offer, [&waited] { waited = true; });
    EXPECT_EQ(offer->patience(), Restoring::patience_min_s);
    time_ += 6.0;
    const std::vector<int32_t> written_to(reads->kv.blocks(LayerGroup::upper).begin(),
                                          reads->kv.blocks(LayerGroup::upper).end());
    reads->arrival->give_up(Arrival::Why::hangs);
    reads->stop_waiting();
    ASSERT_TRUE(reads->kv.extend(tokens));
    for (const int32_t block : reads->kv.blocks(LayerGroup::upper))
        EXPECT_EQ(std::ranges::count(written_to, block), 0) << "the disk may still write there";
    prompt_tokens_ = 1000 * tokens;
    tasks_->run_until([&waited] { return waited; });
    EXPECT_EQ(offer->turn(), waits);
    EXPECT_FALSE(offer->was_taken_back());
    EXPECT_EQ(waits->kv.tokens(), 0);
    EXPECT_EQ(restoring_->counts().failed, tokens);
    if (!restoring_->under_way().empty()) {
        EXPECT_FALSE(is_read(1));
    }
    end_all(0.0);
    EXPECT_EQ(restoring_->counts().failed, tokens);
    EXPECT_EQ(restoring_->counts().restored, 0);
    EXPECT_TRUE(is_read(1)) << "it has gone on";
    end_all(0.0);
    prompt_tokens_ = 0;
    EXPECT_FALSE(is_read(2)) << "that it was slow is known";
}

TEST_F(RestoringTest, ADiskIsGivenTheTimeThatComputingTakes) {
    for (const double computing : {1.0, 20.0, 1e300}) {
        begin();
        computer(computing);
        const TurnPtr turn = ask(0);
        ASSERT_NE(turn->arrival, nullptr);
        EXPECT_DOUBLE_EQ(turn->arrival->patience(),
                         std::clamp(computing, Restoring::patience_min_s, Restoring::patience_max_s));
        end_all(0.0);
    }
}

class CrowdedRestoringTest : public RestoringTest {
protected:
    CrowdedRestoringTest() : RestoringTest(40) {}
};

/// Each could be let in with other blocks alone. Both would hold all there are, and the first would keep everybody out.
TEST_F(CrowdedRestoringTest, WhoTakesTheOtherBlocksLeavesNobodyAny) {
    TurnPtr first = ask(0);
    EXPECT_EQ(first->arrival->patience(), Restoring::patience_min_s);
    const TurnPtr second = ask(1);
    EXPECT_EQ(first->arrival->patience(), Arrival::for_ever);
    EXPECT_EQ(second->arrival->patience(), Arrival::for_ever);
    end_all(0.0);
    first.reset();
    const TurnPtr third = ask(2);
    ASSERT_NE(third->arrival, nullptr);
    EXPECT_EQ(third->arrival->patience(), Restoring::patience_min_s);
    end_all(0.0);
}

/// 16 blocks of each are written to, and 17 are wanted anew: for three of them 99.
class RoomyRestoringTest : public RestoringTest {
protected:
    RoomyRestoringTest() : RestoringTest(99) {}
};

TEST_F(RoomyRestoringTest, WhoHasOtherBlocksKeepsThem) {
    const std::vector<TurnPtr> turns{ask(0), ask(1), ask(2)};
    for (const TurnPtr& turn : turns) EXPECT_EQ(turn->arrival->patience(), Restoring::patience_min_s);
    const TurnPtr last = ask(3);
    EXPECT_EQ(last->arrival->patience(), Arrival::for_ever);
    for (const TurnPtr& turn : turns) EXPECT_EQ(turn->arrival->patience(), Arrival::for_ever);
    end_all(0.0);
}

/// Its turn has left, so nobody else looks whether something comes.
TEST_F(RestoringTest, WhoAsksForWhatHangsComputes) {
    computer(1.0);
    const TurnPtr reads = ask(0), waits = bare_turn(0);
    ASSERT_NE(reads->arrival, nullptr);
    const TurnOfferPtr offer = taken(waits);
    restoring_->restore(offer, [] {});
    reads->stop_waiting();
    time_ += Restoring::patience_min_s + 1.0;
    EXPECT_EQ(offer->take_back(), waits);
    prompt_tokens_ = 1000 * tokens;
    EXPECT_FALSE(is_read(0)) << "and does not wait";
    EXPECT_FALSE(is_read(1));
    end_all(0.0);
    EXPECT_TRUE(is_read(1));
}

TEST_F(RestoringTest, ADiskHangsThoughNobodyWaitsForIt) {
    computer(1.0);
    const TurnPtr reads = ask(0);
    ASSERT_NE(reads->arrival, nullptr);
    reads->stop_waiting();
    time_ += Restoring::patience_min_s + 1.0;
    prompt_tokens_ = 1000 * tokens;
    EXPECT_FALSE(is_read(1));
    end_all(0.0);
    EXPECT_TRUE(is_read(1));
}

/// It is computed by itself. Nobody touches it when the reading is over.
TEST_F(RestoringTest, WhoIsTakenBackWaitsForNobody) {
    computer(1.0);
    EXPECT_TRUE(is_read(0));
    const TurnPtr waits = bare_turn(0);
    const TurnOfferPtr offer = taken(waits);
    int over = 0;
    restoring_->restore(offer, [&over] { ++over; });
    EXPECT_EQ(offer->take_back(), waits);
    end_all(0.5);
    EXPECT_EQ(over, 1);
    EXPECT_TRUE(offer->was_taken_back());
    EXPECT_EQ(waits->kv.tokens(), 0);
    EXPECT_EQ(waits->restored_tokens, 0);
}

}  // namespace
}  // namespace rondo
