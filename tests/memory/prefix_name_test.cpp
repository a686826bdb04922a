#include "memory/prefix_name.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace rondo {
namespace {

std::vector<int32_t> ids_from(int32_t first, int count) {
    std::vector<int32_t> ids(static_cast<size_t>(count));
    std::iota(ids.begin(), ids.end(), first);
    return ids;
}

/// Names are written down, so they may never change. These were computed by OpenSSL (openssl mac -macopt size:16
/// -macopt c-rounds:1 -macopt d-rounds:3 -macopt hexkey:… SIPHASH) from the bytes, each as two little-endian numbers.
TEST(PrefixName, IsWhatOpenSslComputes) {
    EXPECT_EQ(name_of_space(""), (PrefixName{0x739E21E1AA75B4B3U, 0x0016FE6F8EF0E2E0U}));
    const PrefixName space = name_of_space("tenant\nrondo\n64");
    EXPECT_EQ(space, (PrefixName{0xEB0FBE02C434A1A6U, 0x779A90866782EFFFU}));
    const PrefixName first = name_of_block(space, ids_from(0, 16));
    EXPECT_EQ(first, (PrefixName{0xF0CD5D8B0B254681U, 0xD0A8BA7E7929D502U}));
    const PrefixName second =
        name_of_block(first, std::vector<int32_t>{-1, 150'000, std::numeric_limits<int32_t>::max()});
    EXPECT_EQ(second, (PrefixName{0x6630E681EA4D0ACFU, 0xC39CCF5256212E73U}));
    EXPECT_EQ(name_of_block(second, std::vector<int32_t>{7}), (PrefixName{0xF7C2DA6F0C6607B2U, 0x6A5BEB7658A9E6A1U}));
}

/// Each half alone tells blocks of different contents apart: one id, the number of ids, what was before, the space.
TEST(PrefixName, DiffersWithWhateverABlockHolds) {
    std::set<uint64_t> low, high;
    size_t names = 0;
    const auto add = [&](const PrefixName& name) {
        low.insert(name.low);
        high.insert(name.high);
        ++names;
    };
    for (int space = 0; space < 100; ++space) {
        const PrefixName root = name_of_space(std::string(static_cast<size_t>(space), 't'));
        add(root);
        for (int32_t size = 1; size <= 16; ++size) {
            std::vector<int32_t> ids(static_cast<size_t>(size), 0);
            const PrefixName zeros = name_of_block(root, ids);
            add(zeros);
            add(name_of_block(zeros, ids));
            for (int32_t& id : ids) {
                id = 1;
                add(name_of_block(root, ids));
                id = 0;
            }
        }
    }
    EXPECT_EQ(low.size(), names);
    EXPECT_EQ(high.size(), names);
}

}  // namespace
}  // namespace rondo
