#include "cli/server_end.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "actors/engine_inside.hpp"

namespace rondo::cli {

namespace {

using Clock = std::chrono::steady_clock;
/// The time between the end of patience and the end of the process; clients are told in its first half.
constexpr std::chrono::milliseconds end_time{900};

/// Under nohup nothing happens when the terminal closes.
bool hangup_is_ignored() {
    struct sigaction action {};
    return sigaction(SIGHUP, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// Turns under way go on for so long at most, and what they have computed is put away; another signal ends them at
/// once, but for SIGHUP: a terminal that closes may send it twice. Returns when the process must be gone.
Clock::time_point drain(Engine& engine, Gateway& gateway, sigset_t signals, std::chrono::seconds patience,
                        LineWriter& log) {
    sigdelset(&signals, SIGHUP);
    std::atomic<Clock::time_point> over = Clock::now() + patience;
    std::atomic<bool> drained{false};
    std::thread listener([&] {
        int signal = 0;
        sigwait(&signals, &signal);
        if (drained) return;
        over = Clock::now();
        gateway.drain(std::chrono::seconds(0));
    });
    if (const size_t turns = inside(engine).load().turns; turns > 0 && patience.count() > 0)
        log.write("rondo: turns under way: " + std::to_string(turns) + "; they may go on for " +
                  std::to_string(patience.count()) + " s, and another signal ends them at once\n");
    gateway.drain(patience);
    const auto is_under_way = [&] {
        const Status put_away = inside(engine).put_away(std::chrono::milliseconds(100));
        return !put_away && put_away.error().code == ErrorCode::timeout;
    };
    while (is_under_way() && Clock::now() < over.load()) {
    }
    drained = true;
    pthread_kill(listener.native_handle(), SIGTERM);  // it may still wait for one
    listener.join();
    return std::min(over.load(), Clock::now()) + end_time;
}

/// Ends the process at this time, even if the engine's end still waits, such as for a long step of a device, or if
/// nobody reads what the process has to say.
void end_at_the_latest(Clock::time_point end, const std::optional<Error>& why, std::weak_ptr<LineWriter> log_of) {
    std::thread([end, why, log_of = std::move(log_of)] {
        std::this_thread::sleep_until(end);
        if (const auto log = log_of.lock(); log && why) {  // else whoever called says it
            log->write("rondo: " + why->message + '\n');
            log->settle();
        }
        std::_Exit(why ? EXIT_FAILURE : EXIT_SUCCESS);
    }).detach();
}

}  // namespace

/// The reason why the engine gave up serving, if it did; one of its threads tells it.
class ServerEnd::Reason {
public:
    void tell(Error why) {
        const std::lock_guard lock(mutex_);
        why_ = std::move(why);
    }
    std::optional<Error> why() const {
        const std::lock_guard lock(mutex_);
        return why_;
    }

private:
    mutable std::mutex mutex_;
    std::optional<Error> why_;
};

ServerEnd::ServerEnd() : reason_(std::make_shared<Reason>()) {
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM}) sigaddset(&signals_, signal);
    if (!hangup_is_ignored()) sigaddset(&signals_, SIGHUP);  // while it is blocked it would come all the same
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
}

void ServerEnd::leave_if_asked() const {
    constexpr timespec at_once{};
    if (const int signal = sigtimedwait(&signals_, nullptr, &at_once); signal > 0) std::_Exit(128 + signal);
}

std::function<void(Error)> ServerEnd::gave_up() const {
    return [reason = reason_](Error why) {
        reason->tell(std::move(why));
        ::kill(::getpid(), SIGTERM);
    };
}

Status ServerEnd::wait(Engine& engine, Gateway& gateway, std::chrono::seconds patience,
                       const std::shared_ptr<LineWriter>& log) const {
    int signal = 0;
    sigwait(&signals_, &signal);
    const Clock::time_point end =
        drain(engine, gateway, signals_, reason_->why() ? std::chrono::seconds(0) : patience, *log);
    const std::optional<Error> why = reason_->why();
    end_at_the_latest(end, why, log);
    return why ? Status(*why) : Status::ok();
}

}  // namespace rondo::cli
