#include "config/control_groups.hpp"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <fstream>
#include <sstream>

namespace rondo {

namespace {

/// Calls look(folder) with the folder of a group and with those of the groups around it, up to `top`.
template <class F>
void look_upwards(const std::string& top, const std::string& path, F&& look) {
    std::string folder = top + path;
    for (look(folder); folder.size() > top.size(); look(folder)) folder.erase(folder.rfind('/'));
}

/// SIZE_MAX for "max", and where there is no such file.
size_t bytes_in(const std::string& path) {
    std::ifstream file(path);
    uint64_t bytes = 0;
    return file >> bytes ? static_cast<size_t>(bytes) : SIZE_MAX;
}

/// A quota of "max", of −1, or of nothing that can be read is none.
int cores_of(std::istream& quota_from, std::istream& period_from) {
    int64_t quota = 0, period = 0;
    if (!(quota_from >> quota) || !(period_from >> period) || quota <= 0 || period <= 0) return INT_MAX;
    const int64_t whole = quota / period + (quota % period == 0 ? 0 : 1);
    return static_cast<int>(std::min<int64_t>(whole, INT_MAX));
}

/// Version 2 has both numbers in one file.
int cores_in(const std::string& path) {
    std::ifstream file(path);
    return cores_of(file, file);
}

int cores_in(const std::string& quota_path, const std::string& period_path) {
    std::ifstream quota(quota_path), period(period_path);
    return cores_of(quota, period);
}

}  // namespace

ControlGroups::ControlGroups(const std::string& root) : tree_(root + "/sys/fs/cgroup") {
    std::ifstream file(root + "/proc/self/cgroup");
    for (std::string text; std::getline(file, text);) {
        const size_t first = text.find(':'), second = first == text.npos ? first : text.find(':', first + 1);
        if (second == text.npos || second + 1 == text.size() || text[second + 1] != '/') continue;
        Line& line = lines_.emplace_back();
        line.mount = text.substr(first + 1, second - first - 1);
        line.path = text.substr(second + 1) == "/" ? "" : text.substr(second + 1);
        std::istringstream controllers(line.mount);
        for (std::string one; std::getline(controllers, one, ',');) line.controllers.push_back(one);
    }
}

size_t ControlGroups::memory_bytes() const {
    size_t least = SIZE_MAX;
    for (const Line& line : lines_) {
        const bool first_version = std::ranges::count(line.controllers, "memory") != 0;
        if (!first_version && !line.controllers.empty()) continue;
        const char* const file = first_version ? "/memory.limit_in_bytes" : "/memory.max";
        look_upwards(first_version ? tree_ + "/memory" : tree_, line.path,
                     [&](const std::string& folder) { least = std::min(least, bytes_in(folder + file)); });
    }
    return least;
}

int ControlGroups::cores() const {
    int least = INT_MAX;
    for (const Line& line : lines_) {
        if (line.controllers.empty())
            look_upwards(tree_, line.path,
                         [&](const std::string& folder) { least = std::min(least, cores_in(folder + "/cpu.max")); });
        if (std::ranges::count(line.controllers, "cpu") == 0) continue;
        // "cpu,cpuacct" is mounted under that name, under "cpu", or under both.
        for (const std::string& mount : {line.mount, std::string("cpu")})
            look_upwards(tree_ + "/" + mount, line.path, [&](const std::string& folder) {
                least = std::min(least, cores_in(folder + "/cpu.cfs_quota_us", folder + "/cpu.cfs_period_us"));
            });
    }
    return least;
}

}  // namespace rondo
