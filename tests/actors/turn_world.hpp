#pragma once

// A seeded model check of what a turn may go through: the flow of turns, the pool, sequences and the prefix cache,
// driven by random work, faults, cancellations, rewinds, forks, changes of method and restarts, with stages and a disk
// that only pretend. Each key "computed" leaves a mark of everything it was computed from, so that a key found under
// the wrong tokens, tenant or method, or before it was written, is seen at once.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "actors/turn_flow.hpp"
#include "memory/prefix_cache.hpp"
#include "tests/actors/pretended_disk.hpp"
#include "tests/actors/simulated_turn.hpp"
#include "tests/memory/fake_device.hpp"

namespace rondo::testing {

using Action = TurnFlow::Action;
using Event = TurnFlow::Event;
using State = TurnFlow::State;

class World {
public:
    World(uint64_t seed, Seen& seen) : random_(seed), seen_(seen) {
        pool_ = std::move(KvPool::create(device_, shape_, {24, 24})).value();
        cache_ = std::make_unique<PrefixCache>(*pool_);
        for (int i = 0; i < 5; ++i) {
            chats_.emplace_back();
            chats_.back().tenant = i < 3 ? "a" : "b";
        }
    }

    void run(int operations) {
        for (int i = 0; i < operations && !::testing::Test::HasFailure(); ++i) {
            operate();
            check();
        }
        drain();
    }

private:
    int roll(int64_t sides) { return static_cast<int>(random_() % static_cast<uint64_t>(sides)); }
    Chat& any() { return chats_[static_cast<size_t>(roll(static_cast<int>(chats_.size())))]; }

    void operate() {
        Chat& chat = any();
        if (!readings_.empty() && roll(6) == 0) go_on(readings_[static_cast<size_t>(roll(std::ssize(readings_)))]);
        switch (roll(400)) {
            case 13:
            case 14:
            case 21:
            case 22:
            case 23:
                return disk_.damage(roll(8));
            case 15:
            case 16:
                return disk_.evict();
            case 17:
            case 18:
            case 19:
            case 20:
                cache_->forget(chat.tenant, chat.history);
                return;
            case 10:
            case 11:
            case 12:
                return change(chat);
            case 0:
            case 1:
                return happen(chat, Event::cancel);
            case 2:
                return happen(chat, Event::expired);
            case 3:
                if (chat.turn) lose(chat);
                return;
            case 4:
                if (chat.turn) happen(chat, Event::refused);
                return;
            case 5:
            case 6:
                return rewind(chat);
            case 7:
            case 8:
                return fork(chat, any());
            case 9:
                if (roll(10) == 0) restart();
                return;
            default:
                return chat.turn ? work(chat) : start(chat);
        }
    }

    void start(Chat& chat) {
        if (!chat.flow.idle()) return;
        if (chat.history.size() > context_tokens / 2) chat.history.clear();
        const PrefixSpace space(chat.tenant, chat.method == methods ? "" : chat.method->name);
        chat.turn =
            std::make_unique<SimulatedTurn>(SimulatedTurn{chat.history, SequenceKv(*pool_), chat.method, space});
        for (int i = 1 + roll(30); i > 0; --i) chat.turn->ids.push_back(roll(2));  // few letters: many equal beginnings
        chat.terminals = 0;
        chat.asked_back = false;
        chat.serial = ++serial_;
        happen(chat, Event::start);
    }

    void happen(Chat& chat, Event event) {
        const bool was_idle = chat.flow.idle();
        for (const Action action : chat.flow.on(event)) act(chat, action);
        if (was_idle || !chat.flow.idle()) return;
        EXPECT_EQ(chat.terminals, 1) << "a turn is over without its one terminal event";
        cache_->forget_claim(static_cast<uint64_t>(chat.serial));
        chat.turn.reset();
    }

    void act(Chat& chat, Action action) {
        switch (action) {
            case Action::admit:
                chat.turn->admitted = false;
                return;
            case Action::restore:
            case Action::prefill:
            case Action::decode:
                return;
            case Action::end_done:
                chat.history = chat.turn->ids;
                [[fallthrough]];
            case Action::end_cancelled:
            case Action::end_failed:
            case Action::end_expired:
                ++chat.terminals;
                EXPECT_EQ(chat.terminals, 1);
                return;
            case Action::withdraw:
                chat.asked_back = true;
                return;
            case Action::keep_kv:
                return keep(*chat.turn);
            case Action::drop_kv:
                return;
        }
    }

