#pragma once

#include <chrono>
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
    Verdict look(std::chrono::steady_clock::time_point now) const;

private:
    const Engine& engine_;
};

}  // namespace rondo
