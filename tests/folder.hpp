#pragma once

#include <stdlib.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace rondo::testing {

/// A folder of a test's own, so that several processes may test at once. Closed to others, and gone with its contents
/// at the end.
class Folder {
public:
    explicit Folder(const std::filesystem::path& in = std::filesystem::temp_directory_path()) {
        std::string name = (in / "rondo-test-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
        path_ = name;
    }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

}  // namespace rondo::testing
