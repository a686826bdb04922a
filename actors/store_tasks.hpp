#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace rondo {

/// What disk and device have for the store's actor to do: put here on any thread, run on its own.
class StoreTasks {
public:
    /// Dropped once nobody runs them any more.
    void post(std::function<void()> task) {
        const std::unique_lock lock(mutex_);
        if (closed_) return;
        tasks_.push_back(std::move(task));
        if (!std::exchange(woken_, true) && wake_) wake_();
    }
    /// `wake` is called when there are tasks; it must only send a message.
    void begin(std::function<void()> wake) {
        const std::unique_lock lock(mutex_);
        wake_ = std::move(wake);
        if (woken_) wake_();
    }
    void run() {
        std::deque<std::function<void()>> tasks;
        {
            const std::unique_lock lock(mutex_);
            woken_ = false;
            tasks.swap(tasks_);
        }
        for (auto& task : tasks) std::exchange(task, nullptr)();  // what it holds goes when it is done
    }
    void close() {
        std::deque<std::function<void()>> tasks;  // they may post when they go
        const std::unique_lock lock(mutex_);
        closed_ = true;
        wake_ = nullptr;
        tasks.swap(tasks_);
    }

private:
    std::mutex mutex_;
    std::deque<std::function<void()>> tasks_;
    std::function<void()> wake_;
    bool woken_ = false, closed_ = false;
};

}  // namespace rondo
