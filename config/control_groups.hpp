#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace rondo {

/// What the control groups of this process allow it: a container is such a group. Of each limit the least counts, of
/// the groups themselves and of those around them. The groups are read once, a limit's file at each question.
class ControlGroups {
public:
    /// `root` stands before /proc/self/cgroup and /sys/fs/cgroup. Tests have a tree of their own there.
    explicit ControlGroups(const std::string& root = "");

    /// SIZE_MAX where there is no limit.
    size_t memory_bytes() const;
    /// The cores that a quota of processor time is worth, rounded up: at least 1, and INT_MAX where there is no quota.
    int cores() const;

private:
    /// A line of /proc/self/cgroup: "0::/a/b" of version 2, "7:memory:/a/b" of version 1.
    struct Line {
        std::vector<std::string> controllers;  ///< none in version 2
        std::string mount;                     ///< of version 1: the controllers as they stand there
        std::string path;                      ///< "" for the topmost group, else from "/" on
    };

    std::string tree_;
    std::vector<Line> lines_;
};

}  // namespace rondo
