#include <gtest/gtest.h>

#include <random>
#include <set>

#include "memory/sequence_kv.hpp"
#include "tests/counting_allocator.hpp"
#include "tests/memory/fake_device.hpp"

/// Sequences whose groups hold different rounds, beside a model that is slow and obvious.
namespace rondo {
namespace {

using testing::FakeDevice;
using Numbers = std::vector<int32_t>;

using enum LayerGroup;

/// Rounds as lists of block sizes in each group, and which blocks they are.
struct Naive {
    struct Block {
        int64_t size;
        int32_t id = -1;
        bool given_up = false;
    };
    struct Round {
        int64_t tokens = 0;
        int64_t attached = 0;  // of its tokens, the first ones
        PerGroup<std::vector<Block>> blocks;
    };
    std::vector<Round> rounds;
    std::set<int64_t> ends;  // planned, of rounds
    bool fresh = true;

    int64_t tokens() const {
        int64_t sum = 0;
        for (const Round& round : rounds) sum += round.tokens;
        return sum;
    }
    static int64_t keys(const std::vector<Block>& blocks) {
        int64_t sum = 0;
        for (const Block& block : blocks) sum += block.size;
        return sum;
    }
    std::vector<Block*> all(LayerGroup group) {
        std::vector<Block*> found;
        for (Round& round : rounds)
            for (Block& block : round.blocks[group]) found.push_back(&block);
        return found;
    }
    void extend(int64_t count) {
        for (; count > 0; --count) {
            if (fresh) rounds.emplace_back();
            ++rounds.back().tokens;
            for (std::vector<Block>& blocks : rounds.back().blocks.values) {
                if (blocks.empty() || blocks.back().size == 16) blocks.push_back({0});
                ++blocks.back().size;
            }
            fresh = ends.contains(tokens());
        }
    }
    void attach(const Numbers& sizes) {
        for (const int32_t size : sizes) {
            if (fresh) rounds.emplace_back();
            rounds.back().tokens += size;
            rounds.back().attached += size;
            for (auto& blocks : rounds.back().blocks.values) blocks.push_back({size});
            fresh = size < 16 || ends.contains(tokens());
        }
    }
    void truncate(int64_t to) {
        if (to == tokens()) return;
        fresh = false;
        while (tokens() > to) {
            Round& last = rounds.back();
            const int64_t begin = tokens() - last.tokens;
            if (begin >= to) {
                fresh = begin == to;
                rounds.pop_back();
                continue;
            }
            last.tokens = to - begin;
            fresh = last.tokens < last.attached;
            last.attached = std::min(last.attached, last.tokens);
            for (std::vector<Block>& blocks : last.blocks.values) {
                fresh = fresh || blocks.empty();
                while (keys(blocks) > last.tokens) {
                    if (--blocks.back().size == 0) blocks.pop_back();
                }
            }
        }
    }
    void release(LayerGroup group, size_t round) {
        if (!rounds[round].blocks[group].empty() && round + 1 == rounds.size()) fresh = true;
        rounds[round].blocks[group].clear();
    }
    void take(LayerGroup group, size_t round) {
        Round& taken = rounds[round];
        const std::vector<Block>& other = taken.blocks[group == lower ? upper : lower];
        std::vector<Block>& made = taken.blocks[group];
        if (!other.empty() && !other.front().given_up) {
            for (const Block& block : other) made.push_back({block.size});
        } else {
            for (int64_t left = taken.tokens; left > 0; left -= 16) made.push_back({std::min<int64_t>(left, 16)});
        }
    }
    void release_before(int64_t token) {
        for (const LayerGroup group : layer_groups) {
            const std::vector<Block*> blocks = all(group);
            int64_t round_begin = 0;
            for (Round& round : rounds) {
                int64_t end = round_begin;
                for (Block& block : round.blocks[group]) {
                    end += block.size;
                    if (end <= token && &block != blocks.back()) block.given_up = true;
                }
                round_begin += round.tokens;
            }
        }
    }
    bool can_take(LayerGroup group, size_t round) const {
        bool given_up_behind = false;
        for (size_t r = round; r < rounds.size(); ++r)
            for (const Block& block : rounds[r].blocks[group]) given_up_behind = given_up_behind || block.given_up;
        return rounds[round].blocks[group].empty() && !given_up_behind;
    }
    /// Behind every token whose key was given up.
    int64_t first_held() const {
        int64_t first = 0, round_begin = 0;
        for (const Round& round : rounds) {
            for (const std::vector<Block>& blocks : round.blocks.values) {
                int64_t end = round_begin;
                for (const Block& block : blocks) {
                    end += block.size;
                    if (block.given_up) first = std::max(first, end);
                }
            }
            round_begin += round.tokens;
        }
        return first;
    }
};

void expect_same(const SequenceKv& kv, Naive& naive, const KvPool& pool) {
    ASSERT_EQ(kv.tokens(), naive.tokens());
    ASSERT_EQ(kv.rounds(), std::ssize(naive.rounds));
    ASSERT_EQ(kv.first_held(), naive.first_held());
    bool whole = true;
    for (const LayerGroup group : layer_groups) {
        int64_t token = 0, key = 0;
        size_t block = 0;
        Numbers borders{0};
        for (size_t r = 0; r < naive.rounds.size(); ++r) {
            Naive::Round& round = naive.rounds[r];
            const auto number = static_cast<int64_t>(r);
            ASSERT_EQ(kv.round_begin(number), token);
            ASSERT_EQ(kv.round_begin(group, number), key);
            ASSERT_EQ(kv.holds(group, number), !round.blocks[group].empty());
            whole = whole && !round.blocks[group].empty();
            int64_t of_block = token;
            for (Naive::Block& one : round.blocks[group]) {
                key += one.size;
                borders.push_back(static_cast<int32_t>(key));
                if (one.given_up) {
                    whole = false;
                    borders.assign(1, static_cast<int32_t>(key));
                } else {
                    ASSERT_LT(block, kv.blocks(group).size());
                    const int32_t id = kv.blocks(group)[block++];
                    if (one.id < 0) one.id = id;
                    ASSERT_EQ(one.id, id) << "a block went elsewhere";
                    for (int64_t i = 0; i < one.size; ++i) ASSERT_EQ(kv.slot(group, of_block + i), id * 16 + i);
                }
                of_block += one.size;
            }
            token += round.tokens;
        }
        ASSERT_EQ(Numbers(kv.block_begin(group).begin(), kv.block_begin(group).end()), borders);
        ASSERT_EQ(kv.blocks(group).size(), block);
        ASSERT_EQ(kv.tokens(group), key);
        ASSERT_EQ(pool.blocks_free(group), pool.blocks_total(group) - block);
        const std::set<int32_t> different(kv.blocks(group).begin(), kv.blocks(group).end());
        ASSERT_EQ(different.size(), block);
    }
    ASSERT_EQ(kv.is_whole(), whole);
}

std::unique_ptr<KvPool> make_pool(Device& device) {
    const KvShape shape{.layers = 3, .lower_layers = 1, .kv_heads = 1, .atom = {DType::f32, 4}};
    return std::move(KvPool::create(device, shape, {20, 16})).value();
}

class RandomSteps {
public:
    RandomSteps(uint32_t seed, FakeDevice& device) : random_(seed), pool_(make_pool(device)), kv_(*pool_) {
        if (below(2) == 0) plan();
        if (below(2) == 0) attach();
        if (below(2) == 0) kv_.reserve(reserved_ = 1 + static_cast<int64_t>(below(150)));
    }
    void run() {
        for (int i = 0; i < 200 && !::testing::Test::HasFailure(); ++i) {
            step();
            expect_same(kv_, naive_, *pool_);
        }
    }
    int64_t fewer = 0, taken = 0;  // steps at which a group held fewer keys than the other; rounds taken

private:
    size_t below(size_t bound) { return random_() % bound; }
    LayerGroup any_group() { return layer_groups[below(2)]; }

