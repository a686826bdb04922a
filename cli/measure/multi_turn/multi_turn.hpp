#pragma once

#include <CLI/CLI.hpp>

#include "cli/commands.hpp"

namespace rondo::cli {

/// `rondo bench multi_turn`: replays conversations against a server that speaks OpenAI's protocol, ours or another's.
void add_multi_turn(CLI::App& bench, Action& run);

}  // namespace rondo::cli
