#include "cli/line_writer.hpp"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

namespace rondo::cli {

namespace {

constexpr std::chrono::milliseconds last_words_time{500};

/// What cannot be written is lost: there is no other place to tell of it.
void write_all(int file, std::string_view text) {
    while (!text.empty()) {
        const ssize_t count = ::write(file, text.data(), text.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
            continue;
        }
        if (count <= 0) return;
        text.remove_prefix(static_cast<size_t>(count));
    }
}

}  // namespace

struct LineWriter::Lines {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::string> waiting;
    size_t bytes_max = 0, bytes = 0, dropped = 0;
    bool is_writing = false, is_over = false, is_done = false;

    void work(int file) {
        std::unique_lock lock(mutex);
        for (;;) {
            changed.wait(lock, [this] { return is_over || !waiting.empty(); });
            if (waiting.empty()) break;
            std::string line = std::move(waiting.front());
            waiting.pop_front();
            bytes -= line.size();
            if (const size_t count = waiting.empty() ? std::exchange(dropped, 0) : 0; count > 0)
                line += "rondo: " + std::to_string(count) + " lines were not written, for nobody read them\n";
            is_writing = true;
            lock.unlock();
            write_all(file, line);
            lock.lock();
            is_writing = false;
            changed.notify_all();
        }
        is_done = true;
        changed.notify_all();
    }
};

LineWriter::LineWriter(int file, size_t bytes_max) : lines_(std::make_shared<Lines>()) {
    lines_->bytes_max = bytes_max;
    std::thread([lines = lines_, file] { lines->work(file); }).detach();
}

LineWriter::~LineWriter() {
    std::unique_lock lock(lines_->mutex);
    lines_->is_over = true;
    lines_->changed.notify_all();
    lines_->changed.wait_for(lock, last_words_time, [this] { return lines_->is_done; });
}

void LineWriter::settle() const {
    std::unique_lock lock(lines_->mutex);
    lines_->changed.wait_for(lock, last_words_time, [this] { return lines_->waiting.empty() && !lines_->is_writing; });
}

void LineWriter::write(std::string line) {
    const std::lock_guard lock(lines_->mutex);
    if (lines_->bytes + line.size() > lines_->bytes_max) {
        ++lines_->dropped;
        return;
    }
    lines_->bytes += line.size();
    lines_->waiting.push_back(std::move(line));
    lines_->changed.notify_all();
}

}  // namespace rondo::cli
