#pragma once

#include <vector_types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <source_location>
#include <string>

/// How the threads of one block go on, wait for each other and meet in shuffles.
namespace rondo::emulated {

/// In which order threads take turns, and blocks follow each other. A kernel must give the same in all of them.
enum class Order { forward, reverse, random };

struct Shape {
    dim3 grid;
    dim3 block;
};

/// Seeds that lie side by side give orders that have nothing in common.
inline unsigned scattered(unsigned seed) {
    return seed * 2654435761U;
}

/// The blocks that follow are of this grid and run on the calling thread. One grid at a time: the caller holds the
/// lock. A seed gives the same random order to each grid of a shape, whatever ran before.
void begin_grid(const Shape& shape, Order order, unsigned seed, const std::function<void()>& kernel);
/// Runs one block to its end, or to the first thing that no kernel may do, which it says in one line.
std::optional<std::string> run_block(uint3 index);

// What kernels call, each from a thread of the block.

/// All threads of the block meet, at the same place in the source; nobody may have ended.
void block_barrier(const std::source_location& at);
/// The lanes of the mask meet.
void warp_barrier(unsigned mask, const std::source_location& at);
/// Gives what the lane `from` brought. It orders no memory, as on the hardware.
uint64_t exchange(unsigned mask, uint64_t mine, unsigned from, const std::source_location& at);
/// 0 to 31.
unsigned lane();
/// Ends the kernel with this fault.
[[noreturn]] void fail(const std::string& what);

}  // namespace rondo::emulated

// Set whenever a thread goes on. They are no macros, because cudaLaunchConfig_t has members of these names.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
