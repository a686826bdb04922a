#include "memory/store/store_survey.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <utility>

#include "memory/store/manifest_keys.hpp"
#include "memory/store/shelf.hpp"
#include "memory/store/stored_record.hpp"
#include "tests/flip_bit.hpp"
#include "tests/memory/store/kv_store_fixture.hpp"

namespace rondo {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;
using ::testing::SizeIs;
using Refusal = KvStore::Refusal;
using Thing = StoreSurvey::Thing;

class StoreSurveyTest : public testing::StoreTest, public ::testing::WithParamInterface<bool> {
protected:
    StoreSurveyTest() {
        if (GetParam()) options_.keys.emplace(testing::some_root());
        open();
    }
    /// Of the store, which is closed for it.
    StoreSurvey survey(bool verify, const std::optional<KeyFile>& keys) {
        close();
        auto found = survey_store({options_.path, verify, keys});
        EXPECT_TRUE(found) << found.error().message;
        return found ? std::move(*found) : StoreSurvey();
    }
    StoreSurvey survey(bool verify = true) { return survey(verify, options_.keys); }
    std::unique_ptr<Manifest> manifest() {
        close();
        return std::move(Manifest::open(options_.path + "/manifest").value().manifest);
    }
    /// Times of change and contents of everything in the folder.
    std::map<std::string, std::pair<fs::file_time_type, std::string>> everything() const {
        std::map<std::string, std::pair<fs::file_time_type, std::string>> found;
        for (const auto& entry : fs::recursive_directory_iterator(options_.path)) {
            std::ostringstream bytes;
            if (entry.is_regular_file()) bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
            found[entry.path()] = {entry.last_write_time(), bytes.str()};
        }
        return found;
    }
};

INSTANTIATE_TEST_SUITE_P(Bytes, StoreSurveyTest, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "sealed" : "plain"; });

TEST_P(StoreSurveyTest, SaysWhatIsThereAndChangesNothing) {
    const Round first = round("a", nullptr, 0, 40), second = round("a", &first, 40, 17);
    for (const Round& one : {first, second, round("b", nullptr, 0, 20)}) ASSERT_EQ(write(one), Refusal::none);
    const StoreName a = store_->tenant_name("a"), b = store_->tenant_name("b");
    uint64_t bytes = 0;
    store_->index().each([&](const StoredRecord& record) { bytes += record.place.bytes; });
    close();
    const auto before = everything();
    for (const bool verify : {false, true}) {
        const StoreSurvey found = survey(verify);
        EXPECT_EQ(found.all.records, 3);
        EXPECT_EQ(found.all.bytes, bytes);
        EXPECT_EQ(found.all.tokens, 77);
        ASSERT_THAT(found.by_kind, SizeIs(1));
        EXPECT_EQ(found.by_kind.at(checksum_of_kind(options_.kind)).bytes, bytes);
        ASSERT_THAT(found.by_tenant, SizeIs(2));
        EXPECT_EQ(found.by_tenant.at(a).tokens, 57);
        EXPECT_EQ(found.by_tenant.at(b).records, 1);
        ASSERT_THAT(found.segments, SizeIs(1));
        EXPECT_EQ(found.segments[0].records, 3);
        EXPECT_EQ(found.segments[0].used_bytes, bytes + disk_alignment);
        EXPECT_EQ(found.segments[0].file_bytes, fs::file_size(segment_files().at(0)));
        EXPECT_EQ(found.segments[0].sealed, GetParam());
        EXPECT_EQ(found.sealed, GetParam() ? 3 : 0);
        EXPECT_EQ(found.proved, verify ? 3 : 0);
        EXPECT_THAT(found.damaged, SizeIs(0));
    }
    EXPECT_EQ(everything(), before);
    open();
    EXPECT_TRUE(is_there(second));
}

TEST_P(StoreSurveyTest, WhatIsSealedIsProvedUnderItsKeyAlone) {
    ASSERT_EQ(write(round("a", nullptr, 0, 40)), Refusal::none);
    const StoreSurvey without = survey(true, {});
    EXPECT_EQ(without.sealed, GetParam() ? 1 : 0);
    EXPECT_EQ(without.proved, GetParam() ? 0 : 1);
    EXPECT_THAT(without.damaged, SizeIs(0));
    KeyFile other(SealKey::Bytes{});
    const auto refused = survey_store({options_.path, true, other});
    ASSERT_EQ(refused.is_ok(), !GetParam()) << "what is plain needs no key";
    if (GetParam()) {
        EXPECT_THAT(refused.error().message, HasSubstr("/sealed-key: sealed by another key"));
    }
    other.add(testing::some_root());
    EXPECT_EQ(survey(true, other).proved, 1);
    open();
}

