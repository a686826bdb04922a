#include "kernels/cpu/usable_cores.hpp"

#include <algorithm>
#include <cerrno>
#include <vector>

namespace rondo::cpu {

int affinity_cores(const std::function<int(size_t bytes, cpu_set_t* set)>& ask) {
    constexpr size_t sets_max = 1024;  // of 1024 cores each
    for (std::vector<cpu_set_t> sets(1); sets.size() <= sets_max; sets.resize(2 * sets.size())) {
        const size_t bytes = sets.size() * sizeof(cpu_set_t);
        if (ask(bytes, sets.data()) == 0) return std::max(1, CPU_COUNT_S(bytes, sets.data()));
        if (errno != EINVAL) break;
    }
    return 1;
}

int usable_cores(const ControlGroups& groups) {
    const int cores = affinity_cores([](size_t bytes, cpu_set_t* set) { return sched_getaffinity(0, bytes, set); });
    return std::min(cores, groups.cores());
}

}  // namespace rondo::cpu
