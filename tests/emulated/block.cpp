#include "tests/emulated/block.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "tests/emulated/fiber.hpp"

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace rondo::emulated {
namespace {

constexpr unsigned warp_lanes = 32;

/// What `fail` throws: the frames of a kernel between there and `run_thread` are unwound.
struct Fault {
    std::string what;
};

/// Where some threads meet: `arrived` of them wait for the rest. A generation is one meeting; its parity keeps what
/// the next one brings apart from what slow readers of this one have yet to fetch.
struct Meeting {
    unsigned arrived = 0;  // threads of a block; of a warp a bit for each lane
    uint64_t generation = 0;
    std::source_location at;
    const char* what = nullptr;
    uint64_t ordered[2];  // the places that ThreadSanitizer hears of
};

struct Warp {
    Meeting meeting;
    uint64_t brought[2][warp_lanes];
};

struct Thread {
    Fiber fiber;
    uint3 index{};
    unsigned number = 0;
    bool done = true;
    const uint64_t* waits_on = nullptr;  // a generation, until it is another than `seen`
    uint64_t seen = 0;

    bool can_go_on() const { return !done && (waits_on == nullptr || *waits_on != seen); }
};

/// The block that runs now. Threads keep their stacks from block to block.
struct Block {
    Fiber caller;
    std::vector<std::unique_ptr<Thread>> threads;
    std::vector<Warp> warps;
    std::vector<unsigned> turns;  // numbers of threads
    size_t turn = 0;
    unsigned count = 0;
    unsigned live = 0;
    Meeting barrier;
    Thread* current = nullptr;
    const std::function<void()>* kernel = nullptr;
    Order order = Order::forward;
    std::optional<std::string> fault;
    std::minstd_rand random{1};
    uint64_t begun = 0, ended = 0;  // the places that ThreadSanitizer hears of
};

Block block;

std::string place(const std::source_location& at) {
    const std::string path = at.file_name();
    return path.substr(path.rfind('/') + 1) + ":" + std::to_string(at.line());
}

bool same_place(const std::source_location& a, const std::source_location& b) {
    return a.line() == b.line() && a.column() == b.column() &&
           (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

std::string waiting_at() {
    for (unsigned t = 0; t < block.count; ++t) {
        const Thread& thread = *block.threads[t];
        if (thread.done || thread.waits_on == nullptr) continue;
        const bool of_block = thread.waits_on == &block.barrier.generation;
        const Meeting& meeting = of_block ? block.barrier : block.warps[t / warp_lanes].meeting;
        return "thread " + std::to_string(t) + " at the " + meeting.what + " of " + place(meeting.at);
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

void wait_for_next(const uint64_t& generation, uint64_t seen) {
    Thread& me = *block.current;
    me.waits_on = &generation;
    me.seen = seen;
    Thread& next = choose_next();
    if (&next != &me) me.fiber.switch_to(next.fiber);
    me.waits_on = nullptr;
}

/// Joins the meeting, which ends when `all` have arrived; gives its parity. Who `orders` sees afterwards what the
/// others did before.
unsigned meet(Meeting& meeting, unsigned mine, unsigned all, bool orders) {
    const uint64_t seen = meeting.generation;
    const unsigned parity = seen & 1;
    if (orders) release(&meeting.ordered[parity]);
    meeting.arrived += mine;
    if (meeting.arrived == all) {
        meeting.arrived = 0;
        ++meeting.generation;
    } else {
        wait_for_next(meeting.generation, seen);
    }
    if (orders) acquire(&meeting.ordered[parity]);
    return parity;
}

void expect_same_place(Meeting& meeting, const char* what, const std::source_location& at) {
    if (meeting.arrived == 0) {
        meeting.at = at;
        meeting.what = what;
    } else if (meeting.what != what || !same_place(meeting.at, at)) {
        fail(std::string("threads meet at different places: the ") + meeting.what + " of " + place(meeting.at) +
             " and the " + what + " of " + place(at));
    }
}

Warp& enter_warp(unsigned mask, const char* what, const std::source_location& at) {
    Warp& warp = block.warps[block.current->number / warp_lanes];
    if ((mask >> lane() & 1) == 0) fail(std::string("a lane outside its own mask in the ") + what + " of " + place(at));
    expect_same_place(warp.meeting, what, at);
    return warp;
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
    block.barrier = {};
    block.fault.reset();
    block.warps.assign((block.count + warp_lanes - 1) / warp_lanes, Warp());
    block.turn = block.turns.size();
    for (unsigned t = 0; t < block.count; ++t) {
        Thread& thread = *block.threads[t];
        thread.done = false;
        thread.waits_on = nullptr;
        thread.fiber.start(run_thread);
    }
}

}  // namespace

void begin_grid(const Shape& shape, Order order, const std::function<void()>& kernel) {
    const dim3& size = shape.block;
    block.count = size.x * size.y * size.z;
    block.kernel = &kernel;
    block.order = order;
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

unsigned lane() {
    return block.current->number % warp_lanes;
}

void block_barrier(const std::source_location& at) {
    if (block.live < block.count) fail("a barrier at " + place(at) + " after other threads of the block have ended");
    expect_same_place(block.barrier, "barrier", at);
    (void)meet(block.barrier, 1, block.live, true);
}

void warp_barrier(unsigned mask, const std::source_location& at) {
    Warp& warp = enter_warp(mask, "warp barrier", at);
    (void)meet(warp.meeting, 1U << lane(), mask, true);
}

uint64_t exchange(unsigned mask, uint64_t mine, unsigned from, const std::source_location& at) {
    Warp& warp = enter_warp(mask, "shuffle", at);
    if ((mask >> from & 1) == 0) fail("a shuffle at " + place(at) + " from a lane outside the mask");
    warp.brought[warp.meeting.generation & 1][lane()] = mine;
    const unsigned parity = meet(warp.meeting, 1U << lane(), mask, false);
    return warp.brought[parity][from];
}

}  // namespace rondo::emulated
