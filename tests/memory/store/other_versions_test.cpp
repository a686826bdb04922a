#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "memory/store/byte_io.hpp"
#include "memory/store/manifest_keys.hpp"
#include "memory/store/store_survey.hpp"
#include "memory/store/stored_record.hpp"
#include "tests/memory/store/kv_store_fixture.hpp"

/// What another version of this program has written, an older or a newer one.
namespace rondo {
namespace {

using Refusal = KvStore::Refusal;

ManifestEntry some_entry() {
    ManifestEntry entry;
    entry.kind = 77;
    StoredRecord& record = entry.record;
    record.name.fill(std::byte{1});
    record.before.fill(std::byte{2});
    record.tenant.fill(std::byte{3});
    record.tokens_before = 100;
    record.tokens = 37;
    record.layers = 3;
    record.place = {5, 4096, 8192};
    record.saved_seconds = 0.5;
    record.used_at = 1'800'000'000;
    record.waypoints.resize(2);
    return entry;
}

/// The same as a later version might write it: with more behind what all versions begin with.
std::vector<std::byte> of_version(uint32_t version, std::vector<std::byte> entry) {
    entry.resize(entry.size() - sizeof(uint64_t));
    std::memcpy(entry.data(), &version, sizeof(version));
    RecordWriter out;
    out.put(std::span<const std::byte>(entry));
    out.put(uint64_t{0x1234});
    out.put(checksum_of(out.bytes()));
    return out.take();
}

/// Whoever changes what is written raises the version, and puts the new number here.
TEST(OtherVersions, AVersionIsWrittenAsItAlwaysWas) {
    EXPECT_EQ(ManifestEntry::version_now, 1U);
    EXPECT_EQ(checksum_of(write_stored_record(some_entry())), 876627241223133247U);
    EXPECT_EQ(RecordHeader::version, 1U);
    RecordHeader header;
    header.name.fill(std::byte{1});
    header.kind = testing::small_kind();
    header.ids = {1, 2, 3};
    header.layers.resize(3);
    header.lay_out();
    EXPECT_EQ(checksum_of(header.write()), 6097258216109450081U);
}

TEST(OtherVersions, BytesOfAnEntryWithoutAMeaningAreNotLookedAt) {
    const ManifestEntry entry = some_entry();
    std::vector<std::byte> bytes = write_stored_record(entry);
    bytes[78] = std::byte{7};  // behind the number of layers
    const size_t summed = bytes.size() - sizeof(uint64_t);
    const uint64_t sum = checksum_of(std::span(bytes).first(summed));
    std::memcpy(bytes.data() + summed, &sum, sizeof(sum));
    const auto read = read_stored_record(bytes);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->record, entry.record);
}

TEST(OtherVersions, OfAnEntryThePlaceIsKnown) {
    const ManifestEntry entry = some_entry();
    const std::vector<std::byte> later = of_version(2, write_stored_record(entry));
    const auto read = read_stored_record(later);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->version, 2U);
    EXPECT_EQ(read->kind, entry.kind);
    EXPECT_EQ(read->record.name, entry.record.name);
    EXPECT_EQ(read->record.place, entry.record.place);
    EXPECT_EQ(read->record.used_at, entry.record.used_at);
    for (size_t size = 0; size < later.size(); ++size)
        EXPECT_FALSE(read_stored_record(std::span(later).first(size))) << size;
    for (size_t bit = 0; bit < 8 * later.size(); ++bit) {
        std::vector<std::byte> bytes = later;
        bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
        EXPECT_FALSE(read_stored_record(bytes)) << bit;
    }
}

