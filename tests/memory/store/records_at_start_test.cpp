#include "memory/store/records_at_start.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "memory/store/manifest_keys.hpp"
#include "memory/store/stored_record.hpp"
#include "tests/flip_bit.hpp"
#include "tests/memory/store/store_fixture.hpp"

namespace rondo {
namespace {

class KvStoreAtStartTest : public ::testing::Test {
protected:
    static constexpr uint64_t step = disk_alignment, own_kind = 7;

    KvStoreAtStartTest() { open_segments(); }
    void open_segments() {
        segments_.reset();
        segments_ = Segments::open(store_folder_, *queue_, {}).value();
    }
    static StoreName name(int number) {
        StoreName made{};
        made.back() = static_cast<std::byte>(number);
        return made;
    }
    StoredRecord record(int number, const RecordPlace& place) const {
        StoredRecord made;
        made.name = name(number);
        made.tenant = name(100);
        made.tokens = 16;
        made.layers = 1;
        made.saved_seconds = 5.0;
        made.place = place;
        return made;
    }
    StoredRecord appended(int number) { return record(number, segments_->append(2 * step).value()); }
    void put(const StoreName& key, const StoredRecord& record, uint64_t kind = own_kind) {
        const std::vector<std::byte> value = write_stored_record({record, kind});
        put_value(store::record_letter, key, store::text_of(value));
    }
    void put(const StoredRecord& record, uint64_t kind = own_kind) { put(record.name, record, kind); }
    void put_value(char letter, const StoreName& name, std::string_view value) {
        Manifest::Changes changes;
        changes.put(store::key_of(letter, name), value);
        ASSERT_TRUE(manifest_->commit(std::move(changes)));
    }
    bool manifest_has(int number) const {
        return manifest_->get(store::key_of(store::record_letter, name(number))).is_ok();
    }

    testing::Folder folder_{testing::in_memory()};
    StoreFolder store_folder_ = StoreFolder::open(folder_.path() + "/kv").value();
    std::unique_ptr<DiskQueue> queue_ = DiskQueue::open({}).value();
    std::unique_ptr<Manifest> manifest_ = Manifest::open(folder_.path() + "/manifest").value().manifest;
    std::unique_ptr<Segments> segments_;
};

TEST_F(KvStoreAtStartTest, WhatCannotBeTrueIsRemoved) {
    const StoredRecord good = appended(1), foreign = appended(2);
    StoredRecord large = appended(3), within = record(4, good.place);
    large.layers = 1000;  // its header would be larger than it is
    within.place.offset += step;
    const StoredRecord nowhere = record(5, {good.place.segment + 1, step, step});
    put(good);
    put(foreign, own_kind + 1);
    for (const StoredRecord& one : {large, within, nowhere}) put(one);
    put(name(6), good);  // another one's entry
    put_value(store::record_letter, name(7), "nonsense");
    for (int start = 0; start < 2; ++start) {
        const auto made = records_at_start(*manifest_, *segments_, own_kind, false);
        ASSERT_TRUE(made) << made.error().message;
        EXPECT_EQ(made->damaged, start == 0 ? 5 : 0) << "they went with the first start";
        EXPECT_EQ(made->foreign, 1);
        const RecordIndex& index = made->records.index();
        EXPECT_EQ(index.count(), 2U);
        ASSERT_NE(index.find(good.name), nullptr);
        EXPECT_EQ(index.find(good.name)->saved_seconds, good.saved_seconds);
        ASSERT_NE(index.find(foreign.name), nullptr);
        EXPECT_EQ(index.find(foreign.name)->saved_seconds, 0.0) << "it goes first";
        for (int number = 1; number <= 7; ++number) EXPECT_EQ(manifest_has(number), number <= 2) << number;
        EXPECT_EQ(segments_->bytes(), step + good.place.bytes + foreign.place.bytes) << "all else is given back";
    }
}

/// What is plain is read without it.
TEST_F(KvStoreAtStartTest, ADamagedHeaderOfASegmentCostsWhatItHasSealed) {
    const StoredRecord one = appended(1);
    put(one);
    segments_.reset();
    const std::string file = store_folder_.path() + '/' + Segments::name_of(one.place.segment);
    std::filesystem::resize_file(file, one.place.offset + one.place.bytes);
    testing::flip_bit(file, 9);
    open_segments();
    for (const bool has_keys : {false, true}) {
        const auto made = records_at_start(*manifest_, *segments_, own_kind, has_keys);
        ASSERT_TRUE(made) << made.error().message;
        EXPECT_EQ(made->records.index().count(), has_keys ? 0U : 1U);
        EXPECT_EQ(made->damaged, has_keys ? 1 : 0);
        EXPECT_EQ(segments_->exists(one.place.segment), !has_keys);
    }
}

}  // namespace
}  // namespace rondo
