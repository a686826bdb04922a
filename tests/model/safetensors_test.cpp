#include "model/files/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "model/files/mapped_file.hpp"
#include "tests/model/model_bytes.hpp"

namespace rondo {
namespace {

using testing::as_bytes;
using ::testing::HasSubstr;
using testing::safetensors_file;
using testing::TemporaryFolder;

constexpr const char* good_header =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[12,20]},)"
    R"("a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]}})";

std::string safetensors_error(const std::string& file) {
    const auto tensors = parse_safetensors(as_bytes(file), "x");
    return tensors ? "none" : tensors.error().message;
}

std::string header_error(const std::string& header, size_t data_bytes) {
    return safetensors_error(safetensors_file(header, data_bytes));
}

TEST(Safetensors, ListsTensorsWithTheirBytes) {
    const std::string file = safetensors_file(good_header, 20);
    const auto tensors = parse_safetensors(as_bytes(file), "x");
    ASSERT_TRUE(tensors) << tensors.error().message;
    ASSERT_EQ(tensors->size(), 2U);
    const FileTensor& b = (*tensors)[0];
    EXPECT_EQ(b.name, "b");
    EXPECT_EQ(b.dtype, DType::f32);
    EXPECT_EQ(b.shape, std::vector<int64_t>{2});
    EXPECT_EQ(b.bytes, 8U);
    EXPECT_EQ(b.data[0], std::byte{12});
    const FileTensor& a = (*tensors)[1];
    EXPECT_EQ(a.dtype, DType::bf16);
    EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(a.data[11], std::byte{11});
}

TEST(Safetensors, TruncationAtEveryByteIsAnError) {
    const std::string file = safetensors_file(good_header, 20);
    for (size_t size = 0; size < file.size(); ++size) {
        const std::string message = safetensors_error(file.substr(0, size));
        EXPECT_NE(message, "none") << "cut at " << size;
        EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
}

TEST(Safetensors, EveryFlippedHeaderByteIsRefusedOrStaysInsideTheFile) {
    const std::string good = safetensors_file(good_header, 20);
    for (size_t at = 0; at < good.size() - 20; ++at) {
        for (const int flip : {0x01, 0x10, 0x80, 0xFF}) {
            std::string file = good;
            file[at] = static_cast<char>(file[at] ^ flip);
            const auto tensors = parse_safetensors(as_bytes(file), "x");
            if (!tensors) continue;
            for (const FileTensor& tensor : *tensors)
                EXPECT_TRUE(MappedFile::over(as_bytes(file)).contains({tensor.data, tensor.bytes}));
        }
    }
}

TEST(Safetensors, LayoutThatLiesIsRefused) {
    const auto two = [](int a_begin, int a_end, int b_begin, int b_end) {
        return R"({"a":{"dtype":"U8","shape":[)" + std::to_string(a_end - a_begin) + R"(],"data_offsets":[)" +
               std::to_string(a_begin) + "," + std::to_string(a_end) + R"(]},"b":{"dtype":"U8","shape":[)" +
               std::to_string(b_end - b_begin) + R"(],"data_offsets":[)" + std::to_string(b_begin) + "," +
               std::to_string(b_end) + "]}}";
    };
    EXPECT_EQ(header_error(two(0, 4, 4, 8), 8), "none");
    EXPECT_THAT(header_error(two(0, 5, 4, 8), 8), HasSubstr("tensor 'b': its bytes overlap"));
    EXPECT_THAT(header_error(two(0, 8, 0, 8), 8), HasSubstr("overlap"));
    EXPECT_THAT(header_error(two(0, 3, 4, 8), 8), HasSubstr("tensor 'b': a hole"));
    EXPECT_THAT(header_error(two(1, 4, 4, 8), 8), HasSubstr("tensor 'a': a hole"));
    EXPECT_THAT(header_error(two(0, 4, 4, 8), 9), HasSubstr("1 bytes after the last tensor"));
    EXPECT_THAT(header_error(two(0, 4, 4, 8), 7), HasSubstr("do not lie in the file's 7 bytes"));
    EXPECT_THAT(header_error(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", 1), HasSubstr("do not lie"));
}

TEST(Safetensors, SizesThatOverflowOrDisagreeAreRefused) {
    const auto shape = [](const std::string& dimensions) {
        return header_error(R"({"a":{"dtype":"F32","shape":)" + dimensions + R"(,"data_offsets":[0,16]}})", 16);
    };
    EXPECT_EQ(shape("[4]"), "none");
    EXPECT_EQ(shape("[2,2,1]"), "none");
    EXPECT_THAT(shape("[5]"), HasSubstr("its shape needs 20 bytes, its data_offsets hold 16"));
    EXPECT_THAT(shape("[4294967296,4294967296]"), HasSubstr("2^64 or more"));
    EXPECT_THAT(shape("[4611686018427387904,4,4]"), HasSubstr("2^64 or more"));
    EXPECT_THAT(shape("[9223372036854775808]"), HasSubstr("a dimension beyond 2^63"));
    EXPECT_THAT(shape("[99999999999999999999]"), HasSubstr("unexpected a fraction or a huge number"));
    EXPECT_THAT(shape("[-4]"), HasSubstr("negative"));
    EXPECT_THAT(shape("[4.0]"), HasSubstr("unexpected"));
    EXPECT_THAT(shape("[1,1,1,1,1,1,1,1,4]"), HasSubstr("more than 8 dimensions"));
    EXPECT_THAT(
        header_error(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[18446744073709551612,18446744073709551615]}})",
                     4),
        HasSubstr("do not lie"));
}

