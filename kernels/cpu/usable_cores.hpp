#pragma once

#include <sched.h>

#include <cstddef>
#include <functional>

#include "config/control_groups.hpp"

namespace rondo::cpu {

/// How many cores this process may use at once: those that it may run on (`taskset`, a cpuset), or fewer where a
/// control group gives it less time than that (a container's quota).
int usable_cores(const ControlGroups& groups = ControlGroups());

/// The cores that the calling thread may run on; 1 where nobody knows. `ask` is `sched_getaffinity` of this thread: it
/// refuses with EINVAL while the set is smaller than the machine.
int affinity_cores(const std::function<int(size_t bytes, cpu_set_t* set)>& ask);

}  // namespace rondo::cpu
