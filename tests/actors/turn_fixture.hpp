#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "actors/turn.hpp"
#include "kernels/backend.hpp"
#include "model/transformer.hpp"
#include "tests/actors/pipeline_fixture.hpp"
#include "tests/model/golden_models.hpp"

/// Turns without a pipeline, for tests of what handles them.
namespace rondo::testing {

/// A small model on one thread, with a pool of so many blocks.
inline RuntimePtr small_runtime(size_t blocks) {
    const auto runtime = std::make_shared<Runtime>();
    const golden::Folder folder(golden::read_case("llama_gqa2_head32_tied"), DType::f32);
    runtime->devices.push_back(must(open_device({DeviceKind::cpu, 0, 1})));
    runtime->model = must(load_model(folder.path(), {}, *runtime->devices[0]));
    const KvShape shape = Transformer::kv_shape(runtime->model.spec, DType::f32);
    runtime->pool = must(KvPool::create(*runtime->devices[0], shape, {blocks, blocks}));
    return runtime;
}

/// With these ids, the first `prompt_tokens` of which are its prompt; no key of them is known.
inline Turn make_bare_turn(const RuntimePtr& runtime, TurnId id, std::vector<int32_t> ids, int64_t prompt_tokens,
                           const GenerateOptions& options = {}) {
    Answer answer(runtime->model, options, ids);
    return Turn{.runtime = runtime,
                .id = id,
                .space = {},
                .flow = {},
                .ids = std::move(ids),
                .prompt_tokens = prompt_tokens,
                .kv = SequenceKv(*runtime->pool),
                .step_attention = {},
                .answer = std::move(answer),
                .last = {},
                .prompt_attention = {},
                .answer_attention = {}};
}

/// Once, and without a look at any query.
class FirstKey : public DecodeSelection {
public:
    ChoiceTriggers triggers() const override { return {.after_prefill = true}; }
    int queries() const override { return 0; }
    bool wanted(int64_t) const override { return true; }
    void select(const KeyScores&, uint64_t, std::span<std::vector<int32_t>> chosen) const override {
        for (auto& keys : chosen) keys.assign(1, 0);
    }
};

/// The turn's answer will attend to its first key, from `lag` steps after its prompt on.
inline void choose_first_key(Turn& turn, int lag) {
    StepAttention::Options options;
    options.method = std::make_shared<FirstKey>();
    options.lag_steps = lag;
    const Runtime& runtime = *turn.runtime;
    turn.step_attention = must(StepAttention::create(runtime.model.spec, *runtime.pool, *runtime.devices[0], options));
}

/// Makes a choice, as device and selector do it.
inline void complete(Choice& choice) {
    while (!choice.complete()) {
        ASSERT_TRUE(choice.on_device(choice.layers_to_score()));
        choice.on_host([](int64_t tasks, const std::function<void(int64_t)>& task) {
            for (int64_t i = 0; i < tasks; ++i) task(i);
        });
    }
}

}  // namespace rondo::testing