TEST(Safetensors, GrammarOfTheHeaderIsStrict) {
    const std::string entry = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
    EXPECT_EQ(header_error(R"({"a":)" + entry + "}   ", 1), "none");
    EXPECT_EQ(header_error("{}", 0), "none");
    EXPECT_THAT(header_error(R"({"a":)" + entry + R"(,"a":)" + entry + "}", 1), HasSubstr("overlap"));
    EXPECT_THAT(header_error(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":)" + entry + "}", 1),
                HasSubstr("'a': is there twice"));
    EXPECT_THAT(header_error(R"({"a":{"dtype":"U8","dtype":"U8"}})", 1), HasSubstr("key 'dtype' is there twice"));
    EXPECT_THAT(header_error(R"({"__metadata__":{"a":"b","a":"c"}})", 0), HasSubstr("key 'a' is there twice"));
    EXPECT_THAT(header_error(R"({"__metadata__":{},"__metadata__":{}})", 0), HasSubstr("is there twice"));
    EXPECT_THAT(header_error(R"({"__metadata__":{"a":1}})", 0), HasSubstr("unexpected a number"));
    EXPECT_THAT(header_error(R"({"a":{"dtype":"U8","shape":[1]}})", 1),
                HasSubstr("needs dtype, shape and data_offsets"));
    EXPECT_THAT(header_error(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1), HasSubstr("two numbers"));
    EXPECT_THAT(header_error(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", 1), HasSubstr("unexpected"));
    EXPECT_THAT(header_error(R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", 1),
                HasSubstr("unexpected an array"));
    EXPECT_THAT(header_error(R"({"a":{"size":1}})", 1), HasSubstr("unknown key 'size'"));
    EXPECT_THAT(header_error(R"({"a":null})", 1), HasSubstr("unexpected null"));
    EXPECT_THAT(header_error("[]", 0), HasSubstr("does not start with '{'"));
    EXPECT_THAT(header_error("\xEF\xBB\xBF{}", 0), HasSubstr("does not start with '{'"));
    EXPECT_THAT(header_error("{} x", 0), HasSubstr("not valid JSON"));
    EXPECT_THAT(header_error(std::string("{}\0{}", 5), 0), HasSubstr("zero byte"));
    EXPECT_THAT(header_error("{\"\xFF\":" + entry + "}", 1), HasSubstr("not valid JSON"));
    EXPECT_THAT(header_error(R"({"\n":1})", 1), HasSubstr("tensor '?'"));
}

TEST(Safetensors, DeepNestingAndLyingHeaderLengthsAreRefused) {
    EXPECT_THAT(header_error("{\"a\":" + std::string(1'000'000, '['), 0), HasSubstr("unexpected an array"));
    std::string deep;
    for (int i = 0; i < 1'000'000; ++i) deep += "{\"a\":";
    EXPECT_THAT(header_error(deep, 0), HasSubstr("tensor 'a'"));
    for (const uint64_t length : {uint64_t{9}, uint64_t{1} << 40, UINT64_MAX}) {
        std::string file;
        testing::append(file, length);
        EXPECT_THAT(safetensors_error(file + "{}"), HasSubstr("header of " + std::to_string(length)));
    }
}

TEST(Safetensors, OtherTypesAreListedAsNotUsable) {
    const std::string file = safetensors_file(R"({"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
                                              R"("b":{"dtype":"F4_NEW","shape":[3],"data_offsets":[8,10]}})",
                                              10);
    const auto tensors = parse_safetensors(as_bytes(file), "x");
    ASSERT_TRUE(tensors) << tensors.error().message;
    EXPECT_FALSE((*tensors)[0].usable);
    EXPECT_EQ((*tensors)[0].file_type, "I64");
    EXPECT_FALSE((*tensors)[1].usable);
    EXPECT_EQ((*tensors)[1].file_type, "F4_NEW");
}

TEST(Safetensors, DataIsNotTouched) {
    // A gigabyte that nothing may read: any touch behind the first page is a fault.
    constexpr size_t bytes = size_t{1} << 30;
    const std::string header = R"({"a":{"dtype":"U8","shape":[1073737728],"data_offsets":[0,1073737728]}})";
    const std::string head = safetensors_file(header + std::string(4096 - 8 - header.size(), ' '), 0);
    auto* memory =
        static_cast<char*>(::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    ASSERT_EQ(::mprotect(memory, 4096, PROT_READ | PROT_WRITE), 0);
    std::memcpy(memory, head.data(), head.size());
    const auto tensors = parse_safetensors({reinterpret_cast<const std::byte*>(memory), bytes}, "x");
    EXPECT_TRUE(tensors) << tensors.error().message;
    ::munmap(memory, bytes);
}

TEST(Safetensors, IndexNamesAreStrictlyInsideTheFolder) {
    const auto index = [](const std::string& file) {
        nlohmann::json json;
        json["weight_map"]["a"] = file;
        const auto shards = parse_safetensors_index(json.dump(), "x");
        return shards ? "none" : shards.error().message;
    };
    EXPECT_EQ(index("model-00001-of-00002.safetensors"), "none");
    for (const std::string& bad :
         {std::string("../a.safetensors"), std::string("/a.safetensors"), std::string("b/a.safetensors"),
          std::string(".."), std::string("..\\a.safetensors"), std::string(".safetensors"), std::string("a.bin"),
          std::string(), std::string("a\0.safetensors", 14), std::string(300, 'a') + ".safetensors"}) {
        EXPECT_THAT(index(bad), HasSubstr("not a plain *.safetensors file name"));
    }
    EXPECT_FALSE(parse_safetensors_index(R"({"weight_map":{"a":1}})", "x"));
    EXPECT_FALSE(parse_safetensors_index(R"({"weight_map":[]})", "x"));
    EXPECT_FALSE(parse_safetensors_index("{}", "x"));
    EXPECT_FALSE(parse_safetensors_index(R"({"weight_map":{"a":"b.safetensors","a":"c.safetensors"}})", "x"));
}

TEST(Safetensors, ShardsAreJoinedAndMissingTensorsNamed) {
    const TemporaryFolder folder;
    folder.write("s1.safetensors", safetensors_file(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4));
    folder.write("s2.safetensors", safetensors_file(R"({"b":{"dtype":"F16","shape":[3],"data_offsets":[0,6]}})", 6));
    folder.write("model.safetensors.index.json", R"({"weight_map":{"a":"s1.safetensors","b":"s2.safetensors"}})");
    const auto weights = open_safetensors(folder.path(), "m");
    ASSERT_TRUE(weights) << weights.error().message;
    ASSERT_NE((*weights)->find("b"), nullptr);
    EXPECT_EQ((*weights)->find("b")->data[5], std::byte{5});
    EXPECT_EQ((*weights)->find("c"), nullptr);
    (*weights)->will_need(*(*weights)->find("a"));
    (*weights)->done_with(*(*weights)->find("a"));
    EXPECT_EQ((*weights)->find("a")->data[3], std::byte{3});

    folder.write("model.safetensors.index.json", R"({"weight_map":{"a":"s1.safetensors","c":"s2.safetensors"}})");
    EXPECT_EQ(open_safetensors(folder.path(), "m").error().message,
              "m/s2.safetensors: no tensor 'c', which the index places here");
    folder.write("model.safetensors.index.json", R"({"weight_map":{"a":"s3.safetensors"}})");
    EXPECT_THAT(open_safetensors(folder.path(), "m").error().message, HasSubstr("m/s3.safetensors: cannot open"));
}

TEST(Safetensors, FolderWithoutWeightsSaysWhatIsRead) {
    const TemporaryFolder folder;
    const auto weights = open_safetensors(folder.path(), "m");
    ASSERT_FALSE(weights);
    EXPECT_EQ(weights.error().code, ErrorCode::not_found);
    EXPECT_THAT(weights.error().message, HasSubstr("model.safetensors.index.json"));
}

TEST(MappedFile, RefusesWhatIsNoRegularFile) {
    const TemporaryFolder folder;
    EXPECT_THAT(MappedFile::open(folder.path(), "m").error().message, HasSubstr("not a regular file"));
    ASSERT_EQ(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
    EXPECT_THAT(MappedFile::open(folder.path() / "pipe", "m").error().message, HasSubstr("not a regular file"));
    folder.write("empty", "");
    const auto empty = MappedFile::open(folder.path() / "empty", "m");
    ASSERT_TRUE(empty);
    EXPECT_TRUE(empty->bytes().empty());
    folder.write("text", "abcd");
    EXPECT_THAT(read_text_file(folder.path() / "text", "m", 3).error().message, HasSubstr("at most 3"));
    EXPECT_EQ(*read_text_file(folder.path() / "text", "m", 4), "abcd");
}

/// A file that is longer or shorter than it said is one that somebody writes meanwhile. Those of /proc say 0.
TEST(TextFile, IsReadToItsEndWhateverItsSizeSays) {
    const auto text = read_text_file("/proc/self/maps", "maps", size_t{16} << 20);
    ASSERT_TRUE(text);
    ASSERT_GT(text->size(), 1000U);
    EXPECT_EQ(text->back(), '\n');
    EXPECT_THAT(read_text_file("/proc/self/maps", "maps", 100).error().message,
                HasSubstr("maps: more than 100 bytes, must be at most 100"));
}

TEST(TextFile, MayBeAsLongAsTheLimitAndNoLonger) {
    const TemporaryFolder folder;
    folder.write("empty", "");
    EXPECT_EQ(*read_text_file(folder.path() / "empty", "m", 0), "");
    folder.write("text", "abcd");
    EXPECT_EQ(*read_text_file(folder.path() / "text", "m", 4), "abcd");
    EXPECT_THAT(read_text_file(folder.path() / "text", "m", 3).error().message,
                HasSubstr("m: 4 bytes, must be at most 3"));
    EXPECT_EQ(read_text_file(folder.path() / "none", "m", 4).error().code, ErrorCode::not_found);
    EXPECT_THAT(read_text_file(folder.path(), "m", 4).error().message, HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace rondo