TEST_P(StoreSurveyTest, ItIsSaidHowFarItIs) {
    for (int i = 0; i < 4; ++i) ASSERT_EQ(write(round("a", nullptr, 1000 * i, 40)), Refusal::none);
    close();
    std::vector<double> shares;
    ASSERT_TRUE(
        survey_store({options_.path, true, options_.keys, [&shares](double share) { shares.push_back(share); }}));
    EXPECT_THAT(shares, ::testing::ElementsAre(0.25, 0.5, 0.75, 1.0));
}

/// Whatever byte changes, wherever a file ends: it finds those damaged that the store does not find or read.
TEST_P(StoreSurveyTest, FindsTheSameDamageAsTheStore) {
    std::mt19937_64 random(5);
    std::vector<Round> rounds;
    std::vector<StoreName> names;
    for (int i = 0; i < 6; ++i) {
        rounds.push_back(round("t", nullptr, 1000 * i, 30 + i));
        names.push_back(name_of(rounds.back()));
    }
    size_t seen = 0;
    for (int turn = 0; turn < 40; ++turn) {
        for (const Round& one : rounds) write(one);
        close();
        const auto files = segment_files();
        const fs::path file = files[random() % files.size()];
        const uint64_t at = random() % fs::file_size(file);
        if (turn % 4 == 0)
            fs::resize_file(file, at);
        else
            testing::flip_bit(file, at, random());
        std::set<StoreName> damaged;
        for (const StoreSurvey::Damage& one : survey().damaged) {
            EXPECT_EQ(one.thing, Thing::record);
            EXPECT_NE(one.why, "");
            damaged.insert(one.name);
        }
        seen += damaged.size();
        open();
        for (size_t i = 0; i < rounds.size(); ++i)
            EXPECT_EQ(check(rounds[i]).is_ok(), !damaged.contains(names[i])) << turn;
    }
    EXPECT_GT(seen, 12U);
}

TEST_P(StoreSurveyTest, DamageIsNamedWithWhatIsWrong) {
    const Round one = round("a", nullptr, 0, 40);
    ASSERT_EQ(write(one), Refusal::none);
    const StoreName name = name_of(one);
    const RecordPlace place = store_->index().find(name)->place;
    const fs::path file = options_.path + "/" + Segments::name_of(place.segment);
    const auto why = [&](bool verify = true) {
        const StoreSurvey found = survey(verify);
        if (found.damaged.size() != 1 || found.damaged[0].name != name) return std::string("none");
        return found.damaged[0].why;
    };
    EXPECT_EQ(why(), "none");
    const uint64_t last = place.offset + place.bytes - 1;
    testing::flip_bit(file, last);
    EXPECT_THAT(why(), HasSubstr("layer 2: "));
    EXPECT_EQ(why(false), "none") << "nobody read it";
    testing::flip_bit(file, last);
    testing::flip_bit(file, place.offset + 40);
    EXPECT_NE(why(), "none");
    testing::flip_bit(file, place.offset + 40);
    testing::flip_bit(file, 30);
    EXPECT_EQ(why(false), GetParam() ? "the header of the record's segment is damaged" : "none")
        << "what is not sealed is read without it";
    testing::flip_bit(file, 30);
    EXPECT_EQ(why(), "none") << "it is whole again";
    fs::resize_file(file, last);
    EXPECT_EQ(why(false), "the record does not lie within its segment");
    fs::remove(file);
    EXPECT_EQ(why(false), "the record's segment is missing");
}

TEST_P(StoreSurveyTest, EntriesThatAreDamagedAreNamedAndCounted) {
    const Round one = round("a", nullptr, 0, 40), other = round("b", nullptr, 0, 40);
    for (const Round& round : {one, other}) ASSERT_EQ(write(round), Refusal::none);
    const StoreName name = name_of(one);
    {
        const auto written = manifest();
        Manifest::Changes changes;
        changes.put(store::key_of(store::record_letter, name), "nonsense");
        ASSERT_TRUE(written->commit(std::move(changes)));
    }
    const StoreSurvey found = survey();
    EXPECT_EQ(found.all.records, 1);
    ASSERT_THAT(found.damaged, SizeIs(1));
    EXPECT_EQ(found.damaged[0].name, name);
    EXPECT_THAT(found.damaged[0].why, HasSubstr("entry in the manifest"));
    open();
    EXPECT_EQ(store_->counts().damaged, 1) << "the start counts as the survey does";
    EXPECT_EQ(store_->index().count(), 1U);
}

