#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <set>

#include "memory/store/manifest_keys.hpp"
#include "memory/store/shelf.hpp"
#include "tests/flip_bit.hpp"
#include "tests/memory/store/fault_amount.hpp"
#include "tests/memory/store/kv_store_fixture.hpp"

/// Bytes of a store change, in all its files: what is read is right, or it is refused.
namespace rondo {
namespace {

namespace fs = std::filesystem;

using testing::fault_amount;
using testing::flip_bit;
using Refusal = KvStore::Refusal;

class StoreDamageTest : public testing::StoreTest, public ::testing::WithParamInterface<bool> {
protected:
    StoreDamageTest() {
        options_.path = memory_.path() + "/kv";
        options_.kind.layers = 2;
        if (GetParam()) options_.keys.emplace(testing::some_root());
        open();
    }
    ~StoreDamageTest() override { close(); }
    static Round numbered(int number) { return round("t", nullptr, 1000 * number, 128 + number % 60); }
    fs::path file_of(const RecordPlace& place) const { return options_.path + "/" + Segments::name_of(place.segment); }
    const RecordPlace& place_of(int number) const { return store_->index().find(name_of(numbered(number)))->place; }

    /// Of a file as it lies there.
    static std::string read_bytes(const fs::path& file, uint64_t offset, size_t count) {
        std::string bytes(count, '\0');
        std::ifstream in(file, std::ios::binary);
        in.seekg(static_cast<std::streamoff>(offset));
        in.read(bytes.data(), static_cast<std::streamsize>(count));
        return bytes;
    }
    static void write_bytes(const fs::path& file, uint64_t offset, const std::string& bytes) {
        std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
        out.seekp(static_cast<std::streamoff>(offset));
        out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        ASSERT_TRUE(out.flush());
    }
    /// A change of a header that has the right checksum again.
    static void forge_header(const fs::path& file, uint64_t offset, size_t ids, size_t layers,
                             std::mt19937_64& random) {
        const size_t bytes = RecordHeader::header_bytes(ids, layers);
        std::string header = read_bytes(file, offset, bytes);
        // It stands behind the last layer: the first place whose 8 bytes are the checksum of all before it.
        const auto all = std::as_bytes(std::span(header));
        size_t end = ids * sizeof(int32_t);
        uint64_t sum = 0;
        for (;; ++end) {
            ASSERT_LE(end + sizeof(sum), bytes);
            std::memcpy(&sum, header.data() + end, sizeof(sum));
            if (sum == checksum_of(all.first(end))) break;
        }
        header[random() % end] ^= static_cast<char>(1 << random() % 8);
        sum = checksum_of(std::as_bytes(std::span(header)).first(end));
        std::memcpy(header.data() + end, &sum, sizeof(sum));
        write_bytes(file, offset, header);
    }

