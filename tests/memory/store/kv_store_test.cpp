#include "memory/store/kv_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "memory/store/manifest_keys.hpp"
#include "memory/store/stored_record.hpp"
#include "tests/flip_bit.hpp"
#include "tests/memory/store/kv_store_fixture.hpp"

namespace rondo {
namespace {

namespace fs = std::filesystem;

using Refusal = KvStore::Refusal;
using ::testing::ElementsAre;

class KvStoreTest : public testing::StoreTest, public ::testing::WithParamInterface<bool> {
protected:
    KvStoreTest() {
        if (GetParam()) options_.keys.emplace(testing::some_root());
        open();
    }
};

INSTANTIATE_TEST_SUITE_P(Bytes, KvStoreTest, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "sealed" : "plain"; });

TEST_P(KvStoreTest, WhatIsWrittenIsReadAlsoAfterAStart) {
    const Round first = round("t", nullptr, 100, 40), second = round("t", &first, 500, 17);
    EXPECT_EQ(write(first), Refusal::none);
    EXPECT_EQ(write(second), Refusal::none);
    EXPECT_TRUE(is_there(first));
    EXPECT_TRUE(is_there(second));
    EXPECT_EQ(store_->counts().written, 2);
    open();
    EXPECT_TRUE(is_there(first));
    EXPECT_TRUE(is_there(second));
    EXPECT_EQ(store_->index().count(), 2U);
    EXPECT_EQ(store_->counts().damaged, 0);
    EXPECT_EQ(write(first), Refusal::stored_already);
}

TEST_P(KvStoreTest, IdsLeadTheLongestWay) {
    const Round a = round("t", nullptr, 0, 32), b = round("t", &a, 32, 20), c = round("t", &b, 52, 30);
    const Round cut = round("t", nullptr, 0, 40);  // the same ids in another cut
    for (const Round& one : {c, b, a, cut}) EXPECT_EQ(write(one), Refusal::none) << "in any order";
    const auto names = store_->names(LayerGroup::upper, method);
    const auto way = [&](int count, Exactness allowed = Exactness::exact) {
        std::vector<int32_t> ids(static_cast<size_t>(count));
        std::iota(ids.begin(), ids.end(), 0);
        std::vector<int32_t> tokens;
        for (const RecordIndex::Step& step : store_->index().way(a.before, ids, allowed, names))
            tokens.push_back(step.tokens);
        return tokens;
    };
    EXPECT_THAT(way(100), ElementsAre(32, 20, 30));
    EXPECT_THAT(way(82), ElementsAre(32, 20, 30));
    EXPECT_THAT(way(81), ElementsAre(32, 20));
    EXPECT_THAT(way(51), ElementsAre(40));
    EXPECT_THAT(way(39), ElementsAre(32));
    EXPECT_THAT(way(31), ElementsAre());
    const Round sparse = round("t", &c, 82, 18, Exactness::sparse);
    const Round behind = round("t", &sparse, 100, 16, Exactness::sparse);
    EXPECT_EQ(write(sparse), Refusal::none);
    EXPECT_EQ(write(behind), Refusal::none);
    EXPECT_THAT(way(120), ElementsAre(32, 20, 30)) << "a dense turn";
    EXPECT_THAT(way(120, Exactness::sparse), ElementsAre(32, 20, 30, 18, 16));
    const auto of_another = store_->names(LayerGroup::upper, "another");
    std::vector<int32_t> ids(120);
    std::iota(ids.begin(), ids.end(), 0);
    EXPECT_EQ(store_->index().way(a.before, ids, Exactness::sparse, of_another).size(), 3U);
    const RecordIndex::Border elsewhere{name_of_space("u"), Exactness::exact};
    EXPECT_TRUE(store_->index().way(elsewhere, ids, Exactness::sparse, names).empty()) << "another tenant's";
}

TEST_P(KvStoreTest, NobodyFindsWhatIsNotFinished) {
    const Round one = round("t", nullptr, 7, 40);
    const RecordHeader header = header_of(one);
    const uint64_t before = store_->bytes();
    auto begun = store_->begin(header, 1.0);
    ASSERT_TRUE(begun.writing);
    EXPECT_EQ(store_->begin(header, 1.0).refusal, Refusal::stored_already) << "it is on its way";
    EXPECT_TRUE(write_layers(begun.writing, header));
    EXPECT_FALSE(is_there(one));
    begun.writing.reset();  // a thread of the disk's may be letting go of it, too
    tasks_->run_until([&] { return store_->bytes() <= before + disk_alignment; });
    EXPECT_LE(store_->bytes(), before + disk_alignment) << "its space is free again";
    EXPECT_FALSE(is_there(one));
    EXPECT_EQ(write(one), Refusal::none);
    EXPECT_TRUE(is_there(one));
}

TEST_P(KvStoreTest, OtherIdsUnderANameAreNotFound) {
    const Round one = round("t", nullptr, 7, 40);
    ASSERT_EQ(write(one), Refusal::none);
    std::vector<int32_t> others = one.ids;
    others.back() += 1;
    const auto read = open_record(name_of(one), others);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::not_found);
    EXPECT_TRUE(is_there(one)) << "it was not damaged";
}

