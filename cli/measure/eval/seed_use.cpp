#include "cli/measure/eval/seed_use.hpp"

#include <string>

namespace rondo::cli::eval {

namespace {

std::string name_of(SeedUse use) {
    return std::string(seed_use_names[static_cast<size_t>(use)]);
}

}  // namespace

Status check_seeds(SeedUse use, uint64_t first, uint64_t dialogues) {
    const SeedRange own = seeds_of(use);
    if (own.holds(first) && dialogues <= own.count - (first - own.first)) return Status::ok();
    const SeedUse other = use == SeedUse::development ? SeedUse::report : SeedUse::development;
    const std::string range = std::to_string(own.first) + " to " + std::to_string(own.first + own.count - 1);
    const std::string instead = seeds_of(other).holds(first) ? ", or --seeds must be " + name_of(other) : "";
    return make_error(ErrorCode::invalid_argument, "--seed " + std::to_string(first) + " and " +
                                                       std::to_string(dialogues) + " dialogues: seeds of " +
                                                       name_of(use) + " must be " + range + instead);
}

}  // namespace rondo::cli::eval