    testing::Folder memory_{testing::in_memory()};
};

INSTANTIATE_TEST_SUITE_P(Bytes, StoreDamageTest, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "sealed" : "plain"; });

/// The header's last bytes are padding; where nothing is sealed they may change, and nobody reads them.
TEST_P(StoreDamageTest, NothingWrongIsEverRead) {
    constexpr int records = 8;
    std::mt19937_64 random(17);
    const int64_t damages = fault_amount(1500, 50'000);
    int64_t refused = 0, harmless = 0, cut = 0, forged = 0, exchanged = 0;
    for (int64_t turn = 0; turn < damages && !HasFailure(); ++turn) {
        for (int i = 0; i < records; ++i)
            if (store_->index().find(name_of(numbered(i))) == nullptr) {
                ASSERT_EQ(write(numbered(i)), Refusal::none);
            }
        const int number = static_cast<int>(random() % records), other = (number + 1) % records;
        const RecordPlace place = place_of(number);
        const fs::path file = file_of(place);
        const auto way = random() % 16;
        if (way == 0) {
            fs::resize_file(file, place.offset + random() % place.bytes);
            ++cut;
        } else if (way == 1 && !GetParam()) {
            forge_header(file, place.offset, numbered(number).ids.size(), 2, random);
            ++forged;
        } else if (way <= 2) {  // another record's bytes, or some of them
            const uint64_t from = random() % 3 * disk_alignment;
            write_bytes(file, place.offset + from,
                        read_bytes(file_of(place_of(other)), place_of(other).offset + from, disk_alignment));
            ++exchanged;
        } else {
            flip_bit(file, place.offset + random() % place.bytes, random());
        }
        const Status read = check(numbered(number));
        if (read) {
            EXPECT_FALSE(GetParam()) << "of sealed bytes none may change";
            ++harmless;
        } else {
            EXPECT_TRUE(read.error().code == ErrorCode::corrupt || read.error().code == ErrorCode::not_found ||
                        read.error().code == ErrorCode::unsupported)
                << read.error().message;
            EXPECT_EQ(std::ranges::count(read.error().message, '\n'), 0);
            ++refused;
            const bool stays = store_->index().find(name_of(numbered(number))) != nullptr;
            EXPECT_EQ(stays, read.error().code == ErrorCode::not_found) << "it has other ids, and is whole";
            if (stays) {
                EXPECT_TRUE(store_->remove(name_of(numbered(number))));
            }
        }
        // Those behind the cut are gone, too.
        if (way == 0)
            for (int i = 0; i < records; ++i) static_cast<void>(check(numbered(i)));
        if (way != 0 && turn % 16 == 0)
            for (int i = 0; i < records; ++i)
                if (i != number) {
                    EXPECT_TRUE(check(numbered(i))) << "only what is damaged goes";
                }
    }
    std::cout << damages << " damages, of them " << cut << " cuts, " << forged << " with a new checksum, " << exchanged
              << " by another record's bytes: " << refused << " refused, " << harmless << " of padding\n";
    EXPECT_GT(refused, damages * 2 / 3);
}

/// All else that it says is true, and its checksum; and where there is a key, nobody without it can write one.
TEST_P(StoreDamageTest, AHeaderOfAnotherKindIsDamage) {
    const Round one = numbered(0);
    ASSERT_EQ(write(one), Refusal::none);
    const RecordPlace place = place_of(0);
    RecordHeader header = header_of(one);
    header.lay_out();
    header.kind.dtype = DType::i8;
    ASSERT_EQ(header.record_bytes(), place.bytes);
    write_bytes(file_of(place), place.offset, std::string(store::text_of(header.write())));
    const Status read = check(one);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::corrupt) << read.error().message;
    EXPECT_EQ(store_->index().find(name_of(one)), nullptr);
}

/// Of segments' headers and of lengths, which are read at a start.
TEST_P(StoreDamageTest, StartsFindWhatIsWhole) {
    constexpr int records = 12;
    options_.segments.segment_bytes = uint64_t{64} << 10;
    std::mt19937_64 random(19);
    const int64_t turns = fault_amount(20, 1500);
    int64_t lost = 0;
    for (int64_t turn = 0; turn < turns && !HasFailure(); ++turn) {
        open();
        for (int i = 0; i < records; ++i) {
            if (store_->index().find(name_of(numbered(i))) == nullptr) {
                ASSERT_EQ(write(numbered(i)), Refusal::none);
            }
        }
        const RecordPlace place = place_of(static_cast<int>(random() % records));
        std::set<int> others;
        for (int i = 0; i < records; ++i)
            if (place_of(i).segment != place.segment) others.insert(i);
        close();
        const fs::path file = file_of(place);
        const bool header_alone = turn % 3 == 0;
        if (header_alone) {
            flip_bit(file, random() % disk_alignment, random());
        } else if (turn % 3 == 1) {
            fs::resize_file(file, random() % fs::file_size(file));
        } else {
            flip_bit(file, random() % fs::file_size(file), random());
        }
        open();
        for (int i = 0; i < records; ++i) {
            const Status read = check(numbered(i));
            EXPECT_TRUE(read || read.error().code != ErrorCode::internal) << read.error().message;
            EXPECT_TRUE(read || !others.contains(i)) << "only the segment's records go";
            EXPECT_TRUE(read || !header_alone || GetParam()) << "and what is not sealed does not need its header";
            lost += !read.is_ok();
        }
    }
    std::cout << turns << " starts after damage, " << lost << " records lost of " << turns * records << '\n';
    EXPECT_GT(lost, turns / (GetParam() ? 2 : 4));
}

TEST_P(StoreDamageTest, ADamagedManifestServesNothingWrong) {
    constexpr int records = 20;
    const fs::path good = memory_.path() + "/good";
    Shelf shelf(store_->manifest(), store_->keys());
    std::vector<StoreName> names;
    for (int i = 0; i < records; ++i) {
        ASSERT_EQ(write(numbered(i)), Refusal::none);
        const std::string text = "text " + std::to_string(i);
        names.push_back(shelf.name("t", std::to_string(i)));
        const auto bytes = std::as_bytes(std::span(text));
        ASSERT_TRUE(shelf.put(names.back(), store_->tenant_name("t"), bytes, bytes, {}));
        if (i == records / 2) {
            ASSERT_TRUE(store_->forget_removed());  // some in a table, some in the log
        }
    }
    close();
    fs::remove(options_.path + "/manifest/reserve");
    fs::copy(options_.path, good, fs::copy_options::recursive);
    std::mt19937_64 random(23);
    const int64_t turns = fault_amount(24, 600);
    int64_t refused = 0, served = 0, lost = 0;
    for (int64_t turn = 0; turn < turns && !HasFailure(); ++turn) {
        fs::remove_all(options_.path);
        fs::copy(good, options_.path, fs::copy_options::recursive);
        std::vector<fs::path> files;
        for (const auto& entry : fs::directory_iterator(options_.path + "/manifest"))
            if (entry.file_size() > 0) files.push_back(entry.path());
        std::ranges::sort(files);
        const fs::path file = files[random() % files.size()];
        const ::testing::ScopedTrace trace(__FILE__, __LINE__, file.filename().string());
        // Half of the bits in a table's last KiB: its properties, its index and its footer.
        const uint64_t bytes = fs::file_size(file);
        if (turn % 4 == 0) fs::resize_file(file, random() % bytes);
        const uint64_t last = file.extension() == ".sst" && turn % 2 == 0 ? std::min<uint64_t>(bytes, 1024) : bytes;
        if (turn % 4 != 0) flip_bit(file, bytes - last + random() % last, random());
        auto opened = KvStore::open(options_, *queue_);
        if (!opened) {
            EXPECT_EQ(std::ranges::count(opened.error().message, '\n'), 0);
            ++refused;
            continue;
        }
        store_ = std::move(*opened);
        EXPECT_FALSE(fs::exists(options_.path + "/manifest/lost")) << "where repairing puts what is not used again";
        for (int i = 0; i < records; ++i) {
            const Status read = check(numbered(i));
            EXPECT_TRUE(read || read.error().code != ErrorCode::internal) << read.error().message;
            read ? ++served : ++lost;
            Shelf again(store_->manifest(), store_->keys());
            const std::string text = "text " + std::to_string(i);
            const auto& name = names[static_cast<size_t>(i)];
            const auto body = again.body(name);
            if (body) {
                EXPECT_EQ(store::text_of(*body), text);
            }
        }
        write(numbered(1000));
        EXPECT_TRUE(is_there(numbered(1000))) << "it goes on";
        close();
    }
    std::cout << turns << " damages of the manifest: " << refused << " starts refused, " << served
              << " records served, " << lost << " lost\n";
    EXPECT_GT(served, 0);
}

/// Seconds since a time.
double since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST_P(StoreDamageTest, OfManyRecordsTheDamagedOnesGo) {
    const int records = static_cast<int>(fault_amount(1000, 10'000));
    options_.bytes_max = uint64_t{1} << 30;
    options_.segments.segment_bytes = uint64_t{16} << 20;
    open();
    std::mt19937_64 random(29);
    std::set<int> damaged;
    for (int i = 0; i < records; ++i) {
        ASSERT_EQ(write(numbered(i)), Refusal::none);
        if (random() % 100 != 0) continue;
        const RecordPlace& place = place_of(i);
        const uint64_t layer = place.bytes - disk_alignment * (1 + random() % 2);
        const uint64_t anywhere = random() % 2 == 0 ? random() % 512 : layer + random() % disk_alignment;
        flip_bit(file_of(place), place.offset + anywhere, random());
        damaged.insert(i);
    }
    close();
    const auto begin = std::chrono::steady_clock::now();
    open();
    const double seconds = since(begin);
    std::cout << records << " records opened in " << seconds << " s\n";
    EXPECT_LE(seconds, 30.0);
    EXPECT_EQ(store_->index().count(), static_cast<size_t>(records));
    for (int i = 0; i < records; ++i) {
        const Status read = check(numbered(i));
        ASSERT_EQ(read.is_ok(), !damaged.contains(i)) << i << ' ' << (read ? "" : read.error().message);
    }
    EXPECT_EQ(store_->index().count(), static_cast<size_t>(records) - damaged.size());
    EXPECT_EQ(store_->counts().damaged, std::ssize(damaged));
    EXPECT_GT(damaged.size(), 0U);
}

TEST_P(StoreDamageTest, OfManyConversationsTheDamagedOnesGo) {
    const int conversations = static_cast<int>(fault_amount(1000, 10'000));
    Shelf shelf(store_->manifest(), store_->keys());
    std::mt19937_64 random(31);
    std::set<StoreName> damaged;
    const auto text_of = [](int number) { return "conversation " + std::to_string(number); };
    for (int i = 0; i < conversations; ++i) {
        const StoreName name = shelf.name("t", std::to_string(i));
        const std::string head = text_of(i), body(2000, static_cast<char>(i));
        Manifest::Changes changes;
        ASSERT_TRUE(shelf.put(changes, name, store_->tenant_name("t"), std::as_bytes(std::span(head)),
                              std::as_bytes(std::span(body)), {}));
        ASSERT_TRUE(store_->manifest().commit(std::move(changes)));
        if (random() % 100 != 0) continue;
        const std::string key = store::key_of(store::head_letter, name);
        std::string value = store_->manifest().get(key).value();
        // The first byte says which version wrote it.
        value[1 + random() % (value.size() - 1)] ^= static_cast<char>(1 << random() % 8);
        Manifest::Changes damage;
        damage.put(key, value);
        ASSERT_TRUE(store_->manifest().commit(std::move(damage)));
        damaged.insert(name);
    }
    close();
    const auto begin = std::chrono::steady_clock::now();
    open();
    Shelf again(store_->manifest(), store_->keys());
    std::map<StoreName, std::string> heads;
    ASSERT_TRUE(again.each_head([&](const StoreName& name, std::span<const std::byte> head) {
        heads[name] = store::text_of(head);
        return Status::ok();
    }));
    const double seconds = since(begin);
    std::cout << conversations << " conversations opened and listed in " << seconds << " s\n";
    EXPECT_LE(seconds, 30.0);
    EXPECT_EQ(again.damaged(), std::ssize(damaged));
    for (int i = 0; i < conversations; ++i) {
        const StoreName name = again.name("t", std::to_string(i));
        ASSERT_EQ(heads.contains(name), !damaged.contains(name));
        if (heads.contains(name)) {
            ASSERT_EQ(heads[name], text_of(i));
        }
        ASSERT_EQ(again.body(name)->size(), 2000U) << "bodies were not damaged";
    }
    EXPECT_GT(damaged.size(), 0U);
}

}  // namespace
}  // namespace rondo
