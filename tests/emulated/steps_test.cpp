#include <gtest/gtest.h>

#include "tests/emulated/memory.hpp"
#include "tests/emulated/stream.hpp"
#include "tests/model/tiny_engine.hpp"

namespace rondo {
namespace {

using testing::need;
using testing::next_rows;
using testing::TinyEngine;

/// What a step needs on the GPU is there when the model has been set up, whatever the weights' type; also a step of as
/// many rows as a batch may have.
TEST(EmulatedSteps, TakeNoMemoryOfTheGpu) {
    for (const DType weights : {DType::f32, DType::bf16, DType::q8_0}) {
        TinyEngine engine(golden::read_case("qwen2_gqa7_head64_untied"),
                          {.weights = weights, .device = "cuda:0", .limits = {32, 4, 64}});
        const size_t vocabulary = static_cast<size_t>(engine.model.spec.vocabulary);
        SequenceKv prompt(*engine.pool), answer(*engine.pool);
        Batch batch = engine.batch();
        const Buffer out = need(engine.device->allocate(32 * vocabulary * sizeof(float)));
        const std::vector<int32_t> many(31, 5);
        const int32_t one = 3;
        const size_t free_before = emulated::memory_bytes_free();
        for (int step = 0; step < 3; ++step) {
            prompt.truncate(0);
            batch.clear();
            need(batch.add(next_rows(prompt, many, Rows::bulk, BatchPart::Logits::all)));
            need(batch.add(next_rows(answer, {&one, 1}, Rows::invariant)));
            need(batch.prepare());
            need(engine.transformer->forward(batch));
            need(engine.transformer->logits(
                batch, 0, Tensor::of(out.data(), DType::f32, batch.logit_rows(), engine.model.spec.vocabulary)));
            need(engine.device->drain(StreamId::compute));
            EXPECT_EQ(emulated::memory_bytes_free(), free_before) << traits(weights).name;
        }
    }
}

/// Products of bf16 weights with bf16 rows, and of f32 with f32, need no memory beside them. Quantized weights are bf16
/// on a GPU, so a batch's rows are rounded once more.
TEST(EmulatedSteps, SetUpTakesNoMemoryThatNoProductUses) {
    constexpr int64_t rows = 512;
    for (const DType weights : {DType::f32, DType::bf16, DType::f16, DType::q8_0}) {
        const auto device = need(open_device(need(parse_device("cuda:0"))));
        const Model model = testing::load_case(golden::read_case("qwen2_gqa7_head64_untied"), weights, *device);
        const ModelSpec& spec = model.spec;
        const auto pool = need(KvPool::create(*device, Transformer::kv_shape(spec, DType::bf16, 0), {8, 8}));
        const size_t free_before = emulated::memory_bytes_free();
        const auto transformer = need(Transformer::create(*model.weights, *pool, *device, rows));
        const int64_t d = spec.head_dim, q = spec.heads * d, input = std::max({spec.width, q, spec.ffn_width});
        const int64_t product = std::max(q + 2 * spec.kv_heads * d, 2 * spec.ffn_width);
        const size_t own = bytes_of(DType::f32, rows * (d + product + std::max(spec.width, q))) +
                           bytes_of(model.weights->activation, rows * input) + bytes_of(DType::f32, d);
        const bool converts = weights == DType::f16 || weights == DType::q8_0;
        EXPECT_EQ(free_before - emulated::memory_bytes_free(),
                  own + (converts ? bytes_of(DType::bf16, rows * input) : 0))
            << traits(weights).name;
    }
}

/// A batch that is laid out again while the GPU has yet to read its tables waits until they have gone up.
TEST(EmulatedSteps, TablesAreNotWrittenBeforeTheyHaveGoneUp) {
    TinyEngine engine(golden::read_case("qwen2_gqa2_head32_tied"), {.device = "cuda:0"});
    SequenceKv alone(*engine.pool), first(*engine.pool), second(*engine.pool);
    const std::vector<int32_t> ids{1, 2, 3, 4}, others{9, 8, 7};
    const auto expected = engine.run({next_rows(alone, ids)});
    Batch batch = engine.batch();
    const Buffer out = need(engine.device->allocate(expected.size() * sizeof(float)));
    const emulated::LateGpu late;  // reads the tables when the host waits for it
    need(batch.add(next_rows(first, ids)));
    need(batch.prepare());
    need(engine.transformer->forward(batch));
    need(engine.transformer->logits(batch, 0, Tensor::of(out.data(), DType::f32, 1, std::ssize(expected))));
    batch.clear();
    need(batch.add(next_rows(second, others)));
    need(batch.prepare());
    std::vector<float> got(expected.size());
    need(engine.device->copy(got.data(), out.data(), out.bytes(), StreamId::compute));
    need(engine.device->drain(StreamId::compute));
    EXPECT_EQ(got, expected);
}

}  // namespace
}  // namespace rondo
