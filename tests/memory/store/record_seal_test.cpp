#include "memory/store/record_seal.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "memory/store/manifest_keys.hpp"

namespace rondo {
namespace {

class RecordSealTest : public ::testing::TestWithParam<bool> {
protected:
    RecordSealTest() {
        if (!GetParam()) return;
        SealKey::Bytes bytes{};
        bytes.fill(std::byte{0x33});
        key_.emplace(bytes);
    }
    const SealKey* key() const { return key_ ? &*key_ : nullptr; }
    static RecordHeader header_here() {
        RecordHeader header;
        header.name.fill(std::byte{1});
        header.before.fill(std::byte{2});
        header.tenant.fill(std::byte{3});
        header.kind.layers = 3;
        header.kind.kv_heads = 1;
        header.kind.head_dim = 8;
        header.tokens_before = 32;
        header.ids = {0x5a5a5a5a, 0x5a5a5a5a, 0x5a5a5a5a, 0x5a5a5a5a};
        header.layers.resize(3);
        header.lay_out();
        return header;
    }
    /// What the manifest says of it.
    static StoredRecord record_here() {
        const RecordHeader header = header_here();
        StoredRecord record;
        record.name = header.name;
        record.before = header.before;
        record.tenant = header.tenant;
        record.group = header.group;
        record.exactness = header.exactness;
        record.tokens_before = header.tokens_before;
        record.tokens = static_cast<int32_t>(header.ids.size());
        record.layers = static_cast<int32_t>(header.layers.size());
        record.place = {5, 3 * disk_alignment, header.record_bytes()};
        return record;
    }
    static AlignedBytes layer_bytes_here() {
        AlignedBytes bytes(disk_alignment);
        for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 7);
        return bytes;
    }
    /// Whether these bytes, a copy of which is opened, are those of that layer of the record.
    bool is_layer(const StoredRecord& record, const RecordHeader& header, size_t layer,
                  std::span<const std::byte> sealed) const {
        const AlignedBytes bytes(sealed.size());
        std::ranges::copy(sealed, bytes.span().begin());
        const size_t half = sealed.size() / 2;
        const MemoryParts parts{bytes.span().first(half), bytes.span().subspan(half)};
        const Status opened = store::open_layer(record, header, layer, key(), parts);
        EXPECT_TRUE(opened || opened.error().code == ErrorCode::corrupt) << opened.error().message;
        return opened && std::ranges::equal(bytes.span(), layer_bytes_here().span());
    }
    Result<RecordHeader> open_copy(const StoredRecord& known, std::span<const std::byte> sealed) const {
        const AlignedBytes bytes(sealed.size());
        std::ranges::copy(sealed, bytes.span().begin());
        return store::open_header(known, key(), bytes.span());
    }

    std::optional<SealKey> key_;
};

INSTANTIATE_TEST_SUITE_P(Bytes, RecordSealTest, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "sealed" : "plain"; });

TEST_P(RecordSealTest, ALayerPassesAsItselfAlone) {
    const StoredRecord record = record_here();
    RecordHeader header = header_here();
    const AlignedBytes bytes = layer_bytes_here();
    const auto proof = store::seal_layer(record, 1, key(), bytes.span());
    ASSERT_TRUE(proof) << proof.error().message;
    for (RecordHeader::Layer& layer : header.layers) layer.proof = *proof;
    EXPECT_EQ(std::ranges::equal(bytes.span(), layer_bytes_here().span()), key() == nullptr) << "sealed in place";
    EXPECT_TRUE(is_layer(record, header, 1, bytes.span()));
    EXPECT_FALSE(is_layer(record, header, 2, bytes.span())) << "another layer";
    StoredRecord other = record;
    other.name.back() ^= std::byte{1};
    if (key() != nullptr) {
        EXPECT_FALSE(is_layer(other, header, 1, bytes.span())) << "another record";
    }
    other = record;
    other.name.front() ^= std::byte{1};
    EXPECT_FALSE(is_layer(other, header, 1, bytes.span())) << "another record";
    other = record;
    other.place.offset += disk_alignment;
    EXPECT_EQ(is_layer(other, header, 1, bytes.span()), key() == nullptr) << "another place has another seal";
    for (const size_t at : {size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
        bytes[at] ^= std::byte{4};
        EXPECT_FALSE(is_layer(record, header, 1, bytes.span())) << at;
        bytes[at] ^= std::byte{4};
    }
    header.layers[1].proof[3] ^= std::byte{1};
    EXPECT_FALSE(is_layer(record, header, 1, bytes.span())) << "another proof";
}

TEST_P(RecordSealTest, AHeaderPassesForItsRecordAlone) {
    const StoredRecord record = record_here();
    const RecordHeader header = header_here();
    const auto sealed = store::seal_header(record, header, key());
    ASSERT_TRUE(sealed) << sealed.error().message;
    EXPECT_EQ(sealed->size(), RecordHeader::header_bytes(header.ids.size(), header.layers.size()));
    const auto ids = std::as_bytes(std::span(header.ids));
    EXPECT_EQ(std::ranges::search(sealed->span(), ids).empty(), key() != nullptr) << "ids are not to be seen";
    const auto opened = open_copy(record, sealed->span());
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ(*opened, header);
    for (size_t at = 0; at < 136 + 4 * header.ids.size(); ++at) {
        (*sealed)[at] ^= std::byte{2};
        EXPECT_FALSE(open_copy(record, sealed->span())) << at;
        (*sealed)[at] ^= std::byte{2};
    }
    for (const auto& change : std::initializer_list<void (*)(StoredRecord&)>{
             [](StoredRecord& known) { known.name[0] ^= std::byte{1}; },
             [](StoredRecord& known) { known.before[0] ^= std::byte{1}; },
             [](StoredRecord& known) { known.tenant[0] ^= std::byte{1}; },
             [](StoredRecord& known) { known.group = LayerGroup::lower; },
             [](StoredRecord& known) { known.exactness = Exactness::sparse; },
             [](StoredRecord& known) { ++known.tokens_before; }, [](StoredRecord& known) { ++known.tokens; },
             [](StoredRecord& known) { ++known.layers; },
             [](StoredRecord& known) { known.place.bytes += disk_alignment; }}) {
        StoredRecord other = record;
        change(other);
        const auto refused = open_copy(other, sealed->span());
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, ErrorCode::corrupt);
        EXPECT_EQ(refused.error().message, store::not_what_was_written().message);
    }
}

TEST(ManifestKeys, ALetterAndANameAreAKey) {
    StoreName name{};
    for (size_t i = 0; i < name.size(); ++i) name[i] = static_cast<std::byte>(200 + i);
    std::set<std::string> keys{store::day_key};
    for (const char letter : {store::record_letter, store::head_letter, store::body_letter, store::refers_letter}) {
        const std::string key = store::key_of(letter, name);
        EXPECT_EQ(key.front(), letter);
        EXPECT_EQ(store::name_in(key), name);
        EXPECT_EQ(store::name_in(key.substr(1)), StoreName{}) << "no name is as short";
        EXPECT_EQ(store::name_in(key + 'x'), StoreName{}) << "nor as long";
        EXPECT_TRUE(keys.insert(key).second);
    }
}

}  // namespace
}  // namespace rondo
