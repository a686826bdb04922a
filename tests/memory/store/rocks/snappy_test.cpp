#include "memory/store/rocks/snappy.hpp"

#include <gtest/gtest.h>

#include <random>

#include "tests/memory/store/fault_amount.hpp"

/// What RocksDB compresses is read in table_file_test.
namespace rondo {
namespace {

TEST(Snappy, RepeatsWhatWasThere) {
    EXPECT_EQ(expand_snappy(std::string("\0", 1)).value(), "");
    EXPECT_EQ(expand_snappy("\x03\x08"
                            "abc")
                  .value(),
              "abc");
    EXPECT_EQ(expand_snappy("\x0a\x04"
                            "ab\x11\x02")
                  .value(),
              "ababababab")
        << "over itself";
    EXPECT_EQ(expand_snappy(std::string("\x05\x08"
                                        "abc\x06\x03\0",
                                        8))
                  .value(),
              "abcab")
        << "from further away";
}

TEST(Snappy, DamageIsRefused) {
    for (const std::string& packed : {std::string(),
                                      std::string("\x03\x08"
                                                  "ab"),
                                      std::string("\x04\x08"
                                                  "abc"),
                                      std::string("\x05\x08"
                                                  "abc\x05\x04"),
                                      std::string("\x05\x08"
                                                  "abc\x05\0",
                                                  7),
                                      std::string("\xff\xff\xff\xff\xff\xff\xff\xff\x01\x08"
                                                  "abc")})
        EXPECT_EQ(expand_snappy(packed).error().code, ErrorCode::corrupt);
}

TEST(Snappy, NothingIsReadOrMadeBeyond) {
    std::mt19937_64 random(3);
    for (int64_t turn = 0; turn < testing::fault_amount(20'000, 2'000'000); ++turn) {
        std::string packed(random() % 40, '\0');
        for (char& byte : packed) byte = static_cast<char>(random());
        if (!packed.empty()) packed[0] = static_cast<char>(random() % 100);
        const auto bytes = expand_snappy(packed);
        EXPECT_TRUE(!bytes || bytes->size() < 100);
    }
}

}  // namespace
}  // namespace rondo
