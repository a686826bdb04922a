#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::testing {

/// A disabled test of this program that a process of its own runs, whose memory may be lost at any moment. A fork alone
/// would lack the threads that RocksDB has begun here.
class ChildProcess {
public:
    static constexpr const char* variable = "RONDO_TEST_CHILD";

    /// `what` it is to do, which the test finds by `task`; its own files, which it may leave, lie in a folder.
    ChildProcess(const std::string& test, const std::string& what, const std::string& folder) {
        const std::string filter = "--gtest_filter=" + test, task = std::string(variable) + '=' + what;
        const std::string place = "TMPDIR=" + folder;
        std::vector<char*> arguments, environment;
        for (const char* one : {"child", filter.c_str(), "--gtest_also_run_disabled_tests", "--gtest_output="})
            arguments.push_back(const_cast<char*>(one));
        for (char** one = environ; *one != nullptr; ++one)
            if (!std::string_view(*one).starts_with("GTEST_") && !std::string_view(*one).starts_with("TMPDIR="))
                environment.push_back(*one);
        for (const std::string* one : {&task, &place}) environment.push_back(const_cast<char*>(one->c_str()));
        arguments.push_back(nullptr);
        environment.push_back(nullptr);
        int ends[2] = {-1, -1};
        if (pipe2(ends, O_CLOEXEC) != 0) return;
        from_ = ends[0];
        process_ = fork();
        if (process_ == 0) {
            dup2(ends[1], STDOUT_FILENO);
            execve("/proc/self/exe", arguments.data(), environment.data());
            _exit(127);
        }
        ::close(ends[1]);
    }
    ~ChildProcess() {
        if (process_ > 0) kill_it(), static_cast<void>(wait());
        if (from_ >= 0) ::close(from_);
    }
    ChildProcess(const ChildProcess&) = delete;
    ChildProcess& operator=(const ChildProcess&) = delete;

    void kill_it() const { ::kill(process_, SIGKILL); }
    /// All that it says until it ends, or until it has said so many lines.
    std::string output(size_t lines = SIZE_MAX) const {
        std::string all(1 << 16, '\0');
        size_t size = 0;
        const auto said = [&] {
            return static_cast<size_t>(std::ranges::count(std::string_view(all).substr(0, size), '@'));
        };
        while (lines == SIZE_MAX || said() < lines) {
            const ssize_t got = ::read(from_, all.data() + size, all.size() - size);
            if (got <= 0) break;
            size += static_cast<size_t>(got);
            if (all.size() - size < 4096) all.resize(2 * all.size());
        }
        all.resize(size);
        return all;
    }
    /// Its status, as `waitpid` tells it.
    int wait() {
        int status = 0;
        waitpid(std::exchange(process_, -1), &status, 0);
        return status;
    }

    // In the child:

    /// Null: this is none.
    static const char* task() { return std::getenv(variable); }
    static void say(const std::string& line) {
        const std::string all = '@' + line + '\n';
        static_cast<void>(!::write(STDOUT_FILENO, all.data(), all.size()));
    }

private:
    int from_ = -1;
    pid_t process_ = -1;
};

}  // namespace rondo::testing
