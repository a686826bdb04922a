#include "memory/store/shelf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <set>

#include "memory/store/manifest_keys.hpp"
#include "memory/store/stored_record.hpp"
#include "tests/any_file_has.hpp"
#include "tests/memory/store/random_numbers.hpp"
#include "tests/memory/store/store_fixture.hpp"

namespace rondo {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;

constexpr char letters[] = {store::head_letter, store::body_letter, store::refers_letter};

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

SealKey::Bytes root_of(int value) {
    SealKey::Bytes root{};
    root.fill(static_cast<std::byte>(value));
    return root;
}

class ShelfTest : public ::testing::TestWithParam<bool> {
protected:
    ShelfTest() {
        if (GetParam()) keys_.emplace(root_of(1));
        open();
    }
    void open() {
        shelf_.reset();
        manifest_.reset();
        auto opened = Manifest::open(folder_.path() + "/manifest");
        ASSERT_TRUE(opened) << opened.error().message;
        manifest_ = std::move(opened->manifest);
        shelf_.emplace(*manifest_, keys_);
    }
    StoreName tenant(std::string_view text) const { return store_name(keys_, "tenant", bytes_of(text)); }
    StoreName put(std::string_view id, std::string_view head, std::string_view body,
                  std::vector<StoreName> records = {}) {
        const StoreName name = shelf_->name("t", id);
        const Status status = shelf_->put(name, tenant("t"), bytes_of(head), bytes_of(body), records);
        EXPECT_TRUE(status) << status.error().message;
        return name;
    }
    static std::string text(const Result<std::vector<std::byte>>& read) {
        return read ? std::string(store::text_of(*read)) : "error: " + read.error().message;
    }
    static ErrorCode code(const auto& read) { return read ? ErrorCode{-1} : read.error().code; }
    static std::map<StoreName, std::string> heads(Shelf& shelf) {
        std::map<StoreName, std::string> found;
        EXPECT_TRUE(shelf.each_head([&](const StoreName& name, std::span<const std::byte> head) {
            found[name] = store::text_of(head);
            return Status::ok();
        }));
        return found;
    }
    void set(char letter, const StoreName& name, std::string_view value) {
        Manifest::Changes changes;
        changes.put(store::key_of(letter, name), value);
        ASSERT_TRUE(manifest_->commit(std::move(changes)));
    }
    std::string value(char letter, const StoreName& name) const {
        return manifest_->get(store::key_of(letter, name)).value();
    }
    /// What reading the entry of that letter says; a head that is not listed is corrupt.
    ErrorCode read(char letter, const StoreName& name) {
        if (letter == store::refers_letter) return code(shelf_->records(name));
        if (letter == store::body_letter) return code(shelf_->body(name));
        EXPECT_EQ(heads(*shelf_).contains(name), shelf_->head(name).is_ok());
        return code(shelf_->head(name));
    }
    bool any_file_has(std::string_view text) const { return testing::any_file_has(folder_.path(), text); }

    testing::Folder folder_;
    std::optional<StoreKeys> keys_;
    std::unique_ptr<Manifest> manifest_;
    std::optional<Shelf> shelf_;
};

INSTANTIATE_TEST_SUITE_P(Bytes, ShelfTest, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "sealed" : "plain"; });

TEST_P(ShelfTest, WhatIsPutIsReadAlsoAfterAStart) {
    const StoreName one = tenant("record one"), two = tenant("record two");
    const std::string long_body(3'000'000, 'b');
    const StoreName a = put("a", "head of a", long_body, {one, two}), b = put("b", "", "");
    for (int start = 0; start < 2; ++start, open()) {
        EXPECT_EQ(text(shelf_->head(a)), "head of a");
        EXPECT_EQ(text(shelf_->body(a)), long_body);
        EXPECT_THAT(shelf_->records(a).value(), ElementsAre(one, two));
        EXPECT_EQ(text(shelf_->body(b)), "");
        EXPECT_THAT(shelf_->records(b).value(), ElementsAre());
        EXPECT_EQ(heads(*shelf_), (std::map<StoreName, std::string>{{a, "head of a"}, {b, ""}}));
        EXPECT_EQ(shelf_->damaged(), 0);
    }
    EXPECT_EQ(put("a", "newer", "body"), a);
    EXPECT_EQ(text(shelf_->body(a)), "body");
    EXPECT_THAT(shelf_->records(a).value(), ElementsAre()) << "it is replaced whole";
}

TEST_P(ShelfTest, NamesDifferByTenantAndId) {
    EXPECT_EQ(shelf_->name("t", "a"), shelf_->name("t", "a"));
    EXPECT_NE(shelf_->name("t", "a"), shelf_->name("t", "b"));
    EXPECT_NE(shelf_->name("ab", "c"), shelf_->name("a", "bc"));
    EXPECT_NE(shelf_->name("", "a"), shelf_->name("a", ""));
    EXPECT_NE(shelf_->name("a", ""), tenant("a"));
}

