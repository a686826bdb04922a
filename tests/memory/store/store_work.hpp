#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "memory/store/folder_key.hpp"
#include "memory/store/record_owners.hpp"
#include "memory/store/shelf.hpp"
#include "tests/memory/store/child_process.hpp"
#include "tests/memory/store/kv_store_fixture.hpp"

/// Work on a small store that tells what it does, and what a store must hold by what was told until somebody was
/// killed.
namespace rondo::testing {

/// Of each record and conversation, by number, what a store may hold.
struct Ledger {
    static constexpr int none = 0;
    std::map<int, std::set<bool>> records;       ///< whether it is there: one, or both may be
    std::map<int, std::set<int>> conversations;  ///< its version, or `none`
    bool evicting = false;                       ///< it is not known who has gone

    void hear(const std::string& line) {
        std::istringstream in(line);
        std::string what;
        int number = 0, version = none;
        in >> what >> number >> version;
        if (what == "write" || what == "remove") records[number].insert({false, true});
        if (what == "written") records[number] = {true};
        if (what == "removed") records[number] = {false};
        if (what == "keep") {
            if (!was_there(number)) conversations[number].insert(none);
            conversations[number].insert(version);
        }
        if (what == "kept") conversations[number] = {version}, before_[number] = version;
        if (what == "drop") conversations[number].insert(none);
        if (what == "dropped") conversations[number] = {none}, before_[number] = none;
        if (what == "evict") evicting = true;
        if (what == "evicted") evicting = false;
    }

private:
    /// Then it is replaced, and never lost; but it may have been dropped by something that failed.
    bool was_there(int number) const {
        const auto found = before_.find(number);
        return found != before_.end() && found->second != none;
    }
    std::map<int, int> before_;
};

class StoreWork : public StoreTest {
protected:
    static constexpr int conversations = 4;

