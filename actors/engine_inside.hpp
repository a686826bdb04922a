#pragma once

#include <atomic>
#include <caf/all.hpp>
#include <functional>
#include <memory>

#include "actors/device_runner.hpp"
#include "actors/engine.hpp"
#include "actors/handles.hpp"
#include "actors/load.hpp"
#include "actors/metrics.hpp"
#include "actors/opened_store.hpp"
#include "actors/router.hpp"
#include "actors/runtime.hpp"
#include "actors/store_figures.hpp"
#include "actors/store_owners.hpp"
#include "actors/supervisor.hpp"
#include "actors/text_workers.hpp"

namespace rondo {

/// What an engine is made of: runtime, actors, and what they count. For our gateway and the tests; hosts see `Engine`
/// alone. Lives as long as its engine; any thread may look.
class EngineInside {
public:
    /// What only tests want.
    struct Hooks {
        /// Told of the stages each time they are started.
        std::function<void(const Supervisor::Pipeline&)> started;
        bool own_threads = true;  ///< for runners, selector and texts; off under CAF's test scheduler
        /// Makes the disk of the store; none: the system's is used.
        std::function<std::unique_ptr<DiskQueue>()> disk;
        /// How long a turn waits for a busy store: longer where it must come back, however busy the machine is.
        double taken_within_s = OfferedTurn::taken_within_s;
    };
    static Result<std::unique_ptr<Engine>> open(const Settings& settings, Engine::Options options, Hooks hooks);
    static EngineInside& of(Engine& engine) { return *engine.inside_; }
    static const EngineInside& of(const Engine& engine) { return *engine.inside_; }
    EngineInside(const EngineInside&) = delete;
    EngineInside& operator=(const EngineInside&) = delete;
    ~EngineInside();
    void shut_down();
    /// Waits until all is on the disk that must be there. ErrorCode::timeout: some was still under way.
    Status put_away(std::chrono::milliseconds within);

    /// For whoever may compute with any of it when the engine is gone.
    std::shared_ptr<const Runtime> runtime() const { return runtime_; }
    const Model& model() const { return runtime_->model; }
    const KvPool& pool() const { return *runtime_->pool; }
    const Load& load() const { return *load_; }
    const StoreFigures& store_figures() const { return *store_figures_; }
    store_actor store() const { return store_; }
    const StoreOwners& store_owners() const { return store_owners_; }
    const Progress& progress() const { return *progress_; }
    Metrics& metrics() { return *metrics_; }
    router_actor router() const { return router_; }
    supervisor_actor supervisor() const { return supervisor_; }
    caf::actor_system& system() { return *system_; }
    bool has_own_system() const { return own_system_ != nullptr; }
    const std::shared_ptr<std::atomic<TurnId>>& last_turn() const { return last_turn_; }

private:
    EngineInside() = default;
    Status load_all(const Settings& settings, const Engine::Options& options);
    /// Without a host, on a system of its own.
    void run_on(caf::actor_system* host);
    Status check_host_memory(int host_kv_mib) const;
    void start(const Settings& settings, const Engine::Options& options, const Hooks& hooks);
    std::optional<OpenedStore> open_disk(const Settings& settings, const Engine::Options& options, const Hooks& hooks);
    void start_store(OpenedStore opened, const Engine::Options& options, bool detached);
    Router::Options router_options(const Settings& settings, bool several_tenants) const;
    template <class Actor>
    void watch(const Actor& actor, const char* name, const std::function<void(Error)>& gave_up);
    Result<Supervisor::Pipeline> start_stages(caf::local_actor& self, const Settings& settings, bool detached);
    Result<std::vector<device_runner_actor>> start_runners(caf::local_actor& self, const Settings& settings,
                                                           bool detached);
    Result<std::shared_ptr<DeviceRunner::PromptAttention>> prompt_attention(Device& device) const;

    RuntimePtr runtime_ = std::make_shared<Runtime>();
    std::shared_ptr<Load> load_ = std::make_shared<Load>();
    std::shared_ptr<Metrics> metrics_;
    std::shared_ptr<TextWorkers> texts_;  // used by sessions, which may go later; ends with the engine
    std::shared_ptr<Progress> progress_;
    std::unique_ptr<caf::actor_system_config> own_config_;
    std::unique_ptr<caf::actor_system> own_system_;
    caf::actor_system* system_ = nullptr;
    std::shared_ptr<StoreFigures> store_figures_ = std::make_shared<StoreFigures>();
    router_actor router_;
    store_actor store_;  // none: nothing is put away
    StoreOwners store_owners_;
    supervisor_actor supervisor_;
    std::shared_ptr<std::atomic<bool>> ending_ = std::make_shared<std::atomic<bool>>(false);
    std::shared_ptr<std::atomic<TurnId>> last_turn_ = std::make_shared<std::atomic<TurnId>>(0);
};

inline EngineInside& inside(Engine& engine) {
    return EngineInside::of(engine);
}
inline const EngineInside& inside(const Engine& engine) {
    return EngineInside::of(engine);
}

}  // namespace rondo
