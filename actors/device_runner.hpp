#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <variant>
#include <vector>

#include "actors/device_pace.hpp"
#include "actors/handles.hpp"
#include "model/stepper.hpp"

namespace rondo {

/// What a device has done, for whoever watches it from another thread.
struct Progress {
    explicit Progress(size_t devices) : at_work_since_ns(devices) {}

    std::atomic<uint64_t> done{0};  ///< pieces of work
    /// When the last of them was, in nanoseconds of the steady clock.
    std::atomic<int64_t> last_ns{0};
    /// Since when a device has been at its present piece; 0: it has none. By the device's place.
    std::vector<std::atomic<int64_t>> at_work_since_ns;
};

/// The shell around one device: issues its work in order of arrival and never waits for it. On a CPU a piece of work
/// runs on this actor's own thread, and is complete when it has been issued. Where a choice of keys begins behind a
/// prompt or a step, the runner begins it before it answers, because the choice copies queries on the device. These are
/// some MiB a choice, and the time that copying them takes is in no figure of the runner.
class DeviceRunner : public device_runner_actor::base {
public:
    /// By runtime's methods, how prompts attend on this device; null: to everything.
    using PromptAttention = std::vector<std::unique_ptr<SparsePrefill>>;

    DeviceRunner(caf::actor_config& config, RuntimePtr runtime, std::shared_ptr<Stepper> stepper,
                 std::shared_ptr<PromptAttention> prompts, std::shared_ptr<Progress> progress, size_t device)
        : device_runner_actor::base(config),
          runtime_(std::move(runtime)),
          stepper_(std::move(stepper)),
          prompts_(std::move(prompts)),
          progress_(std::move(progress)),
          at_work_since_ns_(&progress_->at_work_since_ns.at(device)) {}
    behavior_type make_behavior() override;
    const char* name() const override { return "device_runner"; }
    void on_exit() override;

private:
    template <class Work>
    struct Asked {
        std::shared_ptr<Work> work;
        caf::typed_response_promise<std::shared_ptr<Work>> promise;
    };
    using Piece = std::variant<Asked<Step>, Asked<Chunk>, Asked<ChoiceJob>>;

    template <class Work>
    caf::typed_response_promise<std::shared_ptr<Work>> take(const std::shared_ptr<Work>& work);
    void issue_next();
    Status issue(Step& step);
    Status issue(Chunk& chunk);
    Status issue(ChoiceJob& job);
    Status begin_chunk(Turn& turn);
    Status begin_ahead(Turn& turn);
    void refused(const Status& why);
    void complete(const Status& status);
    void answer(const Status& status);
    void count_lines(Turn& turn);
    void collect(Step& step);
    void collect(Chunk& chunk);
    void collect(ChoiceJob& job);

    RuntimePtr runtime_;  // the stepper uses it
    std::shared_ptr<Stepper> stepper_;
    std::shared_ptr<PromptAttention> prompts_;
    std::shared_ptr<Progress> progress_;
    std::atomic<int64_t>* at_work_since_ns_;  // of progress_
    std::deque<Piece> waiting_;               // at most one a stage: each waits for its answer
    std::optional<Piece> current_;
    std::chrono::steady_clock::time_point started_;
    DevicePace pace_;
};

}  // namespace rondo