/// Any byte of any file of records may change, or the file end early: what is read is right or an error.
TEST_P(KvStoreTest, DamageIsNeverRead) {
    std::mt19937_64 random(11);
    std::vector<Round> rounds;
    for (int i = 0; i < 6; ++i) rounds.push_back(round("t", nullptr, 1000 * i, 30 + i));
    int damaged = 0;
    for (int turn = 0; turn < 50; ++turn) {
        for (const Round& one : rounds) write(one);
        close();
        const auto files = segment_files();
        const fs::path file = files[random() % files.size()];
        const auto size = fs::file_size(file);
        if (size > 0 && turn % 4 == 0) {
            fs::resize_file(file, random() % size);
        } else if (size > 0) {
            const uint64_t at = random() % size;
            testing::flip_bit(file, at, random());
        }
        open();
        for (const Round& one : rounds) {
            const Status status = check(one);
            if (status) continue;
            ++damaged;
            EXPECT_NE(status.error().message, "WRONG BYTES");
            EXPECT_FALSE(is_there(one)) << "what is damaged is removed";
        }
    }
    EXPECT_GT(damaged, 12);
}

TEST_P(KvStoreTest, WhatIsRemovedIsGoneAlsoAfterAStart) {
    const Round first = round("t", nullptr, 0, 40), behind = round("t", &first, 40, 40),
                other = round("t", nullptr, 500, 40);
    for (const Round& one : {first, behind, other}) ASSERT_EQ(write(one), Refusal::none);
    const std::vector<StoreName> names = {name_of(behind), name_of(first)};
    std::vector<StoreName> told;
    store_->when_gone([&told](const StoreName& name) { told.push_back(name); });
    ASSERT_TRUE(store_->remove(names));
    EXPECT_EQ(told, names);
    EXPECT_TRUE(store_->remove(names)) << "they are gone";
    EXPECT_EQ(told, names) << "once";
    for (int start = 0; start < 2; ++start, open()) {
        EXPECT_FALSE(is_there(first));
        EXPECT_FALSE(is_there(behind));
        EXPECT_TRUE(is_there(other));
    }
}

TEST_P(KvStoreTest, WhoReadsKeepsItsBytesThoughItIsRemoved) {
    const Round one = round("t", nullptr, 0, 40);
    ASSERT_EQ(write(one), Refusal::none);
    auto reading = open_record(name_of(one), one.ids).value();
    ASSERT_TRUE(store_->remove(name_of(one)));
    EXPECT_FALSE(is_there(one));
    const RecordHeader& header = KvStore::header_of(*reading);
    AlignedBytes bytes(padded(header)), expected = bytes_of(header, 1);
    const uint64_t before = store_->bytes();
    EXPECT_TRUE(wait([&](auto done) { store_->read_layer(reading, 1, {bytes.span()}, std::move(done)); }));
    EXPECT_TRUE(std::ranges::equal(bytes.span(), expected.span()));
    reading = nullptr;
    // A thread of the disk's may let go of it last; until then its bytes stay.
    tasks_->run_until([&] { return store_->bytes() < before; });
}

/// The disk may be asked for more then. So it is told once, before the proof, and of what cannot be read too.
TEST_P(KvStoreTest, ALayerIsSaidToHaveComeBeforeItIsProved) {
    const Round one = round("t", nullptr, 0, 40);
    ASSERT_EQ(write(one), Refusal::none);
    const auto reading = open_record(name_of(one), one.ids).value();
    for (const bool whole : {true, false}) {
        if (!whole)
            for (const auto& file : segment_files()) fs::resize_file(file, disk_alignment);
        AlignedBytes bytes(padded(KvStore::header_of(*reading)));
        std::string told;
        const Status end = wait([&](const KvStore::Done& done) {
            const auto proved = [&told, done](const Status& status) {
                told += "proved ";
                done(status);
            };
            store_->read_layer(reading, 1, {bytes.span()}, proved, [&told] { told += "come "; });
        });
        EXPECT_EQ(end.is_ok(), whole);
        EXPECT_EQ(told, "come proved ");
    }
}

