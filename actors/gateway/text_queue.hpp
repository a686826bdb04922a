#pragma once

#include <deque>
#include <functional>
#include <mutex>

namespace rondo {

/// Long texts on their way to be tokenized. Only a few are at a time, since each holds a thread that decoding needs
/// too, and only so many wait. Safe from any thread.
class TextQueue {
public:
    using Job = std::function<void()>;
    enum class Taken {
        refused,  ///< too many wait
        waits,    ///< one who works will come to it
        begins,   ///< the caller has to have `work` called, once, on another thread
    };

    TextQueue(size_t at_once, size_t waiting_max) : at_once_(at_once), texts_max_(at_once + waiting_max) {}

    Taken add(Job job);
    /// Does what waits until nothing does. A job that throws is over, and nothing else.
    void work();

private:
    const size_t at_once_;
    const size_t texts_max_;
    std::mutex mutex_;
    std::deque<Job> waiting_;
    size_t texts_ = 0;    ///< waiting or being worked on
    size_t working_ = 0;  ///< those in `work`, or about to be
};

}  // namespace rondo
