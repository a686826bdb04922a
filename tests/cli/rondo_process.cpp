#include "tests/cli/rondo_process.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <stdexcept>

namespace rondo::testing {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

File temporary(const std::string& content = "") {
    File file(std::tmpfile(), &std::fclose);
    if (file == nullptr) throw std::runtime_error("no temporary file");
    std::fwrite(content.data(), 1, content.size(), file.get());
    std::fflush(file.get());
    std::rewind(file.get());
    return file;
}

std::string content_of(const File& file) {
    std::string out;
    char piece[65536];
    for (off_t at = 0;;) {
        const ssize_t got = ::pread(::fileno(file.get()), piece, sizeof piece, at);
        if (got <= 0) return out;
        out.append(piece, static_cast<size_t>(got));
        at += got;
    }
}

#ifdef __SANITIZE_ADDRESS__
constexpr rlimit cpu_seconds{900, 900};
#else
constexpr rlimit cpu_seconds{60, 60};
#endif

double seconds_of(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

/// The core that this thread is on and the next one; none where there are more cores than a set has.
cpu_set_t two_cores() {
    cpu_set_t all, two;
    CPU_ZERO(&two);
    if (::sched_getaffinity(0, sizeof all, &all) != 0) return two;
    const int here = std::max(::sched_getcpu(), 0);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&two) < 2; ++i) {
        const int core = (here + i) % CPU_SETSIZE;
        if (CPU_ISSET(core, &all)) CPU_SET(core, &two);
    }
    return two;
}

}  // namespace

void limit_this_child() {
    ::setrlimit(RLIMIT_CPU, &cpu_seconds);
    const cpu_set_t cores = two_cores();
    if (CPU_COUNT(&cores) > 0) ::sched_setaffinity(0, sizeof cores, &cores);
}

Outcome run_rondo(const std::vector<std::string>& arguments, const std::string& input,
                  const std::function<void(pid_t)>& started) {
    const File in = temporary(input), out = temporary(), err = temporary();
    std::string program = std::string(RONDO_BINARY_DIR) + "/bin/rondo";
    std::vector<char*> argv{program.data()};
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error("cannot fork");
    if (child == 0) {
        limit_this_child();
        ::dup2(::fileno(in.get()), STDIN_FILENO);
        ::dup2(::fileno(out.get()), STDOUT_FILENO);
        ::dup2(::fileno(err.get()), STDERR_FILENO);
        ::execv(program.c_str(), argv.data());
        ::_exit(127);
    }
    if (started) started(child);
    int status = 0;
    rusage usage{};
    if (::wait4(child, &status, 0, &usage) != child) throw std::runtime_error("cannot wait");
    Outcome outcome;
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    outcome.out = content_of(out);
    outcome.err = content_of(err);
    outcome.cpu_seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
    outcome.resident_bytes_max = int64_t{usage.ru_maxrss} * 1024;
    return outcome;
}

nlohmann::json run_json(std::vector<std::string> arguments, const std::string& input) {
    arguments.emplace_back("--json");
    const Outcome outcome = run_rondo(arguments, input);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1) << outcome.out;
    const auto json = nlohmann::json::parse(outcome.out, nullptr, false);
    EXPECT_TRUE(json.is_object()) << outcome.out;
    return json;
}

std::string joined(const std::vector<int32_t>& ids) {
    std::string out;
    for (const int32_t id : ids) out += (out.empty() ? "" : ",") + std::to_string(id);
    return out;
}

void expect_error(const Outcome& outcome, int status, const std::string& words) {
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, ::testing::StartsWith("rondo: "));
    EXPECT_THAT(outcome.err, ::testing::HasSubstr(words));
    EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
#ifndef __SANITIZE_ADDRESS__
    EXPECT_LE(outcome.cpu_seconds, 2.0) << outcome.err;
    EXPECT_LE(outcome.resident_bytes_max, int64_t{200} << 20) << outcome.err;
#endif
}

}  // namespace rondo::testing