/// Two of one name, one after the other, each read while it goes: the space of both comes back.
TEST_P(KvStoreTest, ARecordWrittenAnewIsAnotherThanTheOneThatIsStillRead) {
    const Round one = round("t", nullptr, 0, 40);
    const uint64_t before = store_->bytes();
    std::vector<KvStore::ReadingPtr> readings;
    for (int turn = 0; turn < 2; ++turn) {
        ASSERT_EQ(write(one), Refusal::none);
        readings.push_back(open_record(name_of(one), one.ids).value());
        ASSERT_TRUE(store_->remove(name_of(one)));
    }
    const RecordHeader& header = KvStore::header_of(*readings[0]);
    AlignedBytes bytes(padded(header)), expected = bytes_of(header, 2);
    EXPECT_TRUE(wait([&](auto done) { store_->read_layer(readings[0], 2, {bytes.span()}, std::move(done)); }));
    EXPECT_TRUE(std::ranges::equal(bytes.span(), expected.span()));
    readings.clear();
    // A thread of the disk's may be letting go of one, too.
    tasks_->run_until([&] { return store_->bytes() <= before + disk_alignment; });
}

/// Another model's records are not found, live beside, and go first.
TEST_P(KvStoreTest, AnotherModelsRecordsLiveBeside) {
    const Round one = round("t", nullptr, 0, 64);
    ASSERT_EQ(write(one, 100.0), Refusal::none);
    const KvKind before = options_.kind;
    options_.kind.model.fill(std::byte{8});
    open();
    EXPECT_EQ(store_->counts().foreign, 1);
    EXPECT_FALSE(is_there(one));
    EXPECT_EQ(write(one), Refusal::none);
    EXPECT_TRUE(is_there(one));
    options_.kind = before;
    open();
    EXPECT_TRUE(is_there(one));
    EXPECT_EQ(store_->counts().foreign, 1);
    options_.bytes_max = store_->bytes() + 2 * disk_alignment;
    open();
    EXPECT_EQ(write(round("t", nullptr, 5000, 64), 0.001), Refusal::none);
    EXPECT_TRUE(is_there(one)) << "the other model's went";
}

/// Records of a group have other layers where the groups are other ones.
TEST_P(KvStoreTest, AnotherWatershedIsAnotherKind) {
    const uint64_t plain = checksum_of_kind(options_.kind);
    const Round one = round("t", nullptr, 0, 64);
    for (const int32_t lower_layers : {0, 1, 2}) {
        options_.kind.lower_layers = lower_layers;
        EXPECT_EQ(checksum_of_kind(options_.kind) == plain, lower_layers == 0);
        open();
        EXPECT_FALSE(is_there(one));
        EXPECT_EQ(write(one), Refusal::none);
        EXPECT_TRUE(is_there(one));
    }
    EXPECT_EQ(store_->index().count(), 3U);
}

/// Of a manifest that somebody has changed: no more is asked of memory than a record has bytes.
TEST_P(KvStoreTest, AnEntryWithMoreLayersThanItsRecordHasRoomForIsDamaged) {
    const Round one = round("t", nullptr, 0, 64), other = round("t", nullptr, 1000, 64);
    for (const Round& each : {one, other}) ASSERT_EQ(write(each), Refusal::none);
    const std::string key = store::key_of(store::record_letter, name_of(one));
    const std::string value = store_->manifest().get(key).value();
    auto entry = read_stored_record(std::as_bytes(std::span(value)));
    ASSERT_TRUE(entry);
    entry->record.layers = 1'000'000'000;
    const std::vector<std::byte> forged = write_stored_record(*entry);
    Manifest::Changes changes;
    changes.put(key, store::text_of(forged));
    ASSERT_TRUE(store_->manifest().commit(std::move(changes)));
    open();
    EXPECT_EQ(store_->counts().damaged, 1);
    EXPECT_EQ(store_->index().find(name_of(one)), nullptr);
    EXPECT_TRUE(is_there(other));
}

/// Nobody judges another version's number of layers at a start. Such an entry has another name, unless somebody has
/// changed it.
TEST_P(KvStoreTest, AnotherVersionsEntryUnderANameOfThisOneIsDamaged) {
    const Round one = round("t", nullptr, 0, 64), other = round("t", nullptr, 1000, 64);
    ASSERT_EQ(write(other), Refusal::none);
    for (const int32_t layers : {1000, 0}) {
        ASSERT_EQ(write(one), Refusal::none);
        const std::string key = store::key_of(store::record_letter, name_of(one));
        const std::string value = store_->manifest().get(key).value();
        auto entry = read_stored_record(std::as_bytes(std::span(value)));
        ASSERT_TRUE(entry);
        entry->record.layers = layers;
        std::vector<std::byte> forged = write_stored_record(*entry);
        const uint32_t later = ManifestEntry::version_now + 1;
        std::memcpy(forged.data(), &later, sizeof(later));
        const uint64_t sum = checksum_of(std::span(forged).first(forged.size() - sizeof(uint64_t)));
        std::memcpy(forged.data() + forged.size() - sizeof(sum), &sum, sizeof(sum));
        Manifest::Changes changes;
        changes.put(key, store::text_of(forged));
        ASSERT_TRUE(store_->manifest().commit(std::move(changes)));
        open();
        EXPECT_EQ(store_->counts().foreign, 1);
        EXPECT_EQ(check(one).error().code, ErrorCode::corrupt);
        EXPECT_EQ(store_->counts().damaged, 1);
        EXPECT_FALSE(is_there(one));
        EXPECT_TRUE(is_there(other));
    }
}

