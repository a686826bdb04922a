#pragma once

#include <mutex>

#include "actors/text_crew.hpp"
#include "actors/turn_pace.hpp"
#include "config/result.hpp"

namespace rondo {

/// Renders and tokenizes the texts of an engine's turns on threads of their own: CAF's few workers have messages to
/// deliver. Long texts share two threads; a short one has a third, so it waits for no long one. A text that takes no
/// longer than the way to another thread and back is not for them: whoever has it does it himself. Safe from any
/// thread.
class TextWorkers {
public:
    struct Options {
        bool own_threads = true;               ///< false: a text's job is done where it is added
        size_t texts_max = 288;                ///< under way or waiting: short ones, and long ones
        size_t bytes_max = size_t{128} << 20;  ///< of both kinds, each
        size_t short_bytes_max = size_t{32} << 10;
        size_t at_once_bytes_max = size_t{4} << 10;  ///< some 0.3 ms
        bool several_tenants = false;                ///< who share all that
    };
    explicit TextWorkers(const Options& options);

    /// Whether a text of so many bytes is done sooner where it is. Without own threads none is, so that a test goes the
    /// whole way.
    bool is_at_once(size_t bytes) const { return options_.own_threads && bytes <= options_.at_once_bytes_max; }
    /// A text that waits or is worked on.
    struct Place {
        bool is_short = true;
        uint64_t id = 0;
    };
    /// An error is ErrorCode::overloaded, and says when to ask again. A job must look by itself whether it is still
    /// wanted; one that is dropped at the end is not done.
    Result<Place> add(TextQueue::Text text);
    /// Takes a text back that nobody works on yet.
    void withdraw(const Place& place);
    /// Lets nobody in any more, drops what waits, and returns when nobody works.
    void end();

private:
    static TextCrew::Options crew_options(size_t threads, const Options& options);
    TextCrew& crew(bool is_short) { return is_short ? short_ : long_; }
    void count_end();
    Error refusal();

    const Options options_;
    std::mutex mutex_;
    TurnPace pace_;          // of texts
    TextCrew short_, long_;  // last: their threads use all of the above
};

}  // namespace rondo
