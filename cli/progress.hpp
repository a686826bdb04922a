#pragma once

#include <chrono>
#include <string>

namespace rondo::cli {

/// One line on a terminal that says how far a long task is. Silent when standard error is not a terminal, and for tasks
/// that end within a moment.
class Progress {
public:
    explicit Progress(std::string what);
    ~Progress() { finish(); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void show(double share);
    void finish();

private:
    std::string what_;
    bool terminal_;
    bool shown_ = false;
    std::chrono::steady_clock::time_point start_, last_;
};

}  // namespace rondo::cli
