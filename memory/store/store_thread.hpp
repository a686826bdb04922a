#pragma once

#include <functional>
#include <memory>
#include <utility>

namespace rondo {

/// The way to the store's thread from those of the disk and of the device. What they hand over runs there, unless the
/// owner of this way has gone by then. Copies have the same owner, and do not keep it.
///
/// The owner has it as its last member, which goes first: tasks touch all other members, so none may run once one of
/// these has gone. The owner goes on the store's thread, where tasks run.
class StoreThread {
public:
    /// Runs a task on the store's thread, or drops it once nobody uses the store any more. Safe from any thread.
    using Post = std::function<void(std::function<void()>)>;

    explicit StoreThread(Post post) : post_(std::move(post)), own_(std::make_shared<Owner>()), owner_(own_) {}
    StoreThread(const StoreThread& other) : post_(other.post_), owner_(other.owner_) {}
    StoreThread(StoreThread&&) = default;

    /// Safe from any thread.
    void run(std::function<void()> task) const {
        post_([owner = owner_, task = std::move(task)] {
            if (!owner.expired()) task();
        });
    }
    /// A function for other threads: what it is told there, `done` is told on the store's thread.
    template <class T>
    std::function<void(T)> handing_over(std::function<void(T)> done) const {
        return [*this, done = std::move(done)](T result) {
            run([done, result = std::move(result)]() mutable { done(std::move(result)); });
        };
    }
    /// The owner has not gone yet. On the store's thread alone.
    bool has_owner() const { return !owner_.expired(); }

private:
    struct Owner {};

    Post post_;
    std::shared_ptr<Owner> own_;  // the owner's alone: copies have none
    std::weak_ptr<Owner> owner_;
};

}  // namespace rondo
