#include "cli/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace rondo::cli {

namespace {
constexpr auto quiet_at_first = std::chrono::milliseconds(300);
constexpr auto between_updates = std::chrono::milliseconds(100);
constexpr int bar_width = 30;

/// As much of it as the terminal has room for in one line: of a longer one each update would leave a line behind.
std::string beside_bar(const std::string& what) {
    constexpr size_t others = bar_width + 9;  // brackets, percents, and the last column
    winsize size{};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return what;
    const size_t room = size.ws_col > others ? size.ws_col - others : 0;
    if (what.size() <= room) return what;
    size_t end = room;
    while (end > 0 && (static_cast<unsigned char>(what[end]) & 0xC0) == 0x80) --end;  // no half character
    return what.substr(0, end);
}

}  // namespace

Progress::Progress(std::string what)
    : what_(std::move(what)),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

void Progress::show(double share) {
    const auto now = std::chrono::steady_clock::now();
    if (!terminal_ || now - start_ < quiet_at_first || now - last_ < between_updates) return;
    last_ = now;
    shown_ = true;
    const int done = static_cast<int>(std::clamp(share, 0.0, 1.0) * bar_width);
    std::string bar(static_cast<size_t>(done), '#');
    bar.resize(bar_width, '.');
    std::fprintf(stderr, "\r%s [%s] %3d%%", beside_bar(what_).c_str(), bar.c_str(), static_cast<int>(share * 100));
    std::fflush(stderr);
}

void Progress::finish() {
    if (shown_) std::fprintf(stderr, "\r\033[K");
    shown_ = false;
}

}  // namespace rondo::cli