    StoreWork() {
        options_.path = memory_.path() + "/kv";
        options_.bytes_max = uint64_t{320} << 10;
        options_.segments.segment_bytes = uint64_t{64} << 10;
    }
    ~StoreWork() override { close(); }
    static Round numbered(int number) { return round("t", nullptr, 1000 * number, 16 + 37 * number % 180); }
    /// A second a byte: everybody may go for everybody.
    double worth(const Round& round) const {
        RecordHeader header = header_of(round);
        header.lay_out();
        return static_cast<double>(header.record_bytes());
    }
    StoreName tenant() const { return store_->tenant_name("t"); }
    static std::string body_of(int number, int version) {
        std::string body;
        std::mt19937 random(static_cast<unsigned>(number * 1000 + version));
        for (auto left = random() % 20'000; left > 0; --left) body.push_back(static_cast<char>(random()));
        return body;
    }
    bool has(int number) const { return store_->index().find(name_of(numbered(number))) != nullptr; }
    std::vector<int> present(int numbers) const {
        std::vector<int> found;
        for (int i = 0; i < numbers; ++i)
            if (has(i)) found.push_back(i);
        return found;
    }
    static void tell(const char* what, int number = 0, int version = 0) {
        ChildProcess::say(std::string(what) + ' ' + std::to_string(number) + ' ' + std::to_string(version));
    }
    std::string id(int conversation) const { return "c" + std::to_string(conversation); }

    /// As a server does after a start.
    void own_all(Shelf& shelf) {
        owners_ = {};
        for (int i = 0; i < conversations; ++i) {
            const StoreName name = shelf.name("t", id(i));
            if (const auto records = shelf.records(name); records) own(name, *records);
        }
    }
    /// What is there of the records is this conversation's, too.
    void own(const StoreName& conversation, const std::vector<StoreName>& records) {
        for (const StoreName& record : records)
            if (store_->index().find(record) != nullptr) owners_.add(conversation, record);
    }
    std::set<StoreName> disown_all(const StoreName& conversation) {
        const std::set<StoreName> records = owners_.records_of(conversation);
        for (const StoreName& record : records) owners_.remove(conversation, record);
        return records;
    }
    void write_one(int number, bool whole) {
        const std::vector<int> before = present(number);
        const Round one = numbered(number);
        const RecordHeader header = header_of(one);
        tell("evict");
        KvStore::Begun begun = store_->begin(header, worth(one));
        for (const int other : before)
            if (!has(other)) tell("removed", other);
        tell("evicted");
        ASSERT_NE(begun.writing, nullptr);
        ASSERT_TRUE(write_layers(begun.writing, header));
        if (whole) {
            tell("write", number);
            ASSERT_TRUE(wait([&](auto done) { store_->finish(begun.writing, std::move(done)); }));
            tell("written", number);
        }
        begun.writing.reset();
        tasks_->run_all();
    }
    void remove_one(int number) {
        tell("remove", number);
        const StoreName name = name_of(numbered(number));
        if (!owners_.has_owner(name)) {
            ASSERT_TRUE(store_->remove(name));
        }
        tell(has(number) ? "written" : "removed", number);
    }
    void keep_one(Shelf& shelf, int number, int version, const std::vector<int>& records) {
        std::vector<StoreName> names;
        for (const int record : records) names.push_back(name_of(numbered(record)));
        const StoreName name = shelf.name("t", id(number));
        const std::string head = std::to_string(version), body = body_of(number, version);
        tell("keep", number, version);
        const auto bytes = [](const std::string& text) { return std::as_bytes(std::span(text)); };
        ASSERT_TRUE(shelf.put(name, tenant(), bytes(head), bytes(body), names));
        tell("kept", number, version);
        const std::set<StoreName> before = disown_all(name);
        own(name, names);
        remove_nobodys(before);
    }
    void tie_one(Shelf& shelf, int number, int record) {
        const StoreName name = shelf.name("t", id(number));
        auto records = shelf.records(name);
        if (!records) return;
        records->push_back(name_of(numbered(record)));
        Manifest::Changes changes;
        ASSERT_TRUE(shelf.put_records(changes, name, tenant(), *records));
        ASSERT_TRUE(store_->manifest().commit(std::move(changes)));
        own(name, {records->back()});
    }
    void drop_one(Shelf& shelf, int number) {
        const StoreName name = shelf.name("t", id(number));
        if (!shelf.records(name)) return;
        tell("drop", number);
        ASSERT_TRUE(shelf.remove(name));
        tell("dropped", number);
        remove_nobodys(disown_all(name));
    }
    /// Those go that no conversation has.
    void remove_nobodys(std::set<StoreName> names) {
        std::vector<int> those;
        for (const int number : present(numbers_))
            if (names.contains(name_of(numbered(number)))) those.push_back(number);
        for (const int number : those) tell("remove", number);
        std::erase_if(names, [this](const StoreName& name) { return owners_.has_owner(name); });
        ASSERT_TRUE(store_->remove(std::vector<StoreName>(names.begin(), names.end())));
        for (const int number : those) tell(has(number) ? "written" : "removed", number);
    }
    /// Some of everything. Records get numbers from `first` on.
    void work(uint64_t seed, int first, int steps) {
        std::mt19937_64 random(seed);
        Shelf shelf(store_->manifest(), store_->keys());
        own_all(shelf);
        numbers_ = first;
        for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
            const std::vector<int> there = present(numbers_);
            const int some = there.empty() ? 0 : there[random() % there.size()];
            const int conversation = static_cast<int>(random() % conversations);
            switch (random() % 10) {
                case 0:
                    remove_one(some);
                    break;
                case 1:
                case 2:
                    keep_one(shelf, conversation, 100 * numbers_ + step, {some, numbers_ - 1});
                    break;
                case 3:
                    tie_one(shelf, conversation, some);
                    break;
                case 4:
                    drop_one(shelf, conversation);
                    break;
                case 5:
                    ASSERT_TRUE(store_->forget_removed());
                    break;
                default:
                    write_one(numbers_++, random() % 6 != 0);
            }
        }
    }

