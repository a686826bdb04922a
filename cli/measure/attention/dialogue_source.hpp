#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/measure/attention/dialogue.hpp"
#include "cli/measure/eval/seed_use.hpp"

namespace rondo::cli::attention {

/// Which dialogues the command line asks for: those of a file, or some of roundtalk's.
struct DialogueSource {
    std::string file;
    int count = 42, rounds = 10;
    std::string tasks = "recall", places = "begin,middle,end";
    std::string seeds = "development";
    std::optional<uint64_t> seed;

    /// Of roundtalk's, each seed makes one for each task and place in turn.
    Result<std::vector<Dialogue>> open() const;
    std::string words() const;

private:
    eval::SeedUse use() const;
    uint64_t first_seed() const { return seed.value_or(eval::seeds_of(use()).first); }
    Result<std::vector<Dialogue>> make() const;
};

}  // namespace rondo::cli::attention
