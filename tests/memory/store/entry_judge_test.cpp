#include "memory/store/entry_judge.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "memory/store/byte_io.hpp"
#include "memory/store/manifest_keys.hpp"

namespace rondo {
namespace {

class EntryJudgeTest : public ::testing::Test {
protected:
    using Is = JudgedEntry::Is;
    static constexpr uint64_t step = disk_alignment, own_kind = 7;

    EntryJudgeTest() {
        entry_.kind = own_kind;
        StoredRecord& record = entry_.record;
        record.name.fill(std::byte{1});
        record.tenant.fill(std::byte{2});
        record.tokens = 16;
        record.layers = 1;
        record.place = {1, step, 2 * step};
    }
    /// As this version writes it, or as a later one might.
    std::string value(bool is_later = false) const {
        std::vector<std::byte> bytes = write_stored_record(entry_);
        const uint32_t later = ManifestEntry::version_now + 1;
        if (is_later) std::memcpy(bytes.data(), &later, sizeof(later));
        RecordWriter out;
        out.put(std::span(bytes).first(bytes.size() - sizeof(uint64_t)));
        out.put(checksum_of(out.bytes()));
        return std::string(store::text_of(out.bytes()));
    }
    std::string key() const { return store::key_of(store::record_letter, entry_.record.name); }
    JudgedEntry judge(const std::string& value, std::optional<uint64_t> kind = own_kind) const {
        return EntryJudge(kind).judge(key(), value);
    }

    ManifestEntry entry_;
};

TEST_F(EntryJudgeTest, WhatThisProcessWroteIsWhole) {
    const JudgedEntry judged = judge(value());
    EXPECT_EQ(judged.is, Is::whole);
    EXPECT_EQ(judged.entry.record, entry_.record);
    EXPECT_EQ(judge(value(), std::nullopt).is, Is::whole);
}

TEST_F(EntryJudgeTest, OtherKindsAndVersionsAreForeign) {
    EXPECT_EQ(judge(value(), own_kind + 1).is, Is::foreign);
    for (const std::optional<uint64_t> kind : {std::optional<uint64_t>(own_kind), std::optional<uint64_t>()})
        EXPECT_EQ(judge(value(true), kind).is, Is::foreign);
    entry_.record.layers = 1000;
    EXPECT_EQ(judge(value(true)).is, Is::foreign) << "nobody here knows how large its header is";
}

TEST_F(EntryJudgeTest, WhatCannotBeTrueIsBrokenAndSaysWhy) {
    const std::string good = value();
    const StoreName name = entry_.record.name;
    const JudgedEntry nonsense = judge("nonsense");
    EXPECT_EQ(nonsense.is, Is::broken);
    EXPECT_EQ(nonsense.entry.record.name, name);
    EXPECT_STREQ(nonsense.why, "the record's entry in the manifest is damaged");
    entry_.record.name.fill(std::byte{9});
    const JudgedEntry others = judge(good);
    EXPECT_EQ(others.is, Is::broken) << "another record's entry";
    EXPECT_EQ(others.entry.record.name, entry_.record.name) << "of the key";
    entry_.record.layers = 1000;
    for (const uint64_t kind : {own_kind, own_kind + 1}) {
        const JudgedEntry small = judge(value(), kind);
        EXPECT_EQ(small.is, Is::broken);
        EXPECT_STREQ(small.why, "a stored record is smaller than its header must be");
    }
}

TEST_F(EntryJudgeTest, NoRecordBeginsWithinAnother) {
    PlaceJudge judge;
    EXPECT_EQ(judge.why_not({1, step, 2 * step}, 4 * step), nullptr);
    EXPECT_STREQ(judge.why_not({1, 2 * step, step}, 4 * step), "the record lies in another one");
    EXPECT_EQ(judge.why_not({1, 3 * step, step}, 4 * step), nullptr);
    EXPECT_STREQ(judge.why_not({1, 4 * step, step}, 4 * step), "the record does not lie within its segment");
    EXPECT_STREQ(judge.why_not({2, step, step}, 0), "the record does not lie within its segment");
    EXPECT_STREQ(judge.why_not({3, step, 9 * step}, 4 * step), "the record does not lie within its segment");
    EXPECT_EQ(judge.why_not({3, 2 * step, step}, 4 * step), nullptr) << "what does not lie there is in nobody's way";
}

}  // namespace
}  // namespace rondo
