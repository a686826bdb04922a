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
/// Makes "--option=" two words, the second empty. The parser would take the word behind it for the value.
void split_empty_values(const CLI::App& app, std::vector<std::string>& words);
/// Refuses an empty name of a file, which a variable that is not set leaves behind: as if the option were not there,
/// a server would go on without its file of keys.
void refuse_empty_names(CLI::App& app);
/// Takes whole numbers as they are written: the parser would read 010 as 8, and too large ones as the largest.
void take_plain_numbers(CLI::App& app);
/// "no command X" and what may have been meant, of a word that stands where a command should; else nothing.
std::string unknown_command(const CLI::App& app, std::span<const std::string> words);
/// One line about words that could not be parsed; of an option that does not exist, which one may have been meant.
std::string wrong_use(const CLI::App& app, const CLI::ParseError& error);

/// Whether the option's value is the name of a file or a folder.
bool names_file(const CLI::Option& option);
/// All options of a command, those of its groups too.
std::vector<const CLI::Option*> options_of(const CLI::App& command);
/// Its own commands, without the groups of its options.
std::vector<const CLI::App*> commands_of(const CLI::App& command);

}  // namespace rondo::cli
