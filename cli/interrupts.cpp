#include "cli/interrupts.hpp"

#include <atomic>

namespace rondo::cli {

namespace {

std::atomic<bool> pressed{false};  // lock-free, so a signal may set it

}  // namespace

CatchInterrupts::CatchInterrupts() {
    pressed = false;
    struct sigaction action {};
    action.sa_handler = [](int) { pressed = true; };
    action.sa_flags = SA_RESTART;  // what is being printed is printed
    sigaction(SIGINT, &action, &before_);
}

CatchInterrupts::~CatchInterrupts() {
    sigaction(SIGINT, &before_, nullptr);
}

bool CatchInterrupts::interrupted() {
    return pressed;
}

}  // namespace rondo::cli
