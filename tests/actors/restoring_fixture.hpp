#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "actors/restoring.hpp"
#include "memory/store/round_writer.hpp"
#include "tests/actors/held_disk.hpp"
#include "tests/actors/turn_fixture.hpp"
#include "tests/memory/store/kv_store_fixture.hpp"

namespace rondo::testing {

/// Prompts of one length are stored, each in records of its own. Rates are given in units of what one prompt takes: a
/// disk of 1 reads it as soon as a computer of 1 computes it.
class RestoringTest : public StoreTest {
protected:
    static constexpr int64_t tokens = 256;
    static constexpr int prompts = 4;

    explicit RestoringTest(size_t blocks = 512, uint64_t host_bytes = 0, int64_t round_tokens = tokens)
        : runtime_(small_runtime(blocks)), host_bytes_(host_bytes), round_tokens_(round_tokens) {
        queue_ = held_.maker()();
    }
    void SetUp() override {
        runtime_->context_tokens = 4 * tokens;
        const KvShape& shape = runtime_->pool->shape();
        options_.kind.dtype = shape.atom.dtype;
        options_.kind.layers = shape.layers;
        options_.kind.kv_heads = shape.kv_heads;
        options_.kind.head_dim = shape.atom.head_dim;
        open();
        Device& device = *runtime_->devices[0];
        if (host_bytes_ > 0) arena_.emplace(device, HostArena::Options{.bytes_max = host_bytes_});
        HostArena* const arena = arena_ ? &*arena_ : nullptr;
        writer_.emplace(*store_, *runtime_->pool, device, RoundWriter::Options{.post = options_.post, .arena = arena});
        reader_.emplace(*store_, *runtime_->pool, device, RoundReader::Options{.post = options_.post, .arena = arena});
        for (int prompt = 0; prompt < prompts; ++prompt) {
            write(prompt);
            if (prompt == 0) store_->index().each([this](const auto& record) { of_the_first_ = record.place; });
        }
        ASSERT_EQ(store_->index().bytes() % prompts, 0U);
        bytes_ = store_->index().bytes() / prompts;
        begin();
    }
    ~RestoringTest() override {
        held_.let_go();
        if (restoring_) {
            for (const auto& arrival : restoring_->under_way()) arrival->give_up();
            end_all(0.0);
        }
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
        options.bytes_to_begin = bytes_to_begin_;
        restoring_.emplace(*store_, *reader_, *runtime_->pool, std::move(options));
    }
    static std::vector<int32_t> ids_of(int prompt) {
        std::vector<int32_t> ids{1 + prompt};
        while (std::ssize(ids) < tokens) ids.push_back(static_cast<int32_t>(1 + ids.size() * 7 % 60));
        return ids;
    }
    void write(int prompt) {
        SequenceKv kv(*runtime_->pool);
        std::vector<int64_t> ends;
        for (int64_t end = round_tokens_; end <= tokens; end += round_tokens_) ends.push_back(end);
        kv.plan_rounds(std::move(ends));
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
        auto turn = std::make_shared<Turn>(make_bare_turn(runtime_, ++last_turn_, ids, std::ssize(ids)));
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
    bool is_read(int prompt) {
        turns_.push_back(ask(prompt));  // of one that is gone nothing is wanted
        return turns_.back()->arrival != nullptr;
    }
    /// All that is read comes after so many seconds.
    void end_all(double seconds) {
        time_ += seconds;
        tasks_->run_until([this] { return restoring_->under_way().empty(); });
    }
    void computer(double seconds_for_a_prompt) {
        restoring_->computed({.tokens = tokens, .seconds = seconds_for_a_prompt, .depths = 0.0});
    }
    /// As a probe measures it.
    void disk(double seconds_for_a_prompt) { probed_ = seconds_for_a_prompt / static_cast<double>(bytes_in_all()); }
    uint64_t bytes_in_all() const { return bytes_to_begin_ + bytes_; }

    static constexpr double computer_when_written = 1.0 / tokens;
    const RuntimePtr runtime_;
    const PrefixSpace space_{"t"};
    const uint64_t host_bytes_;
    const int64_t round_tokens_;
    uint64_t bytes_to_begin_ = Restoring::bytes_to_begin;
    HeldDisk held_;
    std::optional<HostArena> arena_;
    std::optional<RoundWriter> writer_;
    std::optional<RoundReader> reader_;
    std::optional<Restoring> restoring_;
    RecordPlace of_the_first_;  // of the first prompt's last record
    uint64_t bytes_ = 0;        // that are stored of a prompt
    TurnId last_turn_ = 0;
    std::vector<TurnPtr> turns_;
    double time_ = 100.0, probed_ = 0.0;
    int64_t prompt_tokens_ = 0;
    uint64_t bytes_to_write_ = 0;
};

}  // namespace rondo::testing
