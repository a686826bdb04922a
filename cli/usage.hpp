#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <vector>

namespace rondo::cli {

/// "rondo: MESSAGE" on standard error, one line whatever a file's name or contents put into it: control characters are
/// shown, not sent to the terminal.
void print_error(const std::string& message);

/// The words after the program's name, in which `help COMMAND` has become `COMMAND --help`.
std::vector<std::string> words_of(int argc, char** argv);
/// "no command X" and what may have been meant, of a word that stands where a command should; else nothing.
std::string unknown_command(const CLI::App& app, std::span<const std::string> words);
/// One line about words that could not be parsed; of an option that does not exist, which one may have been meant.
std::string wrong_use(const CLI::App& app, const CLI::ParseError& error);

/// All options of a command, those of its groups too.
std::vector<const CLI::Option*> options_of(const CLI::App& command);
/// Its own commands, without the groups of its options.
std::vector<const CLI::App*> commands_of(const CLI::App& command);

}  // namespace rondo::cli
