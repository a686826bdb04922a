#pragma once

#include <caf/logger.hpp>

namespace rondo {

/// Lets go of an actor system that this thread met while this lived. CAF's logger is held by each thread that has met
/// its system, and the system's end waits until nobody holds it: for a host's thread that lives on, for ever.
class LoggerHolder {
public:
    LoggerHolder() : before_(caf::logger::current_logger()) {}
    ~LoggerHolder() {
        if (caf::logger::current_logger() != before_) caf::logger::set_current_actor_system(nullptr);
    }
    LoggerHolder(const LoggerHolder&) = delete;
    LoggerHolder& operator=(const LoggerHolder&) = delete;

private:
    const caf::logger* const before_;
};

}  // namespace rondo