    /// As the cache does it: what has gaps is no beginning of anything.
    void keep(SimulatedTurn& turn) {
        turn.stop_waiting();
        seen_.left_ahead += turn.ahead.count() > 0;
        turn.leave_ahead();
        if (turn.kv.first_held() == 0) {
            cache_->insert(turn.space, turn.ids, turn.kv);
            const auto ids = std::span(turn.ids).first(static_cast<size_t>(turn.kv.tokens()));
            if (roll(3) > 0) disk_.put(turn.space, ids, turn.kv, roll(12));
        } else {
            ++seen_.with_gaps;
        }
        turn.kv = SequenceKv(*pool_);
    }

    /// The stage that holds the turn does a piece of its work.
    void work(Chat& chat) {
        if (!chat.turn) return;
        if (chat.asked_back) return roll(4) == 0 ? lose(chat) : happen(chat, Event::refused);
        switch (chat.flow.state()) {
            case State::admitting:
                return admit(chat);
            case State::restoring:
                return restore(chat);
            case State::prefilling:
                return prefill(chat);
            case State::decoding:
                return decode(chat);
            default:
                return;
        }
    }

    void restore(Chat& chat) {
        SimulatedTurn& turn = *chat.turn;
        WayBack way = disk_.way(turn.space, turn.reusable(), turn.kv);
        const int64_t tokens = static_cast<int64_t>(turn.ids.size()) - turn.kv.tokens() + 1;
        if (way.end > way.begin && grow_for(turn.kv, way, tokens)) {
            compute_some_ahead(turn, way);
            turn.reading = std::make_shared<PretendedDisk::Reading>(turn.kv.share(), std::move(way));
            readings_.push_back(turn.reading);
        }
        happen(chat, Event::restored);
    }

    /// Some of its first rounds, where dense attention computes what is stored.
    void compute_some_ahead(SimulatedTurn& turn, WayBack& way) {
        if (!turn.space.is_exact() || way.rounds.size() < 2) return;
        const int rounds = 1 + roll(std::ssize(way.rounds) - 1);
        turn.ahead = {way.begin, way.rounds[static_cast<size_t>(rounds)].stored.first_token};
        way.rounds.erase(way.rounds.begin(), way.rounds.begin() + rounds);
        way.begin = turn.ahead.end;
    }

    /// When it is over nobody but its turn, if that still waits, has its blocks.
    void go_on(const std::shared_ptr<PretendedDisk::Reading>& asked) {
        const std::shared_ptr<PretendedDisk::Reading> reading = asked;
        disk_.go_on(*reading);
        if (!reading->over()) return;
        std::erase(readings_, reading);
        ++(reading.use_count() == 1                       ? seen_.unwanted
           : reading->whole == reading->way.rounds.size() ? seen_.restored
                                                          : seen_.damaged);
        reading->kv = SequenceKv(*pool_);
    }

    void admit(Chat& chat) {
        SimulatedTurn& turn = *chat.turn;
        turn.kv = cache_->match(turn.space, turn.ids, std::ssize(turn.reusable()));
        seen_.exact_for_methods += !turn.space.is_exact() && turn.kv.exact_tokens() > 0;
        if (!turn.space.is_exact()) turn.kv.go_on_inexactly();
        EXPECT_LT(turn.kv.tokens(), static_cast<int64_t>(turn.ids.size()));
        seen_.found += turn.kv.tokens() > 0;
        const auto serial = static_cast<uint64_t>(chat.serial);
        EXPECT_LE(cache_->claimed(serial), turn.kv.tokens()) << "a claim on what is not there";
        seen_.claimed += cache_->claimed(serial) > 0;
        const int64_t tokens = static_cast<int64_t>(turn.ids.size()) - turn.kv.tokens() + 1;
        if (cache_->make_room(turn.kv.blocks_for(tokens)) && turn.kv.set_aside(tokens)) {
            turn.admitted = true;
            cache_->forget_claim(serial);
            return happen(chat, Event::admitted);
        }
        turn.kv = SequenceKv(*pool_);  // waits
        cache_->claim(serial, turn.space, turn.reusable());
        const uint64_t first[] = {static_cast<uint64_t>(any().serial)};
        cache_->order_claims(first);
    }

