#pragma once

#include <cstddef>

namespace rondo::emulated {

/// A flow of control with a stack of its own that runs until it switches to another. A thread of a block is one. The
/// sanitizers hear of every switch, so that ThreadSanitizer takes fibers for threads and AddressSanitizer knows their
/// stacks. All fibers of a block run on one thread of the host.
class Fiber {
public:
    Fiber() = default;
    ~Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    /// The next switch to this fiber calls `entry` on a fresh stack; it must never return. Whatever ran here is given
    /// up: its frames are not unwound.
    void start(void (*entry)());
    /// This fiber is the calling thread of the host, on the stack that it has.
    void adopt_caller();
    /// Goes on in `to`; returns when somebody switches back. Must be called by the fiber itself.
    void switch_to(Fiber& to);
    /// The same for the last time: nobody will switch back.
    [[noreturn]] void leave_for(Fiber& to);
    /// This fiber does not go on: what it did so far is known to who acquires the place.
    void give_up(const void* place);
    /// The first thing that an entry calls.
    static void entered();

private:
    void tell_sanitizers(void** kept, Fiber& to);

    void* stack_pointer_ = nullptr;
    void* stack_ = nullptr;  ///< own, or the host thread's
    size_t stack_bytes_ = 0;
    bool owns_stack_ = false;
    void* tsan_ = nullptr;
};

/// For ThreadSanitizer: what the caller did before a release is known to who acquires the same place afterwards.
void release(const void* place);
void acquire(const void* place);

}  // namespace rondo::emulated
