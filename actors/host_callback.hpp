#pragma once

#include <functional>
#include <utility>

namespace rondo {

/// A host's code runs on this thread as long as one lives. An engine that ends in there must not wait for it.
class HostCallback {
public:
    HostCallback() { ++depth_; }
    ~HostCallback() { --depth_; }
    HostCallback(const HostCallback&) = delete;
    HostCallback& operator=(const HostCallback&) = delete;

    static bool runs_here() { return depth_ > 0; }

private:
    static inline thread_local int depth_ = 0;
};

/// What a host throws ends here: CAF would let it pass, and end the process. False: it has thrown.
template <class News>
bool tell_host(const std::function<void(News)>& callback, News news) {
    const HostCallback runs;
    try {
        if (callback) callback(std::forward<News>(news));
        return true;
    } catch (...) {
        return false;
    }
}

}  // namespace rondo
