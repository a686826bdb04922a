#include "actors/restore_split.hpp"

#include <algorithm>

namespace rondo {

namespace {

// Computing takes from others who want the device. So of the time that it takes in place of reading, so much must be
// saved.
constexpr double saved_min = 0.25;

}  // namespace

size_t rounds_ahead(const RestoreTask& task) {
    uint64_t bytes = 0;
    for (const RestoreTask::Round& round : task.rounds) bytes += round.bytes;
    double computing = 0.0;
    const auto done = [&] {
        const double computed = task.computed_from + computing + task.seconds_behind;
        const double read = task.read_from + task.seconds_per_byte * static_cast<double>(bytes);
        return bytes == 0 ? computed : std::max(computed, read);
    };
    double all = 0.0;
    for (const RestoreTask::Round& round : task.rounds) all += round.seconds;
    const double all_read = done(), all_computed = task.computed_from + all + task.seconds_behind;
    // What it is compared with, and the computing that this takes.
    const double otherwise = std::min(all_read, all_computed), own = all_computed < all_read ? all : 0.0;
    double best = otherwise;
    size_t rounds = 0;
    for (size_t count = 1; count < task.rounds.size(); ++count) {
        bytes -= task.rounds[count - 1].bytes;
        computing += task.rounds[count - 1].seconds;
        const double soon = done();
        if (soon >= best || otherwise - soon < saved_min * (computing - own)) continue;
        best = soon;
        rounds = count;
    }
    return rounds;
}

}  // namespace rondo