/// As the next start judges, which reads no record either.
TEST_P(StoreSurveyTest, AnEntryWithoutRoomForItsHeaderIsDamaged) {
    const Round first = round("a", nullptr, 0, 40), second = round("a", &first, 40, 40);
    for (const Round& one : {first, second}) ASSERT_EQ(write(one), Refusal::none);
    const StoreName name = name_of(second);
    {
        const auto written = manifest();
        const std::string key = store::key_of(store::record_letter, name);
        const auto value = written->get(key);
        ASSERT_TRUE(value);
        auto entry = read_stored_record(std::as_bytes(std::span(*value)));
        ASSERT_TRUE(entry);
        entry->record.layers = 100'000;
        Manifest::Changes changes;
        changes.put(key, store::text_of(write_stored_record(*entry)));
        ASSERT_TRUE(written->commit(std::move(changes)));
    }
    for (const bool verify : {false, true}) {
        const StoreSurvey found = survey(verify);
        EXPECT_EQ(found.all.records, 1);
        ASSERT_THAT(found.damaged, SizeIs(1));
        EXPECT_EQ(found.damaged[0].name, name);
        EXPECT_EQ(found.damaged[0].why, "a stored record is smaller than its header must be");
    }
    open();
    EXPECT_EQ(store_->counts().damaged, 1);
    EXPECT_TRUE(is_there(first));
    EXPECT_FALSE(is_there(second));
}

TEST_P(StoreSurveyTest, ConversationsAreCountedAndProved) {
    const auto bytes = std::as_bytes(std::span(std::string_view("some text")));
    std::vector<StoreName> names;
    const std::optional<StoreKeys> keys = store_->keys();
    {
        const auto written = manifest();
        Shelf shelf(*written, keys);
        for (const char* id : {"a", "b"}) {
            names.push_back(shelf.name("t", id));
            ASSERT_TRUE(shelf.put(names.back(), StoreName{}, bytes, bytes, {}));
        }
    }
    StoreSurvey found = survey();
    EXPECT_EQ(found.conversations, 2);
    EXPECT_EQ(found.conversations_sealed, GetParam() ? 2 : 0);
    EXPECT_EQ(found.proved, 2);
    EXPECT_EQ(survey(true, {}).proved, GetParam() ? 0 : 2);
    const auto change_body = [&](const std::function<void(std::string&)>& change) {
        const auto written = manifest();
        const std::string key = store::key_of(store::body_letter, names[1]);
        std::string value = written->get(key).value();
        change(value);
        Manifest::Changes changes;
        changes.put(key, value);
        ASSERT_TRUE(written->commit(std::move(changes)));
    };
    change_body([](std::string& value) { value.front() = 3; });
    found = survey();
    EXPECT_EQ(found.proved, 1);
    EXPECT_THAT(found.damaged, SizeIs(0)) << "a newer version wrote it";
    change_body([](std::string& value) {
        value.front() = GetParam() ? 2 : 1;
        value.back() = static_cast<char>(value.back() ^ 1);
    });
    found = survey();
    EXPECT_EQ(found.proved, 1);
    ASSERT_THAT(found.damaged, SizeIs(1));
    EXPECT_EQ(found.damaged[0].thing, Thing::conversation);
    EXPECT_EQ(found.damaged[0].name, names[1]);
}

TEST_P(StoreSurveyTest, WhereNoStoreIsNoneIsMade) {
    const auto missing = survey_store({folder_.path() + "/none"});
    ASSERT_FALSE(missing);
    EXPECT_THAT(missing.error().message, HasSubstr("/none: No such file"));
    EXPECT_FALSE(fs::exists(folder_.path() + "/none"));
    const auto empty = survey_store({folder_.path()});
    ASSERT_FALSE(empty);
    EXPECT_EQ(empty.error().code, ErrorCode::not_found);
    EXPECT_THAT(empty.error().message, HasSubstr("there is no store's manifest"));
    EXPECT_FALSE(fs::exists(folder_.path() + "/manifest"));
}

TEST_P(StoreSurveyTest, AnOpenStoreIsLeftAlone) {
    const auto found = survey_store({options_.path});
    ASSERT_FALSE(found);
    EXPECT_THAT(found.error().message, HasSubstr("another process has this store open"));
}

}  // namespace
}  // namespace rondo