TEST_P(ShelfTest, WhatIsRemovedIsGoneWhole) {
    const StoreName a = put("a", "canary-head", "canary-body", {tenant("r")}), b = put("b", "stays", "stays");
    ASSERT_TRUE(shelf_->remove(a));
    EXPECT_TRUE(shelf_->remove(a)) << "it is gone";
    EXPECT_EQ(code(shelf_->head(a)), ErrorCode::not_found);
    EXPECT_EQ(code(shelf_->body(a)), ErrorCode::not_found);
    EXPECT_EQ(code(shelf_->records(a)), ErrorCode::not_found);
    EXPECT_EQ(heads(*shelf_), (std::map<StoreName, std::string>{{b, "stays"}}));
    ASSERT_TRUE(manifest_->forget_removed());
    EXPECT_FALSE(any_file_has("canary"));
    int left = 0;
    ASSERT_TRUE(manifest_->each("", [&](std::string_view, std::string_view) { return ++left, Status::ok(); }));
    EXPECT_EQ(left, 3);
    EXPECT_EQ(shelf_->damaged(), 0);
}

TEST_P(ShelfTest, WithKeysNoTextIsInAnyFile) {
    const std::string id = "canary-id", body = "canary-body " + std::string(100, 'x');
    const StoreName name = shelf_->name("canary-tenant", id);
    ASSERT_TRUE(shelf_->put(name, tenant("canary-tenant"), bytes_of("canary-head"), bytes_of(body), {}));
    EXPECT_EQ(any_file_has("canary"), !GetParam());
    open();
    EXPECT_TRUE(!GetParam() || !any_file_has("canary")) << "after a start, when it is in another kind of file";
    ASSERT_TRUE(manifest_->forget_removed());
    EXPECT_TRUE(!GetParam() || !any_file_has("canary"));
    EXPECT_EQ(text(shelf_->body(name)), body);
}

TEST_P(ShelfTest, EqualTextsDifferOnceTheyAreSealed) {
    const StoreName a = put("a", "same", "same");
    const std::string before = value(store::body_letter, a);
    put("a", "same", "same");
    EXPECT_EQ(value(store::body_letter, a) != before, GetParam());
    if (GetParam()) {
        EXPECT_NE(value(store::head_letter, a).substr(17, 32), value(store::body_letter, a).substr(17, 32));
    }
}

/// A value passes at its own place alone.
TEST_P(ShelfTest, SwappedValuesAreRefused) {
    const StoreName a = put("a", "of a", "of a", {tenant("r")}), b = put("b", "of b", "of b", {tenant("r")});
    std::map<char, std::string> of_a;
    for (const char letter : letters) of_a[letter] = value(letter, a);
    for (const char from : letters) {
        for (const char to : letters) {
            set(to, b, of_a[from]);
            EXPECT_EQ(read(to, b), ErrorCode::corrupt) << from << to;
            if (from == to) continue;
            set(to, a, of_a[from]);
            EXPECT_EQ(read(to, a), ErrorCode::corrupt) << from << to;
            set(to, a, of_a[to]);
        }
    }
    EXPECT_GT(shelf_->damaged(), 0);
    EXPECT_EQ(text(shelf_->body(a)), "of a");
    EXPECT_EQ(heads(*shelf_), (std::map<StoreName, std::string>{{a, "of a"}}));
}

/// Any byte may change, and a value may end anywhere: it is corrupt then, and nothing else is.
TEST_P(ShelfTest, EveryDamageIsSeenAndNoneIsFatal) {
    const StoreName a = put("a", "head", "body", {tenant("r")}), b = put("b", "other", "other");
    for (const char letter : letters) {
        const std::string whole = value(letter, a);
        for (size_t i = 0; i < whole.size(); ++i) {
            std::string changed = whole;
            changed[i] = static_cast<char>(i == 0 ? 0 : changed[i] ^ (1 << (i % 8)));  // more is a newer version's
            for (const std::string& wrong : {changed, whole.substr(0, i)}) {
                const int64_t before = shelf_->damaged();
                set(letter, a, wrong);
                EXPECT_EQ(read(letter, a), ErrorCode::corrupt) << letter << i;
                EXPECT_GT(shelf_->damaged(), before);
                EXPECT_EQ(value(letter, a), wrong) << "reading deletes nothing";
            }
        }
        set(letter, a, whole);
        EXPECT_EQ(read(letter, a), ErrorCode{-1});
    }
    EXPECT_EQ(heads(*shelf_), (std::map<StoreName, std::string>{{a, "head"}, {b, "other"}}));
}

