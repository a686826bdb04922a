#pragma once

#include <mutex>
#include <string>

#include "actors/engine.hpp"

namespace rondo {

/// Judges an engine by its progress: alive means that what was asked for gets done, not only that a thread answers.
class Health {
public:
    explicit Health(const Engine& engine) : engine_(engine) {}

    struct Verdict {
        bool good = true;
        std::string reason;
    };
    Verdict look();
    void gave_up(std::string why);

private:
    const Engine& engine_;
    std::mutex mutex_;
    std::string gave_up_;
};

}  // namespace rondo
