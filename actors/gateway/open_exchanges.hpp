#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "actors/gateway/exchange.hpp"

namespace rondo {

/// The requests that are under way, so that all of them can be ended when the server's time is over. Safe from any
/// thread.
class OpenExchanges {
public:
    /// False: they have been ended, and this one is to be refused.
    bool add(const std::shared_ptr<Exchange>& exchange);
    /// Each is ended with this error, unless it is complete, and whoever works on it is told. All clients are told
    /// before the first worker is.
    void end_all(const ApiError& why);

private:
    std::mutex mutex_;
    std::vector<std::weak_ptr<Exchange>> open_;  // and some that are over
    size_t looked_at_ = 0;                       // how many were left when those that are over were last taken out
    bool ended_ = false;
};

}  // namespace rondo