    void prefill(Chat& chat) {
        SimulatedTurn& turn = *chat.turn;
        if (turn.ahead.count() > 0 && roll(2) > 0)
            return roll(5) > 0 ? compute_ahead(chat) : happen(chat, Event::preempted);
        if (turn.reading && !turn.reading->over()) {
            const int what = roll(30);
            return what < 4 ? go_on(turn.reading) : what == 4 ? happen(chat, Event::cancel) : void();
        }
        turn.stop_waiting();
        if (turn.ahead.count() > 0) return compute_ahead(chat);
        const int64_t missing = static_cast<int64_t>(turn.ids.size()) - turn.kv.tokens();
        compute(chat, std::min<int64_t>(missing, 1 + roll(24)));
        if (turn.kv.tokens() < static_cast<int64_t>(turn.ids.size())) return;
        cache_->insert_full(turn.space, turn.ids, turn.kv);
        turn.ids.push_back(roll(2));
        happen(chat, Event::prefilled);
    }

    void decode(Chat& chat) {
        SimulatedTurn& turn = *chat.turn;
        if (!turn.kv.set_aside(1) && !(cache_->make_room({1, 1}) && turn.kv.set_aside(1))) {
            Chat* latest = nullptr;
            for (Chat& other : chats_) {
                if (other.turn && other.flow.state() == State::decoding && (!latest || other.serial > latest->serial))
                    latest = &other;
            }
            ++seen_.preempted;
            return happen(*latest, Event::preempted);
        }
        compute(chat, 1);
        if (turn.method->evicts && roll(6) == 0) turn.kv.release_before(roll(static_cast<int>(turn.kv.tokens()) + 1));
        turn.ids.push_back(roll(2));
        if (roll(12) == 0 || turn.ids.size() >= context_tokens) ++seen_.over, happen(chat, Event::over);
    }

    uint64_t mark(const Chat& chat, int64_t key) const { return mark(chat, key, key < chat.turn->kv.exact_tokens()); }
    /// What is exact is the same whoever computes it.
    uint64_t mark(const Chat& chat, int64_t key, bool exact) const {
        uint64_t mark = std::hash<std::string>()(chat.tenant + (exact ? "" : "\n" + chat.turn->space.method));
        for (int64_t i = 0; i <= key; ++i)
            mark = (mark ^ static_cast<uint64_t>(chat.turn->ids[static_cast<size_t>(i)] + 1)) * 0x9E3779B97F4A7C15U;
        return mark;
    }

    void compute(Chat& chat, int64_t tokens) {
        SequenceKv& kv = chat.turn->kv;
        const int64_t first = kv.tokens();
        ASSERT_TRUE(kv.extend(tokens)) << "blocks were set aside, and still there was none";
        for (const LayerGroup group : layer_groups) {
            for (int64_t key = first; key < kv.tokens(); ++key) marks_[{group, kv.slot(group, key)}] = mark(chat, key);
        }
    }

    void compute_ahead(Chat& chat) {
        TokenRange& ahead = chat.turn->ahead;
        const int64_t end = ahead.begin + std::min<int64_t>(ahead.count(), 1 + roll(12));
        for (const LayerGroup group : layer_groups) {
            for (int64_t key = ahead.begin; key < end; ++key)
                marks_[{group, chat.turn->kv.slot(group, key)}] = mark(chat, key);
        }
        ahead.begin = end;
        seen_.ahead += ahead.count() == 0;
    }

    /// The stage dies in the middle of writing; nobody knows what its blocks hold.
    void lose(Chat& chat) {
        SequenceKv& kv = chat.turn->kv;
        if (kv.tokens() < static_cast<int64_t>(chat.turn->ids.size()) && kv.extend(1)) {
            for (const LayerGroup group : layer_groups) marks_[{group, kv.slot(group, kv.tokens() - 1)}] = 0xDEAD;
        }
        happen(chat, Event::lost);
    }

    void rewind(Chat& chat) {
        if (chat.flow.idle() && !chat.history.empty())
            chat.history.resize(static_cast<size_t>(roll(static_cast<int>(chat.history.size()))));
    }

