#include "tests/emulated/grid.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

// The ends of all __shared__ variables (shared_memory.ld).
extern char __start_emulated_shared[];
extern char __stop_emulated_shared[];

namespace rondo::emulated {
namespace {

struct Turns {
    Order order;
    unsigned seed = 1;
};

Turns turns_of_environment() {
    const char* const text = std::getenv("RONDO_EMULATED_ORDER");
    const std::string_view name = text == nullptr ? "forward" : text;
    if (name == "forward") return {Order::forward};
    if (name == "reverse") return {Order::reverse};
    if (name == "random") return {Order::random};
    constexpr std::string_view seeded = "random:";
    if (name.starts_with(seeded)) {
        Turns turns{Order::random};
        const char* const end = name.data() + name.size();
        const auto read = std::from_chars(name.data() + seeded.size(), end, turns.seed);
        if (read.ec == std::errc() && read.ptr == end) return turns;
    }
    std::fprintf(stderr, "RONDO_EMULATED_ORDER is \"%s\"; it must be forward, reverse, random or random:SEED\n", text);
    std::exit(2);
}

struct Gpu {
    std::mutex mutex;
    Turns turns = turns_of_environment();
};

Gpu& gpu() {
    static Gpu one;
    return one;
}

/// By hand, so that no sanitizer takes it for an access: between two variables AddressSanitizer has ground of its own.
void poison_shared_memory() {
    void* at = __start_emulated_shared;
    size_t left = static_cast<size_t>(__stop_emulated_shared - __start_emulated_shared);
    asm volatile("rep stosb" : "+D"(at), "+c"(left) : "a"(0xff) : "memory");
}

/// The numbers of all blocks in the order in which they run.
std::vector<uint64_t> order_of_blocks(uint64_t count, const Turns& turns) {
    std::vector<uint64_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0);
    if (turns.order == Order::reverse) std::reverse(numbers.begin(), numbers.end());
    if (turns.order == Order::random)
        std::shuffle(numbers.begin(), numbers.end(), std::minstd_rand(scattered(turns.seed)));
    return numbers;
}

}  // namespace

std::optional<std::string> run_grid(const Shape& shape, const std::function<void()>& kernel) {
    const std::lock_guard lock(gpu().mutex);
    const Turns turns = gpu().turns;
    const dim3& grid = shape.grid;
    begin_grid(shape, turns.order, turns.seed, kernel);
    for (const uint64_t number : order_of_blocks(uint64_t{grid.x} * grid.y * grid.z, turns)) {
        poison_shared_memory();
        const uint3 index = {static_cast<unsigned>(number % grid.x), static_cast<unsigned>(number / grid.x % grid.y),
                             static_cast<unsigned>(number / grid.x / grid.y)};
        if (auto fault = run_block(index)) return fault;
    }
    return std::nullopt;
}

void set_order(Order order, unsigned seed) {
    const std::lock_guard lock(gpu().mutex);
    gpu().turns = {order, seed};
}

void reset_order() {
    const Turns turns = turns_of_environment();
    set_order(turns.order, turns.seed);
}

}  // namespace rondo::emulated