/// Each part of a conversation. What follows the first byte is anything.
TEST_P(ShelfTest, WhatANewerVersionWroteIsNotDamaged) {
    const StoreName a = put("a", "head", "body", {tenant("r")}), b = put("b", "other", "other");
    for (const char letter : letters) {
        const std::string whole = value(letter, a);
        for (const std::string newer : {"\3", "\3 anything", "\377"}) {
            set(letter, a, newer);
            EXPECT_EQ(read(letter, a), ErrorCode::unsupported);
            EXPECT_EQ(shelf_->headless()->newer, std::set<StoreName>{a});
            EXPECT_EQ(value(letter, a), newer);
        }
        set(letter, a, whole);
    }
    EXPECT_EQ(shelf_->damaged(), 0);
    set(store::body_letter, a, "\3");
    for (const StoreName& name : {a, b}) {
        Manifest::Changes changes;
        changes.remove(store::key_of(store::head_letter, name));
        ASSERT_TRUE(manifest_->commit(std::move(changes)));
    }
    EXPECT_THAT(shelf_->headless()->names, ElementsAre(b)) << "a newer version may keep heads elsewhere";
}

/// Another key, a key where there was none, and none where there was one.
TEST_P(ShelfTest, WhatAnotherKeySealedIsLeftAlone) {
    const StoreName a = put("a", "head", "body", {tenant("r")});
    EXPECT_EQ(Shelf::is_sealed(value(store::head_letter, a)), GetParam());
    const std::optional<StoreKeys> others[] = {StoreKeys(root_of(2)), GetParam() ? std::nullopt : keys_};
    for (const auto& other : others) {
        if (other.has_value() == keys_.has_value() && !GetParam()) continue;
        Shelf shelf(*manifest_, other);
        EXPECT_EQ(code(shelf.body(shelf.name("t", "a"))), ErrorCode::not_found);
        EXPECT_EQ(shelf.damaged(), 0);
        EXPECT_TRUE(heads(shelf).empty());
        EXPECT_EQ(code(shelf.body(a)), ErrorCode::corrupt);
        EXPECT_EQ(code(shelf.records(a)), ErrorCode::corrupt);
        EXPECT_EQ(shelf.damaged(), 3);
    }
    EXPECT_EQ(text(shelf_->body(a)), "body");
    EXPECT_EQ(heads(*shelf_).size(), 1U);
}

TEST_P(ShelfTest, TooMuchIsRefused) {
    const StoreName a = put("a", "head", "body");
    const std::vector<std::byte> large(Shelf::head_bytes_max + 1);
    const Status refused = shelf_->put(a, tenant("t"), large, {}, {});
    EXPECT_EQ(code(refused), ErrorCode::out_of_range);
    EXPECT_EQ(refused.error().message, "a conversation's head has 65537 bytes, must be at most 65536");
    EXPECT_EQ(text(shelf_->head(a)), "head");
}

/// Whoever puts several conversations commits the others.
TEST_P(ShelfTest, ChangesGetAllOfAConversationOrNothing) {
    Manifest::Changes changes;
    testing::random_numbers_left = 1;
    const Status put =
        shelf_->put(changes, shelf_->name("t", "a"), tenant("t"), bytes_of("head"), bytes_of("body"), {});
    testing::random_numbers_left = -1;
    EXPECT_EQ(put.is_ok(), !GetParam()) << "what is sealed needs one for each value";
    ASSERT_TRUE(manifest_->commit(std::move(changes)));
    EXPECT_EQ(heads(*shelf_).size(), put ? 1U : 0U);
}

TEST_P(ShelfTest, ARefusedHeadEndsTheListing) {
    put("a", "", "");
    put("b", "", "");
    int seen = 0;
    const Status listed = shelf_->each_head([&](const StoreName&, std::span<const std::byte>) {
        ++seen;
        return Status(make_error(ErrorCode::cancelled, "enough"));
    });
    EXPECT_EQ(code(listed), ErrorCode::cancelled);
    EXPECT_EQ(seen, 1);
}

/// The time of listing is that of the heads: bodies, 40 MB of them here, are not read.
TEST_P(ShelfTest, TenThousandHeadsAreListedAtOnce) {
    const std::string body(4000, 'b'), head(200, 'h');
    for (int i = 0; i < 10'000;) {
        Manifest::Changes changes;
        for (const int end = i + 1000; i < end; ++i)
            ASSERT_TRUE(shelf_->put(changes, shelf_->name("t", std::to_string(i)), tenant("t"), bytes_of(head),
                                    bytes_of(body), {}));
        ASSERT_TRUE(manifest_->commit(std::move(changes)));
    }
    open();
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(heads(*shelf_).size(), 10'000U);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
    EXPECT_EQ(shelf_->damaged(), 0);
}

}  // namespace
}  // namespace rondo
