#include "model/files/gguf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstring>

#include "model/files/gguf_names.hpp"
#include "model/files/mapped_file.hpp"
#include "tests/model/model_bytes.hpp"

namespace rondo {
namespace {

using testing::as_bytes;
using ::testing::ElementsAre;
using testing::GgufBytes;
using ::testing::HasSubstr;

std::string gguf_error(const std::string& file) {
    const auto gguf = GgufFile::parse(as_bytes(file), "x");
    return gguf ? "none" : gguf.error().message;
}

GgufBytes small_file() {
    GgufBytes out;
    out.string("general.architecture", "llama").u32("a.u32", 7).f32("a.f32", 0.5F).boolean("a.bool", true);
    out.strings("a.strings", {"x", "", "yz"}).numbers<int32_t>("a.i32s", 5, {-1, 2});
    out.tensor("token_embd.weight", {32, 2}, 8, std::string(68, 'q'));
    out.tensor("blk.0.attn_norm.weight", {3}, 0, std::string(12, 'n'));
    return out;
}

TEST(Gguf, ReadsMetadataAndTensors) {
    const std::string file = small_file().file();
    const auto gguf = GgufFile::parse(as_bytes(file), "x");
    ASSERT_TRUE(gguf) << gguf.error().message;
    EXPECT_EQ(*gguf->text("general.architecture", 10, ""), "llama");
    EXPECT_EQ(*gguf->integer("a.u32", 0, 10), 7);
    EXPECT_EQ(*gguf->real("a.f32", 0, 1), 0.5);
    EXPECT_TRUE(*gguf->boolean("a.bool", false));
    EXPECT_THAT(*gguf->texts("a.strings", 3), ElementsAre("x", "", "yz"));
    EXPECT_THAT(*gguf->integers("a.i32s", 3), ElementsAre(-1, 2));
    const FileTensor* embedding = gguf->find_tensor("model.embed_tokens.weight");
    ASSERT_NE(embedding, nullptr);
    EXPECT_EQ(embedding->dtype, DType::q8_0);
    EXPECT_THAT(embedding->shape, ElementsAre(2, 32));
    EXPECT_EQ(embedding->bytes, 68U);
    EXPECT_EQ(embedding->data[67], std::byte{'q'});
    const FileTensor* norm = gguf->find_tensor("model.layers.0.input_layernorm.weight");
    ASSERT_NE(norm, nullptr);
    EXPECT_EQ(norm->data[11], std::byte{'n'});
}

TEST(Gguf, WrongTypesAndRangesOfMetadataAreNamed) {
    const std::string file = small_file().file();
    const auto gguf = GgufFile::parse(as_bytes(file), "x");
    ASSERT_TRUE(gguf);
    EXPECT_EQ(gguf->integer("a.u32", 8, 10).error().message, "x: metadata 'a.u32' must be an integer from 8 to 10");
    EXPECT_EQ(gguf->integer("a.none", 8, 10).error().message,
              "x: metadata 'a.none' is missing; it must be an integer from 8 to 10");
    EXPECT_EQ(*gguf->integer("a.none", 8, 10, -1), -1);
    EXPECT_FALSE(gguf->integer("a.f32", 0, 10));
    EXPECT_FALSE(gguf->real("a.u32", 0, 10));
    EXPECT_FALSE(gguf->boolean("a.u32", false));
    EXPECT_FALSE(gguf->text("general.architecture", 4, ""));
    EXPECT_FALSE(gguf->texts("a.i32s", 9));
    EXPECT_FALSE(gguf->texts("a.strings", 2));
    EXPECT_FALSE(gguf->integers("a.strings", 9));
    EXPECT_FALSE(gguf->reals("a.i32s", 9));
    EXPECT_TRUE(gguf->reals("a.none", 9)->empty());
}

TEST(Gguf, TruncationAtEveryByteIsAnErrorUpToTheLastTensorsEnd) {
    const GgufBytes bytes = small_file();
    const std::string file = bytes.file();
    const size_t data_begin = (bytes.head().size() + 31) / 32 * 32;
    const size_t needed = data_begin + 96 + 12;  // 68 bytes padded to 96, then 12; the last padding may be missing
    for (size_t size = 0; size < needed; ++size) {
        const std::string message = gguf_error(file.substr(0, size));
        EXPECT_NE(message, "none") << "cut at " << size;
        EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
    EXPECT_EQ(gguf_error(file.substr(0, needed)), "none");
}

TEST(Gguf, EveryFlippedHeaderByteIsRefusedOrStaysInsideTheFile) {
    const std::string good = small_file().file();
    for (size_t at = 0; at < small_file().head().size(); ++at) {
        for (const int flip : {0x01, 0x10, 0x80, 0xFF}) {
            std::string file = good;
            file[at] = static_cast<char>(file[at] ^ flip);
            const auto gguf = GgufFile::parse(as_bytes(file), "x");
            if (!gguf) continue;
            const MappedFile whole = MappedFile::over(as_bytes(file));
            for (const FileTensor& tensor : gguf->tensors()) EXPECT_TRUE(whole.contains({tensor.data, tensor.bytes}));
        }
    }
}

TEST(Gguf, VersionsAndByteOrdersAreNamed) {
    EXPECT_EQ(gguf_error(GgufBytes(2).file()), "none");
    EXPECT_THAT(gguf_error(GgufBytes(1).file()),
                HasSubstr("GGUF version 1 is not supported; 2 and 3 are, which newer converters write"));
    EXPECT_THAT(gguf_error(GgufBytes(4).file()), HasSubstr("version 4"));
    EXPECT_THAT(gguf_error(GgufBytes(0x03000000).file()),
                HasSubstr("a big-endian GGUF file; take the little-endian one of the same model"));
    EXPECT_THAT(gguf_error("GGML" + std::string(40, '\0')), HasSubstr("not a GGUF file"));
}

TEST(Gguf, DeclaredCountsAreNotBelieved) {
    rusage before{}, after{};
    ::getrusage(RUSAGE_SELF, &before);
    EXPECT_THAT(gguf_error(GgufBytes().lie_about_counts(1'000'000'000, 0).file()),
                HasSubstr("declares 1000000000 tensors"));
    EXPECT_THAT(gguf_error(GgufBytes().lie_about_counts(0, UINT64_MAX).file()),
                HasSubstr("metadata entries, must be at most "));
    EXPECT_THAT(gguf_error(GgufBytes().lie_about_counts(100'000, 0).file()), HasSubstr("ends inside its header"));
    for (const uint64_t count : {uint64_t{1} << 32, uint64_t{1} << 61, uint64_t{1} << 62, UINT64_MAX}) {
        for (const uint32_t element : {0U, 5U, 8U, 10U}) {
            EXPECT_THAT(gguf_error(GgufBytes().raw("a", 9, GgufBytes::array_head(element, count)).file()),
                        HasSubstr("ends inside"));
        }
        std::string length;
        testing::append(length, count);
        EXPECT_THAT(gguf_error(GgufBytes().raw("a", 8, length).file()), HasSubstr("ends inside"));
    }
    ::getrusage(RUSAGE_SELF, &after);
    EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 8 << 10) << "KiB of memory for files of a few bytes";
}

/// A sparse file of a few kilobytes can say that it has a token of a gigabyte, which would be copied.
TEST(Gguf, StringsOfMoreThanAnyVocabularyAreRefused) {
    constexpr size_t bytes = size_t{1} << 30;
    const auto of_strings = [&](const std::vector<uint64_t>& lengths) {
        const std::string payload = GgufBytes::array_head(8, lengths.size());
        const std::string head = GgufBytes().raw("tokenizer.ggml.tokens", 9, payload).head();
        void* const memory =
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        EXPECT_NE(memory, MAP_FAILED);
        auto* at = static_cast<char*>(memory);
        std::memcpy(at, head.data(), head.size());
        at += head.size();
        for (const uint64_t length : lengths) {
            std::memcpy(at, &length, sizeof(length));
            at += sizeof(length) + length;
        }
        const auto gguf = GgufFile::parse({static_cast<const std::byte*>(memory), bytes}, "x");
        const std::string message = gguf ? "none" : gguf.error().message;
        ::munmap(memory, bytes);
        return message;
    };
    const std::string words =
        "x: metadata 'tokenizer.ggml.tokens' is an array of strings of more than 536870912 bytes, must be at most "
        "536870912";
    EXPECT_EQ(of_strings({bytes / 2 - 8}), "none");
    EXPECT_EQ(of_strings({bytes / 2 - 7}), words);
    EXPECT_EQ(of_strings({3, bytes / 4, bytes / 4}), words);
}

TEST(Gguf, MalformedMetadataIsRefused) {
    EXPECT_THAT(gguf_error(GgufBytes().u32("a", 1).u32("a", 1).file()), HasSubstr("metadata key 'a' is there twice"));
    EXPECT_THAT(gguf_error(GgufBytes().raw("a", 13, "").file()), HasSubstr("unknown type 13"));
    EXPECT_THAT(gguf_error(GgufBytes().raw("a", 9, GgufBytes::array_head(9, 0)).file()), HasSubstr("array of type 9"));
    EXPECT_THAT(gguf_error(GgufBytes().u32("", 1).file()), HasSubstr("key of a wrong length"));
    EXPECT_THAT(gguf_error(GgufBytes().u32(std::string(2000, 'k'), 1).file()), HasSubstr("key of a wrong length"));
    for (const uint32_t alignment : {0U, 7U, 48U, 1U << 20}) {
        EXPECT_THAT(gguf_error(GgufBytes().u32("general.alignment", alignment).file()), HasSubstr("general.alignment"));
    }
    const std::string two = GgufBytes().number("a", 7, uint8_t{2}).file();
    EXPECT_FALSE(GgufFile::parse(as_bytes(two), "x")->boolean("a", false));
}

TEST(Gguf, AlignmentOfTheFileIsUsed) {
    GgufBytes bytes;
    bytes.u32("general.alignment", 8).tensor_at("a", {1}, 0, 0).tensor_at("b", {1}, 0, 8);
    std::string file = bytes.head();
    file.resize((file.size() + 7) / 8 * 8);
    file += "aaaa....bbbb";
    const auto gguf = GgufFile::parse(as_bytes(file), "x");
    ASSERT_TRUE(gguf) << gguf.error().message;
    EXPECT_EQ(gguf->find_tensor("a")->data[0], std::byte{'a'});
    EXPECT_EQ(gguf->find_tensor("b")->data[3], std::byte{'b'});
}

TEST(Gguf, TensorsThatLieAreRefused) {
    const auto one = [](const std::vector<uint64_t>& shape, uint32_t type, uint64_t offset) {
        return gguf_error(GgufBytes().tensor_at("t", shape, type, offset).data(256).file());
    };
    EXPECT_EQ(one({64}, 0, 0), "none");
    EXPECT_THAT(one({65}, 0, 0), HasSubstr("tensor 't': 260 bytes at offset 0 do not lie in the file's 256 bytes"));
    EXPECT_THAT(one({1}, 0, 256), HasSubstr("do not lie"));
    EXPECT_THAT(one({1}, 0, UINT64_MAX - 31), HasSubstr("do not lie"));
    EXPECT_THAT(one({1}, 0, 4), HasSubstr("not a multiple of the alignment, 32"));
    EXPECT_THAT(one({}, 0, 0), HasSubstr("0 dimensions"));
    EXPECT_THAT(one({1, 1, 1, 1, 1}, 0, 0), HasSubstr("5 dimensions"));
    EXPECT_THAT(one({0}, 0, 0), HasSubstr("a dimension of 0"));
    EXPECT_THAT(one({uint64_t{1} << 63}, 0, 0), HasSubstr("a dimension of 9223372036854775808"));
    EXPECT_THAT(one({uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0), HasSubstr("2^64 bytes or more"));
    EXPECT_THAT(one({uint64_t{1} << 62}, 0, 0), HasSubstr("2^64 bytes or more"));
    EXPECT_THAT(one({33}, 8, 0), HasSubstr("rows of 33 elements do not split into Q8_0's blocks of 32"));
    EXPECT_THAT(one({128}, 12, 0), HasSubstr("Q4_K's blocks of 256"));
}

TEST(Gguf, OverlapsAndDuplicateNamesAreRefused) {
    EXPECT_THAT(gguf_error(GgufBytes().tensor_at("a", {16}, 0, 0).tensor_at("b", {8}, 0, 32).data(64).file()),
                HasSubstr("tensor 'b': its bytes overlap those of 'a'"));
    EXPECT_THAT(gguf_error(GgufBytes().tensor_at("b", {8}, 0, 0).tensor_at("a", {8}, 0, 0).data(64).file()),
                HasSubstr("overlap"));
    EXPECT_EQ(gguf_error(GgufBytes().tensor_at("a", {8}, 0, 32).tensor_at("b", {8}, 0, 0).data(64).file()), "none");
}

TEST(Gguf, EveryUsableTypeHasItsSizeAndOthersAreNamed) {
    const std::pair<uint32_t, DType> usable[] = {
        {0, DType::f32},   {1, DType::f16},   {30, DType::bf16}, {2, DType::q4_0},    {3, DType::q4_1},
        {6, DType::q5_0},  {7, DType::q5_1},  {8, DType::q8_0},  {12, DType::q4_k},   {13, DType::q5_k},
        {14, DType::q6_k}, {10, DType::q2_k}, {11, DType::q3_k}, {20, DType::iq4_nl}, {23, DType::iq4_xs}};
    for (const auto& [id, dtype] : usable) {
        const size_t bytes = bytes_of(dtype, 512);
        EXPECT_EQ(gguf_error(GgufBytes().tensor_at("t", {256, 2}, id, 0).data(bytes).file()), "none");
        EXPECT_THAT(gguf_error(GgufBytes().tensor_at("t", {256, 2}, id, 0).data(bytes - 1).file()),
                    HasSubstr("do not lie"))
            << id;
    }
    for (const auto& [id, name] : {std::pair(16U, "IQ2_XXS"), std::pair(31U, "Q4_0_4_4"), std::pair(39U, "MXFP4"),
                                   std::pair(40U, "NVFP4"), std::pair(77U, "type 77")}) {
        const std::string file = GgufBytes().tensor_at("t", {256}, id, 0).data(32).file();
        const auto gguf = GgufFile::parse(as_bytes(file), "x");
        ASSERT_TRUE(gguf) << gguf.error().message;
        EXPECT_FALSE(gguf->tensors()[0].usable);
        EXPECT_EQ(gguf->tensors()[0].file_type, name);
    }
}

TEST(GgufNames, BecomeHuggingFacesNames) {
    EXPECT_EQ(hf_tensor_name("token_embd.weight"), "model.embed_tokens.weight");
    EXPECT_EQ(hf_tensor_name("output_norm.weight"), "model.norm.weight");
    EXPECT_EQ(hf_tensor_name("output.weight"), "lm_head.weight");
    EXPECT_EQ(hf_tensor_name("blk.31.attn_q.weight"), "model.layers.31.self_attn.q_proj.weight");
    EXPECT_EQ(hf_tensor_name("blk.0.attn_k.bias"), "model.layers.0.self_attn.k_proj.bias");
    EXPECT_EQ(hf_tensor_name("blk.0.attn_q_norm.weight"), "model.layers.0.self_attn.q_norm.weight");
    EXPECT_EQ(hf_tensor_name("blk.0.attn_output.weight"), "model.layers.0.self_attn.o_proj.weight");
    EXPECT_EQ(hf_tensor_name("blk.0.ffn_norm.weight"), "model.layers.0.post_attention_layernorm.weight");
    EXPECT_EQ(hf_tensor_name("blk.0.ffn_down.weight"), "model.layers.0.mlp.down_proj.weight");
    for (const char* other : {"blk.00.attn_q.weight", "blk..attn_q.weight", "blk.0.attn_q", "blk.0.attn_q.scale",
                              "blk.x.attn_q.weight", "blk.", "blk.0", "blk.0.", "rope_freqs.weight", ""}) {
        EXPECT_EQ(hf_tensor_name(other), other);
    }
}

}  // namespace
}  // namespace rondo
