#pragma once

#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/engine_inside.hpp"
#include "actors/turn_port.hpp"
#include "config/checked.hpp"
#include "config/settings.hpp"
#include "kernels/backend.hpp"
#include "model/generator.hpp"
#include "model/transformer.hpp"
#include "tests/actors/demo_model_f32.hpp"

namespace rondo::testing {

inline const std::string question = "The code of the red box is 4817. What is the code of the red box?";
inline const std::string right_answer = "The code of the red box is 4817.";

template <class T>
T must(Result<T> result) {
    if (!result.is_ok()) throw std::runtime_error(result.error().message);
    return std::move(result).value();
}

inline Settings settings_of(const std::vector<std::string>& overrides) {
    return must(settings_from_yaml("", "test", overrides));
}

/// A pool with room for at least so many blocks of the demo model's keys and values, whatever its shape is.
inline std::string demo_pool(size_t blocks, DType type = DType::bf16) {
    static const ModelSpec spec = must(load_model_text(demo_model_path())).spec;
    const size_t bytes = blocks * Transformer::kv_shape(spec, type).block_bytes(LayerGroup::upper);
    return "memory.device_kv_mib=" + std::to_string(ceil_div(bytes, size_t{1} << 20));
}

/// Settings of the demo model with weights, keys and values in f32, and of a pool with room for at least so many of its
/// blocks: histories that are computed in other pieces are answered alike.
inline std::vector<std::string> demo_in_f32(size_t blocks, std::vector<std::string> more = {}) {
    more.insert(more.end(),
                {"model.path=" + demo_model_in_f32(), "memory.kv_dtype=f32", demo_pool(blocks, DType::f32)});
    return more;
}

/// Of an engine that is soon open.
inline Settings small_settings(std::vector<std::string> overrides = {}) {
    overrides.insert(overrides.end(), {demo_pool(85), "devices.cpu.threads=1"});
    return settings_of(overrides);
}

inline Ask chat(const std::string& conversation, const std::string& text, int64_t tokens_max = 64) {
    Ask ask;
    ask.conversation = {"t", conversation};
    ask.messages = {{"user", text}};
    ask.options.tokens_max = tokens_max;
    return ask;
}

inline Ask continue_ids(std::vector<int32_t> ids, int64_t tokens_max) {
    Ask ask;
    ask.conversation = {"t", ""};
    ask.ids = std::move(ids);
    ask.options.tokens_max = tokens_max;
    ask.options.ignore_eos = true;
    return ask;
}

/// What a turn's user heard.
struct Heard {
    std::string text;
    std::vector<int32_t> ids;
    std::vector<TurnEnd> ends;
    size_t after_the_end = 0;  ///< deltas that came too late

    TurnCallbacks callbacks() {
        TurnCallbacks callbacks;
        callbacks.on_delta = [this](TurnDelta delta) {
            after_the_end += !ends.empty();
            text += delta.text;
            ids.insert(ids.end(), delta.ids.begin(), delta.ids.end());
        };
        callbacks.on_end = [this](TurnEnd end) { ends.push_back(std::move(end)); };
        return callbacks;
    }
};

/// An engine under CAF's test scheduler: every message is delivered in this thread, when the test says so, and time
/// stands still until the test moves it.
class Stage {
public:
    explicit Stage(const Settings& settings, Engine::Options options = {},
                   std::function<std::unique_ptr<DiskQueue>()> disk = {}) {
        config_.set("scheduler.policy", caf::atom("testing"));
        system_ = std::make_unique<caf::actor_system>(config_);
        options.host = system_.get();
        EngineInside::Hooks hooks;
        hooks.own_threads = false;
        hooks.disk = std::move(disk);
        hooks.started = [this](const Supervisor::Pipeline& pipeline) {
            pipeline_ = pipeline;
            ++starts;
        };
        engine_ = must(EngineInside::open(settings, std::move(options), std::move(hooks)));
        run();
    }
    ~Stage() {
        engine_->shut_down();
        pipeline_ = {};
        run();
        engine_.reset();
        run();
    }

    Engine& engine() { return *engine_; }
    EngineInside& inside() { return rondo::inside(*engine_); }
    caf::actor_system& system() { return *system_; }
    const Supervisor::Pipeline& pipeline() const { return pipeline_; }
    caf::scheduler::test_coordinator& scheduler() {
        return dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler());
    }
    void run() { scheduler().run(); }
    bool run_one() { return scheduler().try_run_once(); }
    void pass(std::chrono::nanoseconds time) {
        scheduler().advance_time(std::chrono::duration_cast<caf::timespan>(time));
        run();
    }

    int starts = 0;

private:
    caf::actor_system_config config_;
    std::unique_ptr<caf::actor_system> system_;
    std::unique_ptr<Engine> engine_;
    Supervisor::Pipeline pipeline_;
};

/// Of the device at this place.
inline caf::abstract_actor* runner_of(Stage& stage, size_t device = 0) {
    for (const caf::strong_actor_ptr& actor : stage.pipeline().actors) {
        auto* const local = caf::actor_cast<caf::abstract_actor*>(actor);
        if (dynamic_cast<caf::local_actor*>(local)->name() != std::string_view("device_runner")) continue;
        if (device-- == 0) return local;
    }
    return nullptr;
}

/// As if the device were at a long piece of work: whatever its runner is told waits.
class Busy {
public:
    explicit Busy(Stage& stage, size_t device = 0)
        : stage_(stage), runner_(dynamic_cast<caf::resumable*>(runner_of(stage, device))) {}
    void run() {
        stage_.scheduler().run_jobs_filtered([this](const caf::resumable* job) { return job != runner_; });
    }
    void pass(caf::timespan time) {
        stage_.scheduler().advance_time(time);
        run();
    }

private:
    Stage& stage_;
    const caf::resumable* const runner_;
};

}  // namespace rondo::testing
