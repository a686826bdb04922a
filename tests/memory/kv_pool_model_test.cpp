#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "memory/kv_pool.hpp"
#include "tests/memory/fake_device.hpp"

namespace rondo {
namespace {

using testing::FakeDevice;
using enum LayerGroup;

const KvShape shape{.layers = 5, .lower_layers = 2, .kv_heads = 3, .atom = {DType::bf16, 8}};

/// What the pool should look like, kept the naive way: each lease is a list of ids, a block's references are counted
/// anew.
class PoolModel {
public:
    PoolModel(uint32_t seed, size_t blocks)
        : random_(seed), blocks_(blocks), pool_(KvPool::create(device_, shape, {blocks, blocks}).value()) {}

    void run(int steps) {
        for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
            step();
            check();
        }
        leases_.clear();
        copies_.clear();
        check();
        EXPECT_EQ(pool_->blocks_free(lower), blocks_);
        EXPECT_EQ(pool_->blocks_free(upper), blocks_);
    }

private:
    size_t below(size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(random_); }

    void add(KvLease lease, std::vector<int32_t> copy) {
        leases_.push_back(std::move(lease));
        copies_.push_back(std::move(copy));
    }

    /// Blocks that were free must come; they are new to the model, so they are read from the lease and judged by
    /// `check`.
    void note(KvLease& lease, std::vector<int32_t>& copy, size_t count) {
        const auto ids = lease.blocks();
        ASSERT_EQ(ids.size(), copy.size() + count);
        const auto used = references(lease.group());
        for (size_t i = copy.size(); i < ids.size(); ++i)
            ASSERT_FALSE(used.contains(ids[i])) << "block given out twice";
        copy.assign(ids.begin(), ids.end());
    }

    void step() {
        const size_t count = below(6);
        if (leases_.empty() || below(4) == 0) {
            const LayerGroup group = below(2) == 0 ? lower : upper;
            const size_t free = pool_->blocks_free(group);
            auto lease = pool_->acquire(group, count);
            ASSERT_EQ(lease.is_ok(), count <= free);
            if (!lease) return;
            std::vector<int32_t> copy;
            note(*lease, copy, count);
            add(std::move(lease).value(), std::move(copy));
            return;
        }
        const size_t at = below(leases_.size()), other = below(leases_.size());
        KvLease& lease = leases_[at];
        std::vector<int32_t>& copy = copies_[at];
        switch (below(8)) {
            case 0: {
                const bool fits = count <= pool_->blocks_free(lease.group());
                ASSERT_EQ(pool_->extend(lease, count).is_ok(), fits);
                if (fits) note(lease, copy, count);
                break;
            }
            case 1: {
                const size_t first = below(copy.size() + 1), length = below(copy.size() - first + 1);
                add(lease.share(first, length), {copy.begin() + static_cast<ptrdiff_t>(first),
                                                 copy.begin() + static_cast<ptrdiff_t>(first + length)});
                break;
            }
            case 2:
                lease.truncate(count);
                copy.resize(std::min(copy.size(), count));
                break;
            case 3:
                leases_.erase(leases_.begin() + static_cast<ptrdiff_t>(at));
                copies_.erase(copies_.begin() + static_cast<ptrdiff_t>(at));
                break;
            case 4:
                if (at == other || lease.group() != leases_[other].group()) break;
                lease.append(std::move(leases_[other]));
                copy.insert(copy.end(), copies_[other].begin(), copies_[other].end());
                copies_[other].clear();
                break;
            case 5:
                if (at == other) break;
                leases_[other] = std::move(lease);
                copies_[other] = std::exchange(copy, {});
                leases_.erase(leases_.begin() + static_cast<ptrdiff_t>(at));
                copies_.erase(copies_.begin() + static_cast<ptrdiff_t>(at));
                break;
            case 6: {
                const size_t first = below(copy.size() + 1), length = below(copy.size() - first + 1);
                lease.drop(first, length);
                copy.erase(copy.begin() + static_cast<ptrdiff_t>(first),
                           copy.begin() + static_cast<ptrdiff_t>(first + length));
                break;
            }
            case 7: {
                if (at == other || lease.group() != leases_[other].group()) break;
                const size_t place = below(copy.size() + 1);
                lease.insert(place, std::move(leases_[other]));
                copy.insert(copy.begin() + static_cast<ptrdiff_t>(place), copies_[other].begin(), copies_[other].end());
                copies_[other].clear();
                break;
            }
        }
    }

    std::map<int32_t, int> references(LayerGroup group) const {
        std::map<int32_t, int> counts;
        for (size_t i = 0; i < leases_.size(); ++i)
            if (leases_[i].group() == group)
                for (const int32_t block : copies_[i]) ++counts[block];
        return counts;
    }

    void check() const {
        for (size_t i = 0; i < leases_.size(); ++i) ASSERT_TRUE(std::ranges::equal(leases_[i].blocks(), copies_[i]));
        for (const LayerGroup group : {lower, upper}) {
            const auto counts = references(group);
            ASSERT_EQ(pool_->blocks_free(group), blocks_ - counts.size());
            for (int32_t block = 0; block < static_cast<int32_t>(blocks_); ++block) {
                const auto found = counts.find(block);
                ASSERT_EQ(pool_->references(group, block), found == counts.end() ? 0 : found->second);
            }
        }
    }

    std::mt19937 random_;
    size_t blocks_;
    FakeDevice device_;
    std::unique_ptr<KvPool> pool_;
    std::vector<KvLease> leases_;
    std::vector<std::vector<int32_t>> copies_;
};

TEST(KvPoolModel, AgreesWithANaiveModelOverRandomSteps) {
    for (uint32_t seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        PoolModel(seed, seed % 2 == 0 ? 24 : 64).run(400);
        if (HasFailure()) return;
    }
}

}  // namespace
}  // namespace rondo