    /// The store, opened after a kill, against what it must hold.
    /// Records of `lost_max` bytes may have gone where nobody told who goes.
    void check(const Ledger& ledger, uint64_t lost_max = uint64_t{64} << 10) {
        EXPECT_EQ(store_->counts().damaged, 0);
        EXPECT_FALSE(store_->repaired());
        uint64_t lost = 0;
        size_t found = 0;
        for (const auto& [number, may] : ledger.records) {
            const bool there = is_there(numbered(number));
            found += there;
            if (may.contains(there)) continue;
            EXPECT_TRUE(!there && ledger.evicting) << "record " << number << (there ? " came back" : " is lost");
            RecordHeader header = header_of(numbered(number));
            header.lay_out();
            lost += header.record_bytes();
        }
        EXPECT_LE(lost, lost_max) << "more than anybody makes room for";
        EXPECT_EQ(found, store_->index().count()) << "records that nobody has written";
        Shelf shelf(store_->manifest(), store_->keys());
        for (const auto& [number, may] : ledger.conversations) {
            const int version = version_of(shelf, number);
            EXPECT_TRUE(may.contains(version)) << "conversation " << number << " is of version " << version;
        }
        EXPECT_EQ(shelf.damaged(), 0);
        check_files();
    }
    int version_of(Shelf& shelf, int number) const {
        const StoreName name = shelf.name("t", id(number));
        const auto head = shelf.head(name), body = shelf.body(name);
        const auto records = shelf.records(name);
        EXPECT_EQ(head.is_ok(), body.is_ok());
        EXPECT_EQ(head.is_ok(), records.is_ok());
        if (!head || !body) return Ledger::none;
        const int version = std::stoi(std::string(reinterpret_cast<const char*>(head->data()), head->size()));
        const std::string expected = body_of(number, version);
        EXPECT_TRUE(std::ranges::equal(*body, std::as_bytes(std::span(expected))));
        return version;
    }
    int64_t files_of_manifest(const char* kind) const {
        return std::ranges::count_if(std::filesystem::directory_iterator(options_.path + "/manifest"),
                                     [&](const auto& entry) { return entry.path().extension() == kind; });
    }
    /// The store takes what its records take, and nothing lies about.
    void check_files() {
        uint64_t segments = 0;
        for (const auto& entry : std::filesystem::directory_iterator(options_.path)) {
            const std::string file = entry.path().filename();
            if (file == "manifest" || (options_.keys && file == FolderKey::file_name)) continue;
            EXPECT_NE(Segments::number_of(file), 0U) << file;
            ++segments;
        }
        EXPECT_EQ(store_->bytes(), store_->index().bytes() + segments * disk_alignment);
        EXPECT_LE(store_->bytes(), options_.bytes_max);
        ASSERT_TRUE(store_->forget_removed());
        // RocksDB deletes some files behind its answer.
        for (int i = 0; i < 500 && (files_of_manifest(".sst") > 1 || files_of_manifest(".log") > 1); ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        for (const auto& entry : std::filesystem::directory_iterator(options_.path + "/manifest")) {
            const std::string kind = entry.path().extension();
            // RocksDB keeps a list of its options that was not finished.
            EXPECT_TRUE(kind.empty() || kind == ".log" || kind == ".sst" || kind == ".dbtmp") << entry.path();
            if (kind == ".log") {
                EXPECT_EQ(entry.file_size(), 0U) << entry.path();
            }
        }
        EXPECT_LE(files_of_manifest(".sst"), 1);
        EXPECT_EQ(files_of_manifest(".log"), 1);
    }
    /// What it holds now, from which others go on.
    Ledger ledger_now(int numbers) {
        Ledger now;
        for (const int number : present(numbers)) now.hear("written " + std::to_string(number));
        Shelf shelf(store_->manifest(), store_->keys());
        for (int i = 0; i < conversations; ++i) {
            const int version = version_of(shelf, i);
            now.hear((version == Ledger::none ? "dropped " : "kept ") + std::to_string(i) + ' ' +
                     std::to_string(version));
        }
        return now;
    }

    Folder memory_{in_memory()};
    RecordOwners owners_;  // by names of conversations
    int numbers_ = 0;      // of records so far
};

}  // namespace rondo::testing
