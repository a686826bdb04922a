#include "tests/emulated/block.hpp"

#include <algorithm>
#include <numeric>

#include "tests/emulated/meeting.hpp"

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace rondo::emulated {

Block block;

namespace {

/// What `fail` throws: the frames of a kernel between there and `run_thread` are unwound.
struct Fault {
    std::string what;
};

std::string waiting_at() {
    for (unsigned t = 0; t < block.count; ++t) {
        const Thread& thread = *block.threads[t];
        if (thread.done || thread.waits_in == nullptr) continue;
        return "thread " + std::to_string(t) + " at the " + thread.waits_in->what + " of " + place(thread.waits_in->at);
    }
    return "none";
}

Thread* next_thread() {
    for (size_t tried = 0; tried < block.turns.size(); ++tried) {
        if (++block.turn >= block.turns.size()) {
            block.turn = 0;
            if (block.order == Order::random) std::shuffle(block.turns.begin(), block.turns.end(), block.random);
        }
        Thread& thread = *block.threads[block.turns[block.turn]];
        if (thread.can_go_on()) return &thread;
    }
    for (unsigned t = 0; t < block.count; ++t) {  // a shuffle may have hidden one
        if (block.threads[t]->can_go_on()) return block.threads[t].get();
    }
    return nullptr;
}

/// `next_thread`, which becomes the current one.
Thread& choose_next() {
    Thread* const next = next_thread();
    if (next == nullptr) fail("no thread can go on: the others never come to where they wait; " + waiting_at());
    block.current = next;
    threadIdx = next->index;
    return *next;
}

/// Who goes on when the current thread has come to its end.
Fiber& end_thread() {
    block.current->done = true;
    --block.live;
    if (block.live == 0) return block.caller;
    if (block.barrier.arrived != 0)
        fail("a thread has ended while others wait at the barrier of " + place(block.barrier.at));
    return choose_next().fiber;
}

void run_thread() {
    Fiber::entered();
    acquire(&block.begun);
    Thread& me = *block.current;
    Fiber* next = &block.caller;
    try {
        (*block.kernel)();
        next = &end_thread();
    } catch (const Fault& fault) {
        block.fault = fault.what;
    }
    release(&block.ended);
    me.fiber.leave_for(*next);
}

void start_threads() {
    block.live = block.count;
    block.fault.reset();
    block.turn = block.turns.size();
    for (unsigned t = 0; t < block.count; ++t) {
        Thread& thread = *block.threads[t];
        thread.done = false;
        thread.waits_in = nullptr;
        thread.fiber.start(run_thread);
    }
}

}  // namespace

void wait_in(const Meeting& meeting, uint64_t seen) {
    Thread& me = *block.current;
    me.waits_in = &meeting;
    me.seen = seen;
    Thread& next = choose_next();
    if (&next != &me) me.fiber.switch_to(next.fiber);
    me.waits_in = nullptr;
}

void begin_grid(const Shape& shape, Order order, unsigned seed, const std::function<void()>& kernel) {
    const dim3& size = shape.block;
    block.count = size.x * size.y * size.z;
    block.kernel = &kernel;
    block.barrier = {};  // and the warps' meetings: a block that ends without a fault leaves nobody in them
    block.warps.assign((block.count + warp_lanes - 1) / warp_lanes, Warp());
    block.order = order;
    block.random.seed(scattered(seed));
    block.turns.resize(block.count);
    std::iota(block.turns.begin(), block.turns.end(), 0);
    if (order == Order::reverse) std::reverse(block.turns.begin(), block.turns.end());
    while (block.threads.size() < block.count) block.threads.push_back(std::make_unique<Thread>());
    for (unsigned t = 0; t < block.count; ++t) {
        block.threads[t]->index = {t % size.x, t / size.x % size.y, t / size.x / size.y};
        block.threads[t]->number = t;
    }
    blockDim = size;
    gridDim = shape.grid;
    block.caller.adopt_caller();
}

std::optional<std::string> run_block(uint3 index) {
    start_threads();
    blockIdx = index;
    acquire(&block.ended);  // what one block left in shared memory is no race with the next
    release(&block.begun);
    block.caller.switch_to(choose_next().fiber);
    for (unsigned t = 0; t < block.count && block.fault; ++t) {
        if (!block.threads[t]->done) block.threads[t]->fiber.give_up(&block.ended);
    }
    acquire(&block.ended);
    block.current = nullptr;
    return block.fault;
}

void fail(const std::string& what) {
    throw Fault{"block (" + std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) + ", " +
                std::to_string(blockIdx.z) + "), thread " + std::to_string(block.current->number) + ": " + what};
}

}  // namespace rondo::emulated
