#pragma once

#include <array>
#include <memory>
#include <random>
#include <vector>

#include "tests/emulated/block.hpp"
#include "tests/emulated/fiber.hpp"

/// What block.cpp, where threads take turns, and meeting.cpp, where they wait for each other, know of a block.
namespace rondo::emulated {

inline constexpr unsigned warp_lanes = 32;
inline constexpr size_t masks_max = 8;  // that one warp of a kernel names

/// Where some threads meet: `arrived` of them wait for the rest. A generation is one meeting; its parity keeps what
/// ThreadSanitizer hears of one apart from the next, when some have yet to leave this one.
struct Meeting {
    unsigned mask = 0;     // of a warp's lanes; 0: nobody met here yet
    unsigned arrived = 0;  // threads of a block; of a warp a bit for each lane
    uint64_t generation = 0;
    std::source_location at;
    const char* what = nullptr;
    uint64_t ordered[2];  // the places that ThreadSanitizer hears of
};

/// Lanes meet by their mask, so that halves of a warp may go on by themselves. The last to come hands out what each
/// brought; until a lane comes again, nobody touches what it was given.
struct Warp {
    std::array<Meeting, masks_max> meetings;
    uint64_t brought[warp_lanes];
    unsigned from[warp_lanes];
    uint64_t given[warp_lanes];
};

struct Thread {
    Fiber fiber;
    uint3 index{};
    unsigned number = 0;
    bool done = true;
    const Meeting* waits_in = nullptr;  // until its generation is another than `seen`
    uint64_t seen = 0;

    bool can_go_on() const { return !done && (waits_in == nullptr || waits_in->generation != seen); }
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
    // Small enough to be inlined: ThreadSanitizer would see what it shares with instrumented files.
    std::minstd_rand random;
    uint64_t begun = 0, ended = 0;  // the places that ThreadSanitizer hears of
};

extern Block block;

/// The current thread goes on when the meeting's generation is another than `seen`; until then others do.
void wait_in(const Meeting& meeting, uint64_t seen);
/// FILE:LINE.
std::string place(const std::source_location& at);

}  // namespace rondo::emulated
