#include "model/weights_memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "memory/machine_memory.hpp"
#include "model/files/spec_tensors.hpp"
#include "model/model_files.hpp"
#include "tests/model/model_bytes.hpp"
#include "tests/model/tiny_engine.hpp"

namespace rondo {
namespace {

using testing::need;

TEST(WeightsMemory, IsKnownBeforeAnythingIsPacked) {
    const auto device = need(open_device(need(parse_device("cpu:1"))));
    for (const char* name : {"llama_gqa7_head128_untied", "qwen2_gqa1_head32_tied", "qwen3_gqa7_head64_tied"}) {
        for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
            const golden::Folder folder(golden::read_case(name), type);
            const ModelFiles files = need(open_model_files(folder.path(), {}));
            const size_t told = packed_bytes(files.spec, *files.weights, device->ops());
            const size_t taken = need(load_weights(files.spec, *files.weights, *device))->bytes();
            EXPECT_GE(told, taken) << name << " " << traits(type).name;
            // What is stacked shares its last cache line.
            EXPECT_LE(told, taken + 64 * spec_tensors(files.spec).size()) << name << " " << traits(type).name;
        }
    }
}

TEST(WeightsMemory, IsRefusedWhereTheMachineHasLess) {
    constexpr size_t mib = size_t{1} << 20;
    EXPECT_TRUE(check_weights_memory(100 * mib, 0, 100 * mib, "m"));
    EXPECT_TRUE(check_weights_memory(60 * mib, 40 * mib, 100 * mib, "m"));
    const Status alone = check_weights_memory(100 * mib + 1, 0, 100 * mib, "m");
    ASSERT_FALSE(alone);
    EXPECT_EQ(alone.error().code, ErrorCode::out_of_memory);
    EXPECT_EQ(alone.error().message,
              "m: the weights take 100 MiB; they must take at most the machine's memory, 100 MiB");
    const Status together = check_weights_memory(60 * mib, 41 * mib, 100 * mib, "m");
    ASSERT_FALSE(together);
    EXPECT_EQ(together.error().message,
              "m: the weights take 60 MiB, and memory.device_kv_mib is 41; together they must be at most the machine's "
              "memory, 100 MiB");
    EXPECT_FALSE(check_weights_memory(SIZE_MAX, SIZE_MAX, 100 * mib, "m"));
}

/// Loading asks before it reads: a pool of all the memory there is leaves no room for weights.
TEST(WeightsMemory, IsAskedForWhenAModelIsLoaded) {
    const auto device = need(open_device(need(parse_device("cpu:1"))));
    const golden::Folder folder(golden::read_case("qwen2_gqa1_head32_tied"), DType::bf16);
    WeightsChoice choice;
    choice.kv_bytes = machine_memory_bytes();
    bool began = false;
    const auto refused = load_model(folder.path(), choice, *device, [&](double) { began = true; });
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
    EXPECT_THAT(refused.error().message, ::testing::HasSubstr(folder.path() + ": the weights take "));
    EXPECT_FALSE(began);
    choice.kv_bytes /= 2;
    EXPECT_TRUE(load_model(folder.path(), choice, *device));
}

/// In MiB, without pages of files.
double resident_of_its_own() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
        if (word != "RssAnon:") continue;
        double kib = 0;
        status >> kib;
        return kib / 1024;
    }
    return 0;
}

TEST(WeightsMemory, IsNotSharedWithTheVocabularyAsTheFileHasIt) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizers' allocators keep what is freed for a while";
#endif
    const std::string left(40, 'a'), right(40, 'b');
    const std::vector<std::string> merges(200'000, left + " " + right);  // 25 MiB in small pieces
    testing::GgufBytes bytes =
        testing::gguf_metadata("llama", {left, right, left + right, "<|im_end|>", "<|endoftext|>"}, merges);
    testing::add_gguf_tensors(bytes);
    const testing::TemporaryFolder folder;
    folder.write("m.gguf", bytes.file());
    bytes = testing::GgufBytes();
    const auto device = need(open_device(need(parse_device("cpu:1"))));
    ::malloc_trim(0);
    const double before = resident_of_its_own();
    double at_first = 0;
    const Model model = need(load_model(folder.path() / "m.gguf", {}, *device, [&](double) {
        if (at_first == 0) at_first = resident_of_its_own();
    }));
    EXPECT_GT(at_first, 0);
    EXPECT_LT(at_first, before + 8);
}

}  // namespace
}  // namespace rondo