TEST_P(KvStoreTest, WhatWasRemovedIsInNoFile) {
    const Round one = round("t", nullptr, 0x5a5a5a, 40), other = round("t", nullptr, 9, 40);
    const std::string ids(reinterpret_cast<const char*>(one.ids.data()), 64);
    ASSERT_EQ(write(one), Refusal::none);
    ASSERT_EQ(write(other), Refusal::none);
    RecordHeader header = header_of(one);
    AlignedBytes kv = bytes_of(header, 1);
    const std::string bytes(reinterpret_cast<const char*>(kv.data()), 64);
    EXPECT_EQ(any_file_has(ids), !GetParam());
    EXPECT_EQ(any_file_has(bytes), !GetParam());
    EXPECT_EQ(any_file_has("tenant-name"), false);
    ASSERT_TRUE(store_->remove(name_of(one)));
    ASSERT_TRUE(store_->forget_removed());
    EXPECT_FALSE(any_file_has(ids));
    EXPECT_FALSE(any_file_has(bytes));
    EXPECT_TRUE(is_there(other));
}

/// A process killed at any moment: what is found is whole, and nothing else takes space. Every second one has written a
/// record before, however long that takes on this disk.
TEST_P(KvStoreTest, AKillLeavesWholeRecords) {
    const testing::Folder place(testing::in_memory());  // where a child writes more records in the time that it has
    options_.path = place.path() + "/kv";
    close();
    queue_.reset();
    int found = 0;
    for (int turn = 0; turn < 12; ++turn) {
        int told[2];
        ASSERT_EQ(pipe(told), 0);
        const pid_t child = fork();
        if (child == 0) {
            queue_ = DiskQueue::open({}).value();
            open();
            for (int i = 0; store_; ++i) {
                write(round("t", nullptr, 100'000 * (turn + 1) + 1000 * i, 16 + i % 100));
                if (::write(told[1], "", 1) != 1) break;
            }
            _exit(1);
        }
        ::close(told[1]);
        if (char byte = 0; turn % 2 == 0) {
            usleep(60'000);
        } else {
            EXPECT_EQ(::read(told[0], &byte, 1), 1) << "it ended by itself";
        }
        usleep(static_cast<useconds_t>(7'000 * turn));
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
        ::close(told[0]);
        queue_ = DiskQueue::open({}).value();
        open();
        uint64_t bytes = 0;
        store_->index().each([&](const StoredRecord& record) { bytes += record.place.bytes; });
        EXPECT_LE(store_->bytes(), bytes + (store_->index().count() + 1) * disk_alignment);
        for (int i = 0; i < 2000; ++i) {
            const Round one = round("t", nullptr, 100'000 * (turn + 1) + 1000 * i, 16 + i % 100);
            if (store_->index().find(name_of(one)) == nullptr) break;
            EXPECT_TRUE(is_there(one));
            ++found;
        }
        EXPECT_EQ(store_->counts().damaged, 0);
        close();
        queue_.reset();
    }
    EXPECT_GE(found, 6);
    queue_ = DiskQueue::open({}).value();
}

class KvStoreRepairTest : public testing::StoreTest {};

/// A description that is torn: whoever operates it hears what was damaged and what there is.
TEST_F(KvStoreRepairTest, ARepairOfItsManifestIsSaid) {
    open();
    const Round first = round("t", nullptr, 0, 40);
    ASSERT_EQ(write(first), KvStore::Refusal::none);
    close();
    for (const auto& entry : std::filesystem::directory_iterator(options_.path + "/manifest"))
        if (entry.path().filename().string().starts_with("MANIFEST-"))
            std::filesystem::resize_file(entry.path(), entry.file_size() / 2);
    open();
    EXPECT_THAT(store_->notes(), ::testing::ElementsAre(::testing::HasSubstr("was damaged")));
    EXPECT_TRUE(is_there(first));
}

}  // namespace
}  // namespace rondo
