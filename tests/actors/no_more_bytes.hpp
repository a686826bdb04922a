#pragma once

#include <signal.h>
#include <sys/resource.h>

namespace rondo::testing {

/// While it lives no file of this process grows.
class NoMoreBytes {
public:
    NoMoreBytes() {
        signal(SIGXFSZ, SIG_IGN);
        getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit none{0, before_.rlim_max};
        setrlimit(RLIMIT_FSIZE, &none);
    }
    ~NoMoreBytes() { setrlimit(RLIMIT_FSIZE, &before_); }
    NoMoreBytes(const NoMoreBytes&) = delete;
    NoMoreBytes& operator=(const NoMoreBytes&) = delete;

private:
    rlimit before_{};
};

}  // namespace rondo::testing
