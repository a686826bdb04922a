#include "tests/cli/rondo_terminal.hpp"

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <utility>

#include "tests/cli/rondo_process.hpp"

namespace rondo::testing {
namespace {

constexpr int patience_ms = 20'000;
constexpr const char* prompt = "\r\n> ";

std::string with_plain_ends(const std::string& printed) {
    std::string out;
    for (const char byte : printed)
        if (byte != '\r') out += byte;
    return out;
}

}  // namespace

RondoTerminal::RondoTerminal(const std::vector<std::string>& arguments)
    : RondoTerminal(std::string(RONDO_BINARY_DIR) + "/bin/rondo", arguments) {}

RondoTerminal::RondoTerminal(std::string program, const std::vector<std::string>& arguments) {
    std::vector<char*> argv{program.data()};
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    const winsize wide{50, 1000, 0, 0};  // no line is broken
    process_ = ::forkpty(&screen_, nullptr, nullptr, &wide);
    if (process_ < 0) throw std::runtime_error("no terminal");
    if (process_ == 0) {
        limit_this_child();
        ::signal(SIGHUP, SIG_DFL);    // also where the tests run under nohup
        ::setenv("TERM", "dumb", 1);  // nothing but text is printed
        ::setenv("LC_ALL", "C", 1);
        ::execv(program.c_str(), argv.data());
        ::_exit(127);
    }
}

RondoTerminal::~RondoTerminal() {
    if (process_ > 0) {
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
    }
    ::close(screen_);
}

void RondoTerminal::type(const std::string& keys) {
    EXPECT_EQ(::write(screen_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
}

bool RondoTerminal::read_more() {
    pollfd waiting{screen_, POLLIN, 0};
    char piece[4096];
    if (::poll(&waiting, 1, patience_ms) <= 0) {
        ADD_FAILURE() << "rondo hangs";
        if (process_ > 0) ::kill(process_, SIGKILL);
    }
    const ssize_t got = ::read(screen_, piece, sizeof piece);
    if (got <= 0) return false;  // the program has ended
    printed_.append(piece, static_cast<size_t>(got));
    return true;
}

std::string RondoTerminal::until(const std::string& words) {
    size_t at = printed_.find(words);
    for (; at == printed_.npos; at = printed_.find(words)) {
        if (read_more()) continue;
        ADD_FAILURE() << "no \"" << words << "\" in: " << printed_;
        return std::exchange(printed_, {});
    }
    std::string out = printed_.substr(0, at + words.size());
    printed_.erase(0, out.size());
    return out;
}

void RondoTerminal::more() {
    EXPECT_TRUE(!printed_.empty() || read_more());
}

void RondoTerminal::wait_for_editor() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience_ms);
    termios mode{};
    while (::tcgetattr(screen_, &mode) == 0 && (mode.c_lflag & ICANON) != 0 && std::chrono::steady_clock::now() < end)
        std::this_thread::yield();
}

std::string RondoTerminal::until_prompt() {
    std::string out = until(prompt);
    wait_for_editor();
    if (out.ends_with(prompt)) out.resize(out.size() - 2);
    return with_plain_ends(out);
}

std::string RondoTerminal::say(const std::string& line) {
    type(line + "\n");
    until(line);  // shown while it was typed; its end may already be that of an answer of no lines
    const std::string out = until_prompt();
    return out.starts_with('\n') ? out.substr(1) : out;
}

bool RondoTerminal::is_cooked() const {
    termios mode{};
    return ::tcgetattr(screen_, &mode) == 0 && (mode.c_lflag & (ICANON | ECHO | ISIG)) == (ICANON | ECHO | ISIG);
}

int RondoTerminal::end() {
    while (read_more()) continue;
    int status = 0;
    if (::waitpid(std::exchange(process_, -1), &status, 0) < 0) throw std::runtime_error("cannot wait");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace rondo::testing
