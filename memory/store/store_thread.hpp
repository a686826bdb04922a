#pragma once

#include <functional>
#include <memory>
#include <utility>

namespace rondo {

/// The way to the store's thread from those of the disk and of the device. What they hand over runs there, unless the
/// object that owns this has gone by then. Copies have the same owner, who alone may end them.
class StoreThread {
public:
    /// Runs a task on the store's thread, or drops it once nobody uses the store any more. Safe from any thread.
    using Post = std::function<void(std::function<void()>)>;

    explicit StoreThread(Post post) : post_(std::move(post)) {}

    /// Safe from any thread.
    void run(std::function<void()> task) const {
        post_([owner = owner_, task = std::move(task)] {
            if (*owner) task();
        });
    }
    /// A function for other threads: what it is told there, `done` is told on the store's thread.
    template <class T>
    std::function<void(T)> handing_over(std::function<void(T)> done) const {
        return [*this, done = std::move(done)](T result) {
            run([done, result = std::move(result)]() mutable { done(std::move(result)); });
        };
    }
    /// The owner has not gone yet. On the store's thread alone, as `end`.
    bool has_owner() const { return *owner_; }
    /// The owner goes.
    void end() { *owner_ = false; }

private:
    Post post_;
    std::shared_ptr<bool> owner_ = std::make_shared<bool>(true);
};

}  // namespace rondo