/// Else a search among records could go round, or back before a prompt's first token.
TEST(OtherVersions, WhatIsTrueInNoVersionIsDamaged) {
    for (const auto& change : std::initializer_list<void (*)(StoredRecord&)>{
             [](StoredRecord& record) { record.tokens = 0; },
             [](StoredRecord& record) { record.tokens = -1; },
             [](StoredRecord& record) { record.layers = -1; },
             [](StoredRecord& record) { record.tokens_before = -1; },
             [](StoredRecord& record) { record.tokens_before = INT64_MAX; },
             [](StoredRecord& record) { record.before = record.name; },
         }) {
        ManifestEntry entry = some_entry();
        change(entry.record);
        const std::vector<std::byte> own = write_stored_record(entry);
        for (const auto& bytes : {own, of_version(2, own)}) {
            const auto refused = read_stored_record(bytes);
            ASSERT_FALSE(refused);
            EXPECT_EQ(refused.error().code, ErrorCode::corrupt);
        }
    }
}

TEST(OtherVersions, WhatAnotherVersionMayHaveIsNotDamaged) {
    for (const auto& change : std::initializer_list<void (*)(StoredRecord&)>{
             [](StoredRecord& record) { record.layers = 0; },
             [](StoredRecord& record) { record.tokens_before = int64_t{1} << 40; },
             [](StoredRecord& record) { record.tokens = INT32_MAX; },
             [](StoredRecord& record) { record.saved_seconds = -1.0; },
         }) {
        ManifestEntry entry = some_entry();
        change(entry.record);
        const std::vector<std::byte> own = write_stored_record(entry);
        EXPECT_FALSE(read_stored_record(own));
        EXPECT_TRUE(read_stored_record(of_version(2, own)));
    }
}

class OtherVersionsTest : public testing::StoreTest, public ::testing::WithParamInterface<bool> {
protected:
    OtherVersionsTest() {
        if (GetParam()) options_.keys.emplace(testing::some_root());
        open();
    }
    /// Makes a later version's of a record, and of its segment.
    void make_later(const StoreName& name) {
        const auto entry = store_->manifest().get(store::key_of(store::record_letter, name));
        ASSERT_TRUE(entry);
        auto read = read_stored_record(std::as_bytes(std::span(*entry)));
        ASSERT_TRUE(read);
        ++read->kind;
        read->record.name.fill(std::byte{0x55});
        Manifest::Changes changes;
        changes.remove(store::key_of(store::record_letter, name));
        changes.put(store::key_of(store::record_letter, read->record.name),
                    store::text_of(of_version(2, write_stored_record(*read))));
        ASSERT_TRUE(store_->manifest().commit(std::move(changes)));
        close();
        std::fstream segment(segment_files().front(), std::ios::in | std::ios::out | std::ios::binary);
        segment.seekp(8);
        segment.put(2);
    }
};

INSTANTIATE_TEST_SUITE_P(Bytes, OtherVersionsTest, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "sealed" : "plain"; });

TEST_P(OtherVersionsTest, TheirRecordsStayAndAreTheFirstToGo) {
    const Round one = round("t", nullptr, 0, 64);
    ASSERT_EQ(write(one, 100.0), Refusal::none);
    make_later(name_of(one));
    for (int start = 0; start < 2; ++start) {
        open();
        EXPECT_EQ(store_->counts().foreign, 1);
        EXPECT_EQ(store_->counts().damaged, 0);
    }
    EXPECT_FALSE(is_there(one));
    EXPECT_EQ(write(one), Refusal::none);
    EXPECT_TRUE(is_there(one));
    EXPECT_EQ(segment_files().size(), 2U);
    close();
    SurveyOptions look{options_.path, true, options_.keys};
    const auto found = survey_store(look);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->all.records, 2);
    EXPECT_THAT(found->damaged, ::testing::IsEmpty());
    open();
    options_.bytes_max = store_->bytes() + 2 * disk_alignment;
    open();
    EXPECT_EQ(write(round("t", nullptr, 5000, 64), 0.001), Refusal::none);
    EXPECT_TRUE(is_there(one)) << "the other version's went";
    EXPECT_EQ(segment_files().size(), 2U) << "and its segment";
}

}  // namespace
}  // namespace rondo
