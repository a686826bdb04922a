#include <gtest/gtest.h>
#include <malloc.h>

#include "model/generator.hpp"
#include "tests/counting_allocator.hpp"
#include "tests/model/tiny_engine.hpp"

namespace rondo {
namespace {

using testing::need;
using testing::next_rows;

constexpr int warm_up = 8, steps = 64;

struct WeightsAndKv {
    DType weights, kv;
};

class DecodeAllocation : public ::testing::TestWithParam<WeightsAndKv> {
protected:
    DecodeAllocation()
        : case_(golden::read_case("qwen2_gqa7_head64_untied")),
          device_(need(open_device(need(parse_device("cpu:2"))))),
          model_(testing::load_case(case_, GetParam().weights, *device_)) {}

    const golden::Case case_;
    std::unique_ptr<Device> device_;
    Model model_;
};

TEST_P(DecodeAllocation, StepsAllocateNothingOnceWarm) {
    const auto generator = need(Generator::create(model_, *device_, {.chunk_tokens = 64, .kv_type = GetParam().kv}));
    need(generator->prefill(case_.ids));
    int32_t token = 0;
    for (int i = 0; i < warm_up; ++i) need(generator->step(token++));
    const int64_t before = testing::allocations();
    const struct mallinfo2 heap_before = ::mallinfo2();
    Status status;
    for (int i = 0; i < steps && status.is_ok(); ++i) status = generator->step(token++);
    const struct mallinfo2 heap_after = ::mallinfo2();
    const int64_t after = testing::allocations();
    ASSERT_TRUE(status);
    EXPECT_EQ(after - before, 0);
    EXPECT_EQ(heap_after.uordblks, heap_before.uordblks) << "bytes in use";
    EXPECT_EQ(heap_after.hblkhd, heap_before.hblkhd) << "bytes in mappings";
}

TEST_P(DecodeAllocation, SamplingAllocatesNothingEither) {
    const auto generator = need(Generator::create(model_, *device_, {.chunk_tokens = 64, .kv_type = GetParam().kv}));
    need(generator->prefill(case_.ids));
    Sampler sampler(
        {.temperature = 1.0F, .top_k = 20, .top_p = 0.9F, .repetition_penalty = 1.1F, .seed = 3, .logprobs = 4},
        model_.spec.vocabulary);
    sampler.observe_prompt(case_.ids);
    for (int i = 0; i < warm_up; ++i) need(generator->step(sampler.next(generator->logits()).id));
    const int64_t before = testing::allocations();
    Status status;
    for (int i = 0; i < steps && status.is_ok(); ++i) status = generator->step(sampler.next(generator->logits()).id);
    const int64_t after = testing::allocations();
    ASSERT_TRUE(status);
    EXPECT_EQ(after - before, 0);
}

TEST_P(DecodeAllocation, BatchedStepsAllocateNothingOnceWarm) {
    constexpr int sequences = 5;
    testing::TinyEngine engine(case_, {.weights = GetParam().weights, .kv = GetParam().kv});
    std::vector<std::unique_ptr<SequenceKv>> kvs;
    for (int i = 0; i < sequences; ++i) {
        kvs.push_back(std::make_unique<SequenceKv>(*engine.pool));
        kvs.back()->reserve(200);
        engine.run({next_rows(*kvs.back(), std::span(case_.ids).first(static_cast<size_t>(3 + 7 * i)))});
    }
    Batch batch = engine.batch();
    const Buffer out = need(engine.device->allocate(sequences * 97 * sizeof(float)));
    const auto step = [&](int32_t id) -> Status {
        batch.clear();
        for (const auto& kv : kvs) RONDO_TRY(batch.add(next_rows(*kv, {&id, 1}, Rows::invariant)));
        RONDO_TRY(batch.prepare());
        RONDO_TRY(engine.transformer->forward(batch));
        return engine.transformer->logits(batch, 0, Tensor::of(out.data(), DType::f32, sequences, 97));
    };
    for (int i = 0; i < warm_up; ++i) need(step(i));
    const int64_t before = testing::allocations();
    Status status;
    for (int i = 0; i < steps && status.is_ok(); ++i) status = step(i);
    const int64_t after = testing::allocations();
    ASSERT_TRUE(status);
    EXPECT_EQ(after - before, 0);
}

INSTANTIATE_TEST_SUITE_P(Engine, DecodeAllocation,
                         ::testing::Values(WeightsAndKv{DType::f32, DType::f32}, WeightsAndKv{DType::bf16, DType::bf16},
                                           WeightsAndKv{DType::bf16, DType::i8},
                                           WeightsAndKv{DType::q8_0, DType::bf16}),
                         [](const ::testing::TestParamInfo<WeightsAndKv>& info) {
                             return std::string(traits(info.param.weights).name) + "_kv_" +
                                    std::string(traits(info.param.kv).name);
                         });

}  // namespace
}  // namespace rondo
