#pragma once

#include <signal.h>

#include <chrono>
#include <functional>
#include <memory>

#include "actors/engine.hpp"
#include "actors/gateway/gateway.hpp"
#include "cli/line_writer.hpp"

namespace rondo::cli {

/// How a server ends: a signal asks for it, or its engine gives up. One per process, since signals are the process's.
class ServerEnd {
public:
    /// Blocks the signals that end a server, in this thread and those it starts, so that one place can wait for them.
    ServerEnd();

    /// Before anything is served, a signal ends the process at once: nothing has to end in good order.
    void leave_if_asked() const;
    /// For `Engine::Options`: ends the wait below. Any thread may call it.
    std::function<void(Error)> gave_up() const;
    /// Waits for the end. Then turns under way go on for so long at most, and what they have computed is put away. The
    /// reason why the engine gave up is the error. The process ends a moment after this, whatever holds its end up.
    Status wait(Engine& engine, Gateway& gateway, std::chrono::seconds patience,
                const std::shared_ptr<LineWriter>& log) const;

private:
    class Reason;
    sigset_t signals_;
    std::shared_ptr<Reason> reason_;
};

}  // namespace rondo::cli
