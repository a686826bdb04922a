// Stores that are opened by other keys than before, or by none.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "memory/store/folder_key.hpp"
#include "memory/store/shelf.hpp"
#include "tests/memory/store/kv_store_fixture.hpp"

namespace rondo {
namespace {

namespace fs = std::filesystem;

using Refusal = KvStore::Refusal;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class KvStoreKeys : public testing::StoreTest {
protected:
    static SealKey::Bytes key(int byte) {
        SealKey::Bytes made{};
        made.fill(static_cast<std::byte>(byte));
        return made;
    }
    /// Opens it by these keys, the first on top; by none without any. "" or why not.
    std::string start(std::initializer_list<int> bytes) {
        close();
        options_.keys.reset();
        for (const int byte : bytes) {
            if (options_.keys)
                options_.keys->add(key(byte));
            else
                options_.keys.emplace(key(byte));
        }
        auto opened = KvStore::open(options_, *queue_);
        if (!opened) return opened.error().message;
        store_ = std::move(*opened);
        return "";
    }
    void write_both() {
        ASSERT_EQ(write(first_), Refusal::none);
        Shelf shelf(store_->manifest(), store_->keys());
        ASSERT_TRUE(shelf.put(shelf.name("t", "c"), store_->tenant_name("t"), text_, text_, {}));
    }
    bool both_are_there() {
        Shelf shelf(store_->manifest(), store_->keys());
        const auto body = shelf.body(shelf.name("t", "c"));
        return is_there(first_) && body && std::ranges::equal(*body, text_);
    }
    std::map<std::string, std::string> segments() const {
        std::map<std::string, std::string> found;
        for (const auto& file : segment_files()) {
            std::ostringstream bytes;
            bytes << std::ifstream(file, std::ios::binary).rdbuf();
            found[file.filename()] = bytes.str();
        }
        return found;
    }

    const std::span<const std::byte> text_ = std::as_bytes(std::span(std::string_view("some text")));
    const Round first_ = round("t", nullptr, 0, 40), second_ = round("t", &first_, 40, 17);
    const std::string sealed_key_ = options_.path + "/sealed-key";
};

TEST_F(KvStoreKeys, TheKeyIsChangedByTwoStarts) {
    ASSERT_EQ(start({1}), "");
    EXPECT_THAT(store_->notes(), IsEmpty());
    write_both();
    const auto before = segments();
    ASSERT_EQ(start({2, 1}), "");
    EXPECT_THAT(store_->notes(), ElementsAre(HasSubstr("the key is sealed anew")));
    EXPECT_TRUE(both_are_there());
    EXPECT_EQ(write(second_), Refusal::none);
    ASSERT_EQ(start({2, 1}), "");
    EXPECT_THAT(store_->notes(), IsEmpty());
    ASSERT_EQ(start({2}), "");
    EXPECT_TRUE(both_are_there());
    EXPECT_TRUE(is_there(second_));
    EXPECT_THAT(start({1}), HasSubstr("sealed by another key"));
    EXPECT_EQ(segments().at(before.begin()->first), before.begin()->second) << "no record is sealed anew";
}

TEST_F(KvStoreKeys, UnderAWrongKeyNothingIsReadAndNothingDeleted) {
    ASSERT_EQ(start({1}), "");
    write_both();
    close();
    const auto before = segments();
    for (int i = 0; i < 2; ++i) {
        EXPECT_THAT(start({3, 4}), HasSubstr(sealed_key_ + ": sealed by another key than those of "
                                                           "memory.disk.key_file; the key that"));
        EXPECT_EQ(segments(), before);
    }
    ASSERT_EQ(start({1}), "");
    EXPECT_TRUE(both_are_there());
}

TEST_F(KvStoreKeys, ADamagedKeyIsAStoreThatIsOffAndWhole) {
    ASSERT_EQ(start({1}), "");
    write_both();
    close();
    const auto before = segments();
    fs::copy_file(sealed_key_, folder_.path() + "/copy");
    for (const uint64_t size : {79, 0, 4096}) {
        fs::resize_file(sealed_key_, size);
        EXPECT_THAT(start({1}), HasSubstr(sealed_key_ + ": damaged; it must be put back from a copy"));
        EXPECT_EQ(fs::file_size(sealed_key_), size);
        EXPECT_EQ(segments(), before);
    }
    fs::copy_file(folder_.path() + "/copy", sealed_key_, fs::copy_options::overwrite_existing);
    ASSERT_EQ(start({1}), "");
    EXPECT_TRUE(both_are_there());
}

TEST_F(KvStoreKeys, WhatIsPlainStaysWhereThereIsAKeyNow) {
    ASSERT_EQ(start({}), "");
    EXPECT_THAT(store_->notes(), IsEmpty());
    write_both();
    ASSERT_EQ(start({1}), "");
    EXPECT_THAT(store_->notes(), ElementsAre(HasSubstr(": what was written without this folder's key (records: 1, "
                                                       "conversations: 1) is not read with")));
    EXPECT_FALSE(both_are_there());
    EXPECT_EQ(store_->index().count(), 1U);
    EXPECT_EQ(write(first_), Refusal::none);
    ASSERT_EQ(start({}), "");
    EXPECT_THAT(store_->notes(), ElementsAre(HasSubstr("what was sealed there is not read without")));
    EXPECT_TRUE(both_are_there());
    EXPECT_EQ(store_->index().count(), 2U);
    ASSERT_EQ(start({1}), "");
    EXPECT_THAT(store_->notes(), IsEmpty()) << "it was said when the key was new";
    EXPECT_TRUE(is_there(first_));
}

/// Also what was sealed by keys that no folder's key is behind.
TEST_F(KvStoreKeys, WhatAnotherKeySealedStaysWhereTheFolderHasNone) {
    ASSERT_EQ(start({1}), "");
    write_both();
    close();
    const auto before = segments();
    fs::rename(sealed_key_, folder_.path() + "/copy");
    ASSERT_EQ(start({1}), "");
    EXPECT_THAT(store_->notes(), ElementsAre(HasSubstr("what was written without this folder's key")));
    EXPECT_FALSE(both_are_there());
    EXPECT_EQ(store_->counts().damaged, 0);
    EXPECT_EQ(segments(), before);
    close();
    fs::rename(folder_.path() + "/copy", sealed_key_);
    ASSERT_EQ(start({1}), "");
    EXPECT_TRUE(both_are_there());
}

}  // namespace
}  // namespace rondo
