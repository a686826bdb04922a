#include "model/files/gguf_parts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "model/model.hpp"
#include "model/model_files.hpp"
#include "tests/model/model_bytes.hpp"

namespace rondo {
namespace {

namespace fs = std::filesystem;
using testing::GgufBytes;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

/// The tensors of add_gguf_tensors, each filled with a number of its own.
struct NamedTensor {
    std::string name;
    std::vector<uint64_t> shape;
};

std::vector<NamedTensor> all_tensors() {
    std::vector<NamedTensor> out = {{"token_embd.weight", {64, 5}}};
    for (const std::string layer : {"blk.0.", "blk.1."}) {
        for (const auto& [name, shape] : std::vector<NamedTensor>{{"attn_norm", {64}},
                                                                  {"attn_q", {64, 64}},
                                                                  {"attn_k", {64, 32}},
                                                                  {"attn_v", {64, 32}},
                                                                  {"attn_output", {64, 64}},
                                                                  {"ffn_norm", {64}},
                                                                  {"ffn_gate", {64, 96}},
                                                                  {"ffn_up", {64, 96}},
                                                                  {"ffn_down", {96, 64}}}) {
            out.push_back({layer + name + ".weight", shape});
        }
    }
    out.push_back({"output_norm.weight", {64}});
    out.push_back({"output.weight", {64, 5}});
    return out;
}

void add(GgufBytes& file, size_t number) {
    const NamedTensor tensor = all_tensors().at(number);
    uint64_t count = 1;
    for (const uint64_t size : tensor.shape) count *= size;
    std::string data;
    for (uint64_t i = 0; i < count; ++i) testing::append(data, static_cast<float>(number) + static_cast<float>(i % 7));
    file.tensor(tensor.name, tensor.shape, 0, data);
}

GgufBytes& say_split(GgufBytes& file, uint16_t number, uint16_t count, int32_t tensors) {
    return file.number("split.no", 2, number).number("split.count", 2, count).number("split.tensors.count", 5, tensors);
}

/// A model of 21 tensors in `count` files: the first has the metadata, and each its share of the tensors.
class GgufPartsOnDisk : public ::testing::Test {
protected:
    static constexpr int32_t tensors = 21;

    fs::path path(int64_t part, int64_t count = 3) const {
        return folder_.path() / GgufPartName{"m", 1, count}.file_name(part);
    }
    void write(int64_t part, const GgufBytes& file, int64_t count = 3) const {
        folder_.write(path(part, count).filename().string(), file.file());
    }
    GgufBytes part(int64_t number, int64_t count = 3) const {
        GgufBytes file = number == 1 ? testing::gguf_metadata("llama") : GgufBytes();
        say_split(file, static_cast<uint16_t>(number - 1), static_cast<uint16_t>(count), tensors);
        for (int64_t i = 0; i < tensors; ++i) {
            if (i * count / tensors == number - 1) add(file, static_cast<size_t>(i));
        }
        return file;
    }
    void write_all(int64_t count = 3) const {
        for (int64_t i = 1; i <= count; ++i) write(i, part(i, count), count);
    }
    std::string error_of(const fs::path& file) const {
        const auto files = open_model_files(file, {});
        return files ? "none" : files.error().message;
    }
    std::string error() const { return error_of(path(1)); }

