#pragma once

#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "tests/memory/store/store_fixture.hpp"

namespace rondo::testing {

/// A disk of some MiB in memory, mounted at a folder of its own until the end. Only root can mount it: `why_not` says
/// what the kernel refused.
class SmallDisk {
public:
    explicit SmallDisk(int mib) : SmallDisk("tmpfs", "mode=0700,size=" + std::to_string(mib) + "m") {}
    /// Of any size, and without O_DIRECT or holes.
    static SmallDisk without_direct_files() { return {"ramfs", "mode=0700"}; }
    ~SmallDisk() {
        if (why_not_.empty()) static_cast<void>(umount2(folder_.path().c_str(), MNT_DETACH));
    }
    SmallDisk(const SmallDisk&) = delete;
    SmallDisk& operator=(const SmallDisk&) = delete;

    const std::string& path() const { return folder_.path(); }
    const std::string& why_not() const { return why_not_; }  ///< empty: it is there

private:
    SmallDisk(const char* kind, const std::string& options) {
        if (mount(kind, folder_.path().c_str(), kind, MS_NOSUID | MS_NODEV, options.c_str()) != 0)
            why_not_ = std::string("no small disk can be mounted here: ") + std::strerror(errno);
    }

    Folder folder_;
    std::string why_not_;
};

}  // namespace rondo::testing
