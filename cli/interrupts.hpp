#pragma once

#include <signal.h>

namespace rondo::cli {

/// While it lives, Ctrl-C sets a flag instead of ending the program. One at a time.
class CatchInterrupts {
public:
    CatchInterrupts();
    ~CatchInterrupts();
    CatchInterrupts(const CatchInterrupts&) = delete;
    CatchInterrupts& operator=(const CatchInterrupts&) = delete;

    /// Whether it was pressed since the last of them began.
    static bool interrupted();

private:
    struct sigaction before_ {};
};

}  // namespace rondo::cli
