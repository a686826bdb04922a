#include "memory/store/record_header.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "memory/store/disk_queue.hpp"

namespace rondo {
namespace {

RecordHeader some_record(size_t ids = 37, size_t layers = 5) {
    RecordHeader header;
    header.name.fill(std::byte{1});
    header.before.fill(std::byte{2});
    header.tenant.fill(std::byte{3});
    header.kind.model.fill(std::byte{4});
    header.kind.dtype = DType::bf16;
    header.kind.layers = 12;
    header.kind.kv_heads = 2;
    header.kind.head_dim = 64;
    header.group = LayerGroup::lower;
    header.exactness = Exactness::sparse;
    header.tokens_before = 123'456;
    header.ids.resize(ids);
    std::iota(header.ids.begin(), header.ids.end(), 5);
    header.layers.resize(layers);
    for (size_t i = 0; i < layers; ++i) header.layers[i].proof.fill(static_cast<std::byte>(i));
    header.lay_out();
    return header;
}

/// With the checksum that it then must have.
void put_number(std::vector<std::byte>& bytes, const RecordHeader& of, size_t at, uint64_t value, size_t size) {
    std::memcpy(bytes.data() + at, &value, size);
    const size_t summed = 136 + 4 * of.ids.size() + 24 * of.layers.size();
    const uint64_t sum = checksum_of(std::span(bytes).first(summed));
    std::memcpy(bytes.data() + summed, &sum, sizeof(sum));
}

TEST(RecordHeader, IsReadAsItWasWritten) {
    for (const size_t ids : {1UL, 16UL, 17UL, 100'000UL}) {
        for (const size_t layers : {1UL, 12UL}) {
            const RecordHeader header = some_record(ids, layers);
            const std::vector<std::byte> bytes = header.write();
            EXPECT_EQ(bytes.size(), RecordHeader::header_bytes(ids, layers));
            EXPECT_EQ(bytes.size() % disk_alignment, 0U);
            const auto read = RecordHeader::read(bytes);
            ASSERT_TRUE(read) << read.error().message;
            EXPECT_EQ(*read, header);
        }
    }
}

TEST(RecordHeader, LayersLieBehindItOneAfterTheOther) {
    const RecordHeader header = some_record(37, 3);
    EXPECT_EQ(header.blocks(), 3);
    const KvAtom atom{DType::bf16, 64};
    EXPECT_EQ(header.layer_bytes(), 3U * 2 * atom.bytes());
    const uint64_t step = header.layers[1].offset - header.layers[0].offset;
    EXPECT_EQ(header.layers[0].offset, RecordHeader::header_bytes(37, 3));
    EXPECT_GE(step, header.layer_bytes());
    EXPECT_EQ(step % disk_alignment, 0U);
    EXPECT_EQ(header.layers[2].offset + step, header.record_bytes());
}

TEST(RecordHeader, AnyCutAndAnyFlipIsFound) {
    const RecordHeader header = some_record(20, 3);
    const std::vector<std::byte> whole = header.write();
    const size_t filled = 136 + 4 * 20 + 24 * 3 + 8;
    for (size_t size = 0; size < filled; ++size) EXPECT_FALSE(RecordHeader::read(std::span(whole).first(size))) << size;
    for (size_t bit = 0; bit < 8 * filled; ++bit) {
        std::vector<std::byte> bytes = whole;
        bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
        EXPECT_FALSE(RecordHeader::read(bytes)) << bit;
    }
}

/// Whoever writes a checksum himself gets no further: numbers are looked at before they are used.
TEST(RecordHeader, ImpossibleNumbersAreFoundUnderARightChecksum) {
    const RecordHeader header = some_record(20, 3);
    struct Field {
        size_t at, size;
        std::vector<uint64_t> values;
    };
    const std::vector<Field> fields = {
        {12, 4, {0, 1, 8192, 0xffff'ffff}},                              // bytes of the header
        {104, 1, {2, 4, 5, 255}},                                        // number type
        {105, 1, {2, 255}},                                              // group
        {106, 1, {2, 255}},                                              // exactness
        {108, 4, {0, 2, 0xffff'ffff, 0x7fff'ffff}},                      // layers of the model
        {112, 4, {0, 0xffff'ffff, 0x7fff'ffff}},                         // heads
        {116, 4, {0, 0xffff'ffff, 0x7fff'ffff}},                         // head_dim
        {120, 8, {~uint64_t{0}, uint64_t{1} << 40, ~uint64_t{0} >> 1}},  // tokens before
        {128, 4, {0, 21, 19, 0xffff'ffff}},                              // ids
        {132, 4, {0, 2, 4, 0xffff'ffff}},                                // layers
        {136 + 4 * 20, 8, {0, 1, ~uint64_t{0}}},                         // where the first layer lies
    };
    ASSERT_EQ(RecordHeader::read(header.write()).value(), header);
    for (const Field& field : fields) {
        for (const uint64_t value : field.values) {
            std::vector<std::byte> bytes = header.write();
            put_number(bytes, header, field.at, value, field.size);
            EXPECT_FALSE(RecordHeader::read(bytes)) << field.at << ": " << value;
        }
    }
}

TEST(RecordHeader, BytesWithoutAMeaningAreNotLookedAt) {
    const RecordHeader header = some_record(20, 3);
    std::vector<std::byte> bytes = header.write();
    put_number(bytes, header, 80, 7, 8);
    EXPECT_EQ(RecordHeader::read(bytes).value(), header);
}

TEST(RecordHeader, AnotherVersionIsNamed) {
    std::vector<std::byte> bytes = some_record().write();
    bytes[8] = std::byte{2};
    const auto read = RecordHeader::read(bytes);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::unsupported);
    EXPECT_EQ(read.error().message, "a stored record is of version 2, must be 1");
}

TEST(RecordHeader, RandomBytesAreNone) {
    std::mt19937_64 random(1);
    for (int i = 0; i < 10'000; ++i) {
        std::vector<std::byte> bytes(random() % 9000);
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
        if (i % 2 == 0 && bytes.size() >= 12) {  // behind a right beginning
            const auto right = some_record(1, 1).write();
            std::copy_n(right.begin(), 12, bytes.begin());
        }
        EXPECT_FALSE(RecordHeader::read(bytes));
    }
}

}  // namespace
}  // namespace rondo
