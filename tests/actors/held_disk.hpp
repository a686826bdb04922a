#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "memory/store/disk_queue.hpp"
#include "tests/actors/store_actor_fixture.hpp"

namespace rondo::testing {

/// A disk that hangs where the test says so, until it is let go. Serves one engine after the other, each of which must
/// end after that. Safe from any thread.
class HeldDisk {
public:
    using Which = std::function<bool(const DiskWork&)>;
    static bool everything(const DiskWork&) { return true; }
    static bool reads(const DiskWork& work) { return work.kind == DiskWork::Kind::read; }

    HeldDisk() = default;
    HeldDisk(const HeldDisk&) = delete;
    HeldDisk& operator=(const HeldDisk&) = delete;
    ~HeldDisk() { let_go(); }

    /// For EngineInside::Hooks.
    std::function<std::unique_ptr<DiskQueue>()> maker() const {
        return [gate = gate_] { return std::make_unique<Queue>(gate); };
    }
    /// Such work hangs from now on.
    void hold(Which which) {
        const std::lock_guard lock(gate_->mutex);
        gate_->which = std::move(which);
    }
    /// What hangs goes on, and so does what comes later.
    void let_go() {
        std::vector<std::pair<DiskQueue*, DiskWork>> held;
        {
            const std::lock_guard lock(gate_->mutex);
            gate_->which = nullptr;
            held.swap(gate_->held);
        }
        for (auto& [disk, work] : held) disk->submit(std::move(work));
    }
    /// Pieces of work that hang.
    size_t held() const {
        const std::lock_guard lock(gate_->mutex);
        return gate_->held.size();
    }

private:
    struct Gate {
        std::mutex mutex;
        Which which;
        std::vector<std::pair<DiskQueue*, DiskWork>> held;
    };
    class Queue final : public DiskQueue {
    public:
        explicit Queue(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}
        void submit(DiskWork work) override {
            std::unique_lock lock(gate_->mutex);
            if (gate_->which && gate_->which(work)) {
                gate_->held.emplace_back(disk_.get(), std::move(work));
                return;
            }
            lock.unlock();
            disk_->submit(std::move(work));
        }
        Way way() const override { return disk_->way(); }

    private:
        const std::shared_ptr<Gate> gate_;
        const std::unique_ptr<DiskQueue> disk_ = must(DiskQueue::open({}));
    };

    const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
};

/// A pipeline whose store has such a disk.
class HeldDiskTest : public StoreActorTest {
protected:
    void start(std::vector<std::string> more = {}) {
        disk_.let_go();
        stage_.reset();
        stage_.emplace(settings_of(overrides(std::move(more))), Engine::Options{}, disk_.maker());
    }
    /// The store takes up what disk and device have done, while no time passes: nobody loses patience, and what is read
    /// has taken no time.
    void pump_until(const std::function<bool()>& done) {
        pump_until(done, [this] { stage_->run(); });
    }
    /// The same, and nobody but the store does anything.
    void pump_store_alone_until(const std::function<bool()>& done) {
        const caf::actor store = caf::actor_cast<caf::actor>(stage_->inside().store());
        const auto* const alone = dynamic_cast<caf::resumable*>(caf::actor_cast<caf::abstract_actor*>(store));
        ASSERT_NE(alone, nullptr);
        pump_until(done, [&] {
            stage_->scheduler().run_jobs_filtered([alone](const caf::resumable* job) { return job == alone; });
        });
    }
    /// All of them at once, and nobody takes up what disk and device do for them.
    std::vector<Heard> ask_at_once(const std::vector<std::vector<int32_t>>& prompts, int64_t tokens_max) {
        std::vector<Heard> heard(prompts.size());
        for (size_t i = 0; i < prompts.size(); ++i)
            stage_->engine().ask(continue_ids(prompts[i], tokens_max), heard[i].callbacks());
        stage_->run();
        for (const Heard& one : heard) EXPECT_EQ(one.ends.size(), 1U);
        return heard;
    }
    /// A turn for which what is stored is read, however slow the disk is.
    Heard turn_in_no_time(Ask ask) {
        Heard heard;
        stage_->engine().ask(std::move(ask), heard.callbacks());
        pump_until([&heard] { return !heard.ends.empty(); });
        return heard;
    }
    /// So many ids that differ from all others' in the first.
    static std::vector<int32_t> ids_of(int prompt, int count) {
        std::vector<int32_t> ids = some_ids(count);
        ids[0] = 300 + prompt;
        return ids;
    }
    const KvPool& pool() { return stage_->inside().pool(); }

    HeldDisk disk_;

private:
    void pump_until(const std::function<bool()>& done, const std::function<void()>& run) {
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (!done() && std::chrono::steady_clock::now() < until) {
            caf::anon_send(stage_->inside().store(), pump_atom::value);
            run();
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        ASSERT_TRUE(done());
    }
};

}  // namespace rondo::testing