    void fork(const Chat& from, Chat& to) {
        if (&from != &to && to.flow.idle() && from.tenant == to.tenant) to.history = from.history;
    }

    void change(Chat& chat) {
        const Method* before = chat.method;
        chat.method = &methods[roll(static_cast<int>(std::size(methods)))];
        seen_.changed += chat.method != before;
    }

    void restart() {
        for (Chat& chat : chats_)
            if (chat.turn) lose(chat);
        cache_ = std::make_unique<PrefixCache>(*pool_);
    }

    void check() {
        for (const LayerGroup group : layer_groups) {
            std::map<int32_t, int> holders;
            int64_t set_aside = 0;
            for (const Chat& chat : chats_) {
                if (!chat.turn) continue;
                for (const int32_t block : chat.turn->kv.blocks(group)) ++holders[block];
                set_aside += chat.turn->kv.blocks_set_aside(group);
            }
            for (const auto& reading : readings_)
                for (const int32_t block : reading->kv.blocks(group)) ++holders[block];
            int64_t cached_and_held = 0, held_only = 0;
            for (const auto& [block, count] : holders) {
                const int by_cache = pool_->references(group, block) - count;
                ASSERT_TRUE(by_cache == 0 || by_cache == 1) << "block " << block << " is counted wrong";
                (by_cache == 1 ? cached_and_held : held_only) += 1;
            }
            ASSERT_EQ(cached_and_held + cache_->blocks_unused(), cache_->blocks());
            ASSERT_EQ(static_cast<int64_t>(pool_->blocks_free(group)),
                      static_cast<int64_t>(pool_->blocks_total(group)) - cache_->blocks() - held_only - set_aside);
        }
        for (const Chat& chat : chats_) {
            if (!chat.turn) continue;
            const SequenceKv& kv = chat.turn->kv;
            const auto* const reading = chat.turn->reading.get();
            for (const LayerGroup group : layer_groups) {
                for (int64_t key = kv.first_held(); key < kv.tokens(); ++key) {
                    if (reading != nullptr && key >= reading->way.begin && key < reading->way.end) continue;
                    if (key >= chat.turn->ahead.begin && key < chat.turn->ahead.end) continue;
                    const auto found = marks_.find({group, kv.slot(group, key)});
                    ASSERT_TRUE(found != marks_.end()) << "a key that was never computed";
                    // A method may have more than it knows to be exact: from the disk, behind what it computed.
                    if (found->second == mark(chat, key, true)) continue;
                    ASSERT_EQ(found->second, mark(chat, key)) << "key " << key << " was computed from something else";
                }
            }
        }
    }

    /// Every turn gets to its end when nothing more happens to it, and then only the cache holds blocks.
    void drain() {
        seen_.evicted += cache_->evictions();
        for (int rounds = 0; rounds < 20'000 && !::testing::Test::HasFailure(); ++rounds) {
            bool busy = !readings_.empty();
            if (busy) go_on(readings_.front());
            for (Chat& chat : chats_) {
                busy = busy || chat.turn;
                work(chat);
            }
            check();
            if (!busy) break;
        }
        for (Chat& chat : chats_) EXPECT_TRUE(chat.flow.idle()) << "stuck in " << name_of(chat.flow.state());
        for (const LayerGroup group : layer_groups) {
            EXPECT_EQ(static_cast<int64_t>(pool_->blocks_free(group)),
                      static_cast<int64_t>(pool_->blocks_total(group)) - cache_->blocks());
        }
        EXPECT_EQ(cache_->claims(), 0);
        EXPECT_TRUE(cache_->make_room(
            pool_->shape().blocks_of_each(static_cast<int64_t>(pool_->blocks_total(LayerGroup::upper)))));
        EXPECT_EQ(cache_->blocks(), 0);
    }

    std::mt19937_64 random_;
    Seen& seen_;
    FakeDevice device_;
    const KvShape shape_{.layers = 2, .lower_layers = 1, .kv_heads = 1, .atom = {DType::f32, 4}};
    std::unique_ptr<KvPool> pool_;
    std::unique_ptr<PrefixCache> cache_;
    std::vector<Chat> chats_;
    Marks marks_;
    PretendedDisk disk_{shape_, marks_};
    std::vector<std::shared_ptr<PretendedDisk::Reading>> readings_;
    int64_t serial_ = 0;
};

}  // namespace rondo::testing