    TemporaryFolder folder_;
};

TEST(GgufPartName, IsReadFromTheEndOfAName) {
    const auto name = gguf_part_name("Qwen-00002-of-00003-00010-of-00012.gguf");
    ASSERT_TRUE(name);
    EXPECT_EQ(name->stem, "Qwen-00002-of-00003");
    EXPECT_EQ(name->number, 10);
    EXPECT_EQ(name->count, 12);
    EXPECT_EQ(name->file_name(3), "Qwen-00002-of-00003-00003-of-00012.gguf");
    EXPECT_EQ(GgufPartName({"%s%n", 1, 2}).file_name(1), "%s%n-00001-of-00002.gguf");
    for (const char* other : {"", "m.gguf", "-00001-of-00002.gguf", "m-0001-of-0002.gguf", "m-00001-of-00002.GGUF",
                              "m-00001-of-0000x.gguf", "m-00001-of-00002.gguf.part", "m00001-of-00002.gguf"}) {
        EXPECT_FALSE(gguf_part_name(other)) << other;
    }
}

TEST_F(GgufPartsOnDisk, AnyPartOpensTheWholeModel) {
    GgufBytes single = testing::gguf_metadata("llama");
    for (size_t i = 0; i < all_tensors().size(); ++i) add(single, i);
    ASSERT_EQ(all_tensors().size(), size_t{tensors});
    folder_.write("whole.gguf", single.file());
    const auto whole = open_model_files(folder_.path() / "whole.gguf", {});
    ASSERT_TRUE(whole) << whole.error().message;
    for (const int64_t count : {2, 3, 21, 40}) {  // of 40, half have no tensors
        write_all(count);
        for (const int64_t given : {int64_t{1}, int64_t{2}, count}) {
            const auto files = open_model_files(path(given, count), {});
            ASSERT_TRUE(files) << files.error().message;
            EXPECT_EQ(files->name, "m");
            EXPECT_FALSE(files->spec.tied_embeddings) << "the last part has the output matrix";
            EXPECT_EQ(files->spec.vocabulary, 5);
            ASSERT_EQ(files->weights->tensors().size(), size_t{tensors});
            for (const FileTensor& tensor : whole->weights->tensors()) {
                const FileTensor* const twin = files->weights->find(tensor.name);
                ASSERT_NE(twin, nullptr) << tensor.name;
                files->weights->will_need(*twin);
                ASSERT_EQ(twin->shape, tensor.shape);
                ASSERT_EQ(std::memcmp(twin->data, tensor.data, tensor.bytes), 0) << tensor.name;
                files->weights->done_with(*twin);
                ASSERT_EQ(std::memcmp(twin->data, tensor.data, tensor.bytes), 0) << "read again after done_with";
            }
        }
    }
}

TEST_F(GgufPartsOnDisk, AFirstPartMayHaveNoTensors) {
    GgufBytes first = testing::gguf_metadata("llama");
    write(1, say_split(first, 0, 2, tensors), 2);
    GgufBytes second;
    say_split(second, 1, 2, tensors);
    for (size_t i = 0; i < all_tensors().size(); ++i) add(second, i);
    write(2, second, 2);
    EXPECT_EQ(error_of(path(1, 2)), "none");
    EXPECT_EQ(error_of(path(2, 2)), "none");
}

TEST_F(GgufPartsOnDisk, AMissingPartIsNamed) {
    write_all();
    fs::remove(path(2));
    const std::string words =
        path(2).string() +
        ": cannot open: No such file or directory; it is part 2 of 3 of this model and must lie beside the others";
    EXPECT_EQ(error(), words);
    EXPECT_EQ(error_of(path(3)), words);
    write_all();
    fs::remove(path(1));
    EXPECT_EQ(error_of(path(3)), path(1).string() +
                                     ": cannot open: No such file or directory; it is part 1 of 3 of this model and "
                                     "must lie beside the others");
}

TEST_F(GgufPartsOnDisk, ATokenizerNeedsTheFirstPartAlone) {
    write(1, part(1));
    write(3, part(3));
    for (const int64_t given : {1, 3}) {
        const auto files = open_model_files(path(given), {}, WeightsNeed::not_read);
        ASSERT_TRUE(files) << files.error().message;
        EXPECT_EQ(files->gguf_vocabulary->tokens.size(), 5U);
    }
}

TEST_F(GgufPartsOnDisk, PartsThatAreNoFilesAreRefused) {
    write_all();
    fs::remove(path(2));
    fs::create_symlink(path(2).filename(), path(2));
    EXPECT_THAT(error(), HasSubstr(path(2).string() + ": cannot open: Too many levels of symbolic links"));
    fs::remove(path(2));
    fs::create_directory(path(2));
    EXPECT_THAT(error(), HasSubstr(path(2).string() + ": not a regular file; it is part 2 of 3"));
    fs::remove(path(2));
    folder_.write(path(2).filename().string(), "");
    EXPECT_EQ(error(), path(2).string() + ": an empty file; download it again");
    folder_.write(path(2).filename().string(), "version https://git-lfs.github.com/spec/v1\n");
    EXPECT_THAT(error(), HasSubstr(path(2).string() + ": a Git LFS pointer"));
    folder_.write(path(2).filename().string(), "<!DOCTYPE html>");
    EXPECT_EQ(error(), path(2).string() + ": not a GGUF file");
    fs::remove(path(2));
    fs::create_symlink(path(1).filename(), path(2));  // the first file under the second's name
    EXPECT_THAT(error(), HasSubstr(path(2).string() + ": part 1 of 3 of a model of 21 tensors by its metadata; part 2 "
                                                      "of 3 of 21 tensors must be here"));
}

TEST_F(GgufPartsOnDisk, LinksAndDotsInPathsAreFollowed) {
    fs::create_directories(folder_.path() / "blobs/x");
    for (int64_t i = 1; i <= 3; ++i) {
        folder_.write("blobs/" + std::to_string(i), part(i).file());
        fs::create_symlink("blobs/" + std::to_string(i), path(i));
    }
    EXPECT_EQ(error(), "none");
    EXPECT_EQ(error_of(folder_.path() / "blobs/x/../.." / path(2).filename()), "none");
}

TEST_F(GgufPartsOnDisk, PartsOfOtherModelsAreRefused) {
    write_all();
    GgufBytes other;
    write(3, say_split(other, 2, 3, 99));
    EXPECT_EQ(error(), path(3).string() +
                           ": part 3 of 3 of a model of 99 tensors by its metadata; part 3 of 3 of 21 "
                           "tensors must be here");
    GgufBytes of_four;
    write(3, say_split(of_four, 2, 4, tensors));
    EXPECT_THAT(error(), HasSubstr("part 3 of 4"));
    write(3, testing::gguf_metadata("llama"));
    EXPECT_EQ(error(), path(3).string() +
                           ": no part of a split model by its metadata; part 3 of 3 of 21 tensors must "
                           "be here");
    GgufBytes twice;
    say_split(twice, 2, 3, tensors);
    add(twice, 0);
    write(3, twice);
    EXPECT_EQ(error(), path(3).string() + ": tensor 'model.embed_tokens.weight' is in this model twice");
    GgufBytes fewer;
    write(3, say_split(fewer, 2, 3, tensors));
    EXPECT_EQ(error(), path(1).string() + ": all parts have 14 tensors together; split.tensors.count says 21");
}

TEST_F(GgufPartsOnDisk, ARenamedPartSaysWhatItsNameMustBe) {
    write_all();
    fs::rename(path(1), folder_.path() / "renamed.gguf");
    EXPECT_EQ(error_of(folder_.path() / "renamed.gguf"),
              (folder_.path() / "renamed.gguf").string() +
                  ": part 1 of 3 of a split model, so its name must end in -00001-of-00003.gguf, by which the other "
                  "parts are found");
    fs::rename(folder_.path() / "renamed.gguf", path(2));
    EXPECT_THAT(error_of(path(2)), HasSubstr("part 1 of 3 of a split model, so its name must end in -00001-of-00003"));
    // What calls itself a part and is none is a model as any other.
    GgufBytes single = testing::gguf_metadata("llama");
    testing::add_gguf_tensors(single);
    write(1, single, 9);
    EXPECT_EQ(error_of(path(1, 9)), "none");
}

TEST_F(GgufPartsOnDisk, CountsThatCannotBeAreRefused) {
    const auto says = [&](uint32_t number, uint32_t count) {
        GgufBytes file = testing::gguf_metadata("llama");
        testing::add_gguf_tensors(file);
        write(1, file.u32("split.no", number).u32("split.count", count));
        return error();
    };
    EXPECT_EQ(says(0, 0), "none");
    EXPECT_EQ(says(0, 1), "none");
    EXPECT_THAT(says(3, 3), HasSubstr("metadata 'split.no' must be an integer from 0 to 2"));
    EXPECT_THAT(says(0, 1025), HasSubstr("a model in 1025 files (split.count), must be at most 1024"));
    for (const uint32_t count : {10'000U, 65'535U, UINT32_MAX}) EXPECT_THAT(says(0, count), HasSubstr("at most 1024"));
    GgufBytes file = testing::gguf_metadata("llama");
    write(1, file.string("split.count", "3"));
    EXPECT_THAT(error(), HasSubstr("metadata 'split.count' must be an integer from 0"));
    write(1, testing::gguf_metadata("llama").u32("split.count", 3));
    EXPECT_THAT(error(), HasSubstr("metadata 'split.no' is missing"));
    GgufBytes many = testing::gguf_metadata("llama");
    write(1, say_split(many, 0, 1024, tensors), 1024);
    EXPECT_THAT(error_of(path(1, 1024)), HasSubstr("m-00002-of-01024.gguf: cannot open"));
}

}  // namespace
}  // namespace rondo
