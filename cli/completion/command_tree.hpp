#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace rondo::cli {

/// A value that stands after an option, or alone.
struct CompletedValue {
    enum class Kind { none, text, file, choice } kind = Kind::none;
    std::vector<std::string> choices{};
};

struct CompletedOption {
    std::vector<std::string> names;  ///< with their dashes
    std::string help;
    CompletedValue value;
};

/// A command as a shell sees it. The tree is read off what parses the command line, so it knows every option there is.
struct CompletedCommand {
    std::string name;
    std::string help;
    std::vector<CompletedOption> options;
    CompletedValue positional;
    std::vector<CompletedCommand> commands;
};

/// An option's value is a file where its type name says FILE or MODEL, and a choice where it lists {a,b}. Else it is
/// text that no shell knows.
CompletedCommand command_tree(const CLI::App& app);

std::string bash_completion(const CompletedCommand& root);
std::string zsh_completion(const CompletedCommand& root);
std::string fish_completion(const CompletedCommand& root);

}  // namespace rondo::cli