    void plan() {
        for (int64_t end = 0; end < 200;) naive_.ends.insert(end += 1 + static_cast<int64_t>(below(60)));
        kv_.plan_rounds({naive_.ends.begin(), naive_.ends.end()});
    }
    void attach() {
        Numbers sizes;
        for (size_t i = 1 + below(4); i > 0; --i)
            sizes.push_back(below(2) == 0 ? 16 : 1 + static_cast<int32_t>(below(16)));
        naive_.attach(sizes);
        kv_.attach({std::move(pool_->acquire(lower, sizes.size())).value(),
                    std::move(pool_->acquire(upper, sizes.size())).value()},
                   sizes);
    }
    void step() {
        fewer += kv_.tokens(lower) != kv_.tokens(upper);
        const size_t rounds = naive_.rounds.size();
        const LayerGroup group = any_group();
        switch (below(10)) {
            case 0:
                kv_.begin_round();
                naive_.fresh = true;
                return;
            case 1: {
                const int64_t first = naive_.first_held();
                const int64_t to =
                    first + static_cast<int64_t>(below(static_cast<size_t>(naive_.tokens() - first) + 1));
                kv_.truncate(to);
                return naive_.truncate(to);
            }
            case 2:
                if (below(8) == 0) {
                    const auto token = static_cast<int64_t>(below(static_cast<size_t>(naive_.tokens()) + 1));
                    kv_.release_before(token);
                    naive_.release_before(token);
                }
                return;
            case 3: {
                const auto tokens = 1 + static_cast<int64_t>(below(40));
                ASSERT_TRUE(kv_.append_round(tokens));
                naive_.rounds.push_back({tokens, false, {}});
                naive_.fresh = true;
                return;
            }
            case 4:
            case 5:
                if (rounds == 0) return;
                return release(group, below(rounds));
            case 6:
            case 7:
                if (rounds == 0) return;
                return take(group, below(rounds));
            default:
                return extend(static_cast<int64_t>(below(40)));
        }
    }
    void release(LayerGroup group, size_t round) {
        kv_.release_round(group, static_cast<int64_t>(round));
        naive_.release(group, round);
    }
    void take(LayerGroup group, size_t round) {
        if (!naive_.can_take(group, round)) return;
        Naive after = naive_;
        after.take(group, round);
        const bool fits = after.rounds[round].blocks[group].size() <= pool_->blocks_free(group);
        ASSERT_EQ(kv_.take_round(group, static_cast<int64_t>(round)).is_ok(), fits);
        if (fits) naive_ = after;
        taken += fits;
    }
    void extend(int64_t count) {
        Naive after = naive_;
        after.extend(count);
        BlockCounts more;
        bool fits = true;
        for (const LayerGroup group : layer_groups) {
            more[group] = std::ssize(after.all(group)) - std::ssize(naive_.all(group));
            fits = fits && more[group] <= static_cast<int64_t>(pool_->blocks_free(group));
        }
        ASSERT_EQ(kv_.blocks_for(count), more);
        const bool one_round = naive_.ends.empty() ||
                               naive_.ends.upper_bound(kv_.tokens()) == naive_.ends.upper_bound(kv_.tokens() + count);
        const bool reserved = one_round && kv_.tokens() + count <= reserved_;
        const int64_t before = testing::allocations();
        const bool done = kv_.extend(count).is_ok();
        const int64_t made = testing::allocations() - before;
        ASSERT_EQ(done, fits);
        if (done && reserved) {
            ASSERT_EQ(made, 0) << "the reserve must do";
        }
        if (done) naive_ = after;
    }

    std::mt19937 random_;
    const std::unique_ptr<KvPool> pool_;
    SequenceKv kv_;
    Naive naive_;
    int64_t reserved_ = 0;
};

TEST(SequenceGroups, AgreesWithANaiveModelOverRandomSteps) {
    int64_t fewer = 0, taken = 0;
    for (uint32_t seed = 1; seed <= 200 && !HasFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        FakeDevice device;
        RandomSteps steps(seed, device);
        steps.run();
        fewer += steps.fewer;
        taken += steps.taken;
    }
    EXPECT_GT(fewer, 10'000);
    EXPECT_GT(taken, 1'000);
}

}  // namespace
}  // namespace rondo
