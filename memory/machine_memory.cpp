#include "memory/machine_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>

namespace rondo {

namespace {

/// What a limit's file says; SIZE_MAX for "max", and where there is none.
size_t limit_in(const std::string& path) {
    std::ifstream file(path);
    uint64_t bytes = 0;
    return file >> bytes ? static_cast<size_t>(bytes) : SIZE_MAX;
}

/// Of a group and all around it.
size_t least_limit(std::string folder, const std::string& root, const char* file) {
    size_t least = SIZE_MAX;
    for (; folder.size() >= root.size(); folder.erase(std::min(folder.rfind('/'), folder.size()))) {
        least = std::min(least, limit_in(folder + "/" + file));
        if (folder.find('/') == std::string::npos) break;
    }
    return least;
}

}  // namespace

size_t control_group_limit(std::string_view groups, const std::string& root) {
    size_t least = SIZE_MAX;
    while (!groups.empty()) {
        const std::string_view line = groups.substr(0, groups.find('\n'));
        groups.remove_prefix(std::min(line.size() + 1, groups.size()));
        // "0::/a/b" of version 2, "7:memory:/a/b" of version 1.
        const size_t first = line.find(':'), second = first == line.npos ? first : line.find(':', first + 1);
        if (second == line.npos) continue;
        const std::string_view controllers = line.substr(first + 1, second - first - 1);
        const std::string path(line.substr(second + 1) == "/" ? "" : line.substr(second + 1));
        if (controllers.empty()) least = std::min(least, least_limit(root + path, root, "memory.max"));
        if (controllers == "memory")
            least = std::min(least, least_limit(root + "/memory" + path, root + "/memory", "memory.limit_in_bytes"));
    }
    return least;
}

size_t machine_memory_bytes() {
    const auto machine = static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    std::ifstream file("/proc/self/cgroup");
    const std::string groups{std::istreambuf_iterator<char>(file), {}};
    return std::min(machine, control_group_limit(groups, "/sys/fs/cgroup"));
}

}  // namespace rondo
