#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "config/result.hpp"

namespace rondo::cli {

/// What the chosen command does; main prints its error.
using Action = std::function<Status()>;

/// Each adds its subcommand; `run` is set to what to do when that one was chosen.
void add_generate(CLI::App& app, Action& run);
void add_chat(CLI::App& app, Action& run);
void add_serve(CLI::App& app, Action& run);
void add_score(CLI::App& app, Action& run);
void add_tokenize(CLI::App& app, Action& run);
void add_inspect(CLI::App& app, Action& run);
/// Below inspect.
void add_inspect_store(CLI::App& inspect, Action& run);
void add_inspect_attention(CLI::App& inspect, Action& run);
void add_bench(CLI::App& app, Action& run);
void add_eval(CLI::App& app, Action& run);
/// Knows the commands that were added before it.
void add_completion(CLI::App& app, Action& run);

}  // namespace rondo::cli
