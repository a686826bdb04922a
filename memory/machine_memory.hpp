#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rondo {

/// How much memory this process may have: the machine's, or less where a control group says so (a container).
size_t machine_memory_bytes();

/// The least limit of the control groups that `groups` names (as /proc/self/cgroup does) and of those around them,
/// whose files lie below `root`; SIZE_MAX where none has one.
size_t control_group_limit(std::string_view groups, const std::string& root);

}  // namespace rondo
