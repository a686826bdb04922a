#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "actors/store.hpp"
#include "tests/actors/pipeline_fixture.hpp"
#include "tests/flip_bit.hpp"
#include "tests/memory/store/store_fixture.hpp"

namespace rondo::testing {

/// A pipeline with a store, which may start again over the same folder.
class StoreActorTest : public ::testing::Test {
protected:
    std::vector<std::string> overrides(std::vector<std::string> more = {}) const {
        std::vector<std::string> all{demo_pool(170), "devices.cpu.threads=1", "memory.disk.free_mib=0",
                                     "memory.disk.min_tokens=16", "memory.disk.path=" + folder_.path() + "/kv"};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    void start(std::vector<std::string> more = {}) {
        stage_.reset();
        stage_.emplace(settings_of(overrides(std::move(more))));
    }
    /// Disk and device work on threads of their own; what they have done is taken up here.
    void run_until(const std::function<bool()>& done) {
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (!done() && std::chrono::steady_clock::now() < until) {
            if (stage_->inside().store()) caf::anon_send(stage_->inside().store(), pump_atom::value);
            stage_->pass(std::chrono::microseconds(100));
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        stage_->run();
        ASSERT_TRUE(done());
    }
    Heard turn(Ask ask) {
        Heard heard;
        stage_->engine().ask(std::move(ask), heard.callbacks());
        run_until([&heard] { return !heard.ends.empty(); });
        return heard;
    }
    void wait_until_written() {
        std::atomic<bool> idle{false};
        caf::scoped_actor self(stage_->system());
        auto asked = self->request(stage_->inside().store(), caf::infinite, drain_atom::value);
        std::thread answered([&] { asked.receive([&](bool) { idle = true; }, [](const caf::error&) {}); });
        // The scoped actor waits on its own thread, and messages are delivered on this one.
        run_until([&idle] { return idle.load(); });
        answered.join();
    }
    /// What the router answers, or why not. The scoped actor waits on its own thread, messages are delivered on this
    /// one.
    template <class Answer, class... Request>
    Result<Answer> asked(Request... request) {
        std::optional<Result<Answer>> got;
        std::atomic<bool> done{false};
        caf::scoped_actor self(stage_->system());
        auto sent = self->request(stage_->inside().router(), caf::infinite, request...);
        std::thread waits([&] {
            sent.receive([&](const Answer& value) { got = value; },
                         [&](const caf::error& error) { got = from_caf(error, "the router"); });
            done = true;
        });
        run_until([&done] { return done.load(); });
        waits.join();
        return *got;
    }
    template <class Answer, class... Request>
    Answer answer(Request... request) {
        Result<Answer> got = asked<Answer>(std::move(request)...);
        EXPECT_TRUE(got) << (got ? "" : got.error().message);
        return got ? *got : Answer();
    }
    template <class Answer, class... Request>
    bool failed(Request... request) {
        return !asked<Answer>(std::move(request)...);
    }
    /// Of each large segment a byte. Returns how many there are.
    int damage_the_middle() const {
        int damaged = 0;
        for (const auto& entry : std::filesystem::directory_iterator(folder_.path() + "/kv")) {
            if (!entry.is_regular_file() || entry.file_size() < 100'000) continue;
            flip_bit(entry.path(), entry.file_size() / 2);
            ++damaged;
        }
        return damaged;
    }
    const StoreFigures& figures() { return stage_->inside().store_figures(); }
    static std::vector<int32_t> some_ids(int count) {
        std::vector<int32_t> ids(static_cast<size_t>(count));
        for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(10 + 7 * i % 400);
        return ids;
    }
    static std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
        a.insert(a.end(), b.begin(), b.end());
        return a;
    }

    testing::Folder folder_;
    std::optional<Stage> stage_;
};

}  // namespace rondo::testing
