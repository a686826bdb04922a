#include "memory/store/rocks/table_file.hpp"

#include <gtest/gtest.h>
#include <rocksdb/convenience.h>
#include <rocksdb/env.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <sstream>

#include "tests/memory/store/fault_amount.hpp"
#include "tests/memory/store/store_fixture.hpp"

namespace rondo {
namespace {

namespace fs = std::filesystem;

using testing::fault_amount;

/// By key; a removed one has no value.
using Entries = std::map<std::string, std::optional<std::string>>;

struct Kind {
    rocksdb::ChecksumType checksum = rocksdb::kXXH3;
    uint32_t format = 5;
    bool snappy = true;
};

class TableFileTest : public ::testing::Test {
protected:
    static Entries some_entries(int count) {
        Entries entries;
        for (int i = 0; i < count; ++i) {
            const std::string key = "key" + std::to_string(100'000 + i);
            if (i % 7 == 3)
                entries[key] = std::nullopt;
            else
                entries[key] = std::to_string(i * 7919LL) + std::string(static_cast<size_t>(i % 90), 'x');
        }
        entries["large"] = std::string(10'000, 'y') + "z";
        return entries;
    }
    void write(const Entries& entries, const Kind& kind) const {
        rocksdb::BlockBasedTableOptions table;
        table.checksum = kind.checksum;
        table.format_version = kind.format;
        table.block_size = 512;
        rocksdb::Options options;
        options.compression = kind.snappy ? rocksdb::kSnappyCompression : rocksdb::kNoCompression;
        options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
        rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options);
        ASSERT_TRUE(writer.Open(path_).ok());
        for (const auto& [key, value] : entries)
            ASSERT_TRUE((value ? writer.Put(key, *value) : writer.Delete(key)).ok());
        ASSERT_TRUE(writer.Finish().ok());
    }
    std::string bytes() const {
        std::ostringstream all;
        all << std::ifstream(path_, std::ios::binary).rdbuf();
        return all.str();
    }
    void set_bytes(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
    Status prove() const {
        RONDO_ASSIGN(const TableFile table, TableFile::open(path_));
        return table.prove();
    }
    struct Found {
        Entries entries;
        int64_t damaged = 0;
        std::vector<KeysBetween> lost;

        bool may_lose(const std::string& key) const {
            return std::ranges::any_of(lost, [&](const KeysBetween& between) {
                return (!between.after || key > *between.after) && (!between.before || key < *between.before);
            });
        }
    };
    Found read() const {
        Found found;
        const auto table = TableFile::open(path_);
        EXPECT_TRUE(table);
        const auto damaged = table->each_entry(
            [&](const RocksEntry& entry) {
                std::optional<std::string> value;
                if (!entry.removed) value = entry.value;
                found.entries[std::string(entry.key)] = value;
            },
            [&](const KeysBetween& between) { found.lost.push_back(between); });
        found.damaged = damaged ? *damaged : -1;
        return found;
    }
    /// What is found was there, and what is not lies where something is told to be lost.
    static void expect_honest(const Found& found, const Entries& entries) {
        for (const auto& [key, value] : found.entries) {
            ASSERT_TRUE(entries.contains(key)) << key;
            ASSERT_EQ(entries.at(key), value);
        }
        for (const auto& [key, value] : entries)
            if (!found.entries.contains(key)) {
                ASSERT_TRUE(found.may_lose(key)) << key;
            }
    }

    testing::Folder folder_{testing::in_memory()};
    const std::string path_ = folder_.path() + "/000012.sst";
};

class TableFileKinds : public TableFileTest, public ::testing::WithParamInterface<Kind> {};

INSTANTIATE_TEST_SUITE_P(All, TableFileKinds,
                         ::testing::Values(Kind{rocksdb::kXXH3, 5, true}, Kind{rocksdb::kXXH3, 5, false},
                                           Kind{rocksdb::kCRC32c, 2, true}, Kind{rocksdb::kCRC32c, 3, false},
                                           Kind{rocksdb::kxxHash, 4, true}, Kind{rocksdb::kxxHash64, 5, true}));

TEST_P(TableFileKinds, AWholeTableIsProvedAndRead) {
    const Entries entries = some_entries(500);
    write(entries, GetParam());
    const Status proved = prove();
    EXPECT_TRUE(proved) << proved.error().message;
    const Found found = read();
    EXPECT_EQ(found.entries, entries);
    EXPECT_EQ(found.damaged, 0);
    EXPECT_TRUE(found.lost.empty());
}

TEST_P(TableFileKinds, EntriesAreFoundWithoutTheFooter) {
    const Entries entries = some_entries(500);
    write(entries, GetParam());
    std::string all = bytes();
    all[all.size() - 1] = 'x';
    set_bytes(all);
    EXPECT_EQ(prove().error().code, ErrorCode::corrupt);
    const Found found = read();
    EXPECT_EQ(found.entries, entries);
    EXPECT_EQ(found.damaged, 1);
    EXPECT_TRUE(found.may_lose("z")) << "nobody knows where the table ended";
}

TEST_F(TableFileTest, EveryChangedByteIsFoundOrHarmless) {
    const Entries entries = some_entries(60);
    write(entries, {});
    const std::string good = bytes();
    const auto stride = static_cast<size_t>(fault_amount(3, 1));
    int64_t proved = 0, whole = 0;
    for (size_t at = 0; at < good.size() && !HasFailure(); at += stride)
        for (const int mask : {1, 4, 128, 255}) {
            std::string bad = good;
            bad[at] = static_cast<char>(bad[at] ^ mask);
            set_bytes(bad);
            const Found found = read();
            expect_honest(found, entries);
            whole += found.entries == entries ? 1 : 0;
            const Status status = prove();
            proved += status ? 1 : 0;
            EXPECT_TRUE(status || status.error().code != ErrorCode::io);
            EXPECT_TRUE(found.damaged != 0 || found.entries == entries);
        }
    EXPECT_GT(proved, 0) << "blocks of entries are proved by RocksDB";
    EXPECT_GT(whole, 0) << "without properties, names or places all entries are found";
}

TEST_F(TableFileTest, ACutTableKeepsItsBegin) {
    const Entries entries = some_entries(60);
    write(entries, {});
    const std::string good = bytes();
    for (size_t size = 0; size < good.size(); size += static_cast<size_t>(fault_amount(37, 1))) {
        set_bytes(good.substr(0, size));
        EXPECT_EQ(prove().error().code, ErrorCode::corrupt) << size;
        const Found found = read();
        expect_honest(found, entries);
        EXPECT_EQ(found.damaged, 1);
        EXPECT_TRUE(size < 2000 || !found.entries.empty());
    }
}

/// Checksums may be right by chance: lengths and places are not believed then either.
TEST_F(TableFileTest, NothingIsReadBeyondTheFile) {
    write(some_entries(60), {});
    const std::string good = bytes();
    std::mt19937_64 random(7);
    for (int64_t turn = 0; turn < fault_amount(300, 20'000); ++turn) {
        std::string bad = good;
        for (size_t at = good.size() - 53; at < good.size() - 12; ++at)
            if (random() % 4 == 0) bad[at] = static_cast<char>(random());
        set_bytes(bad);
        EXPECT_TRUE(prove() || prove().error().code != ErrorCode::io);
        static_cast<void>(read());
    }
}

TEST_F(TableFileTest, ATableOfAnotherKindIsNoEmptyOne) {
    write(some_entries(60), {});
    std::string other = bytes();
    other[other.size() - 12] = 6;  // a later format
    for (size_t at = 0; at < other.size() - 53; ++at) other[at] = static_cast<char>(at * 31 + 7);
    set_bytes(other);
    EXPECT_EQ(prove().error().code, ErrorCode::unsupported);
    EXPECT_EQ(read().damaged, -1);
}

}  // namespace
}  // namespace rondo
