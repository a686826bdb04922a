#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "config/did_you_mean.hpp"

namespace {

/// One line whatever a file's name or contents put into it: control characters are shown, not sent to the terminal.
void print_error(const std::string& message) {
    std::string line;
    for (const char byte : message) {
        char shown[5];
        const auto code = static_cast<unsigned char>(byte);
        std::snprintf(shown, sizeof shown, "\\x%02x", code);
        line += code < 0x20 || code == 0x7f ? std::string(shown) : std::string(1, byte);
    }
    std::fprintf(stderr, "rondo: %s\n", line.c_str());
}

/// A full disk or a closed pipe behind standard output must not look like success.
rondo::Status finish_output() {
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return rondo::Status::ok();
    return rondo::make_error(rondo::ErrorCode::io, "standard output could not be written whole");
}

}  // namespace

/// Names of the commands, and of a command's own.
std::vector<std::string> names_of(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
    return names;
}

/// "no command X" and what may have been meant, of a word that stands where a command should; else nothing.
std::string unknown_command(const CLI::App& app, std::span<const std::string> words) {
    const CLI::App* at = &app;
    for (const std::string& word : words) {
        const std::vector<std::string> names = names_of(*at);
        if (word.starts_with("-") || names.empty()) return {};
        if (std::ranges::find(names, word) == names.end()) {
            const std::string meant =
                rondo::did_you_mean(word, std::vector<std::string_view>(names.begin(), names.end()));
            return "no command \"" + word + '"' + (meant.empty() ? "; see rondo --help" : meant);
        }
        at = at->get_subcommand(word);
    }
    return {};
}

/// `rondo help COMMAND` is `rondo COMMAND --help`.
std::vector<std::string> words_of(int argc, char** argv) {
    std::vector<std::string> words(argv + 1, argv + argc);
    if (words.empty() || words[0] != "help") return words;
    words.erase(words.begin());
    words.emplace_back("--help");
    return words;
}

/// Exit status: 0 done, 1 failed, 2 wrong use. An error is one line on standard error.
int main(int argc, char** argv) {
    CLI::App app{"rondo: multi-turn chat with large language models"};
    app.require_subcommand(1);
    app.set_version_flag("--version", "rondo " RONDO_VERSION);
    rondo::cli::Action run;
    rondo::cli::add_generate(app, run);
    rondo::cli::add_chat(app, run);
    rondo::cli::add_serve(app, run);
    rondo::cli::add_score(app, run);
    rondo::cli::add_tokenize(app, run);
    rondo::cli::add_inspect(app, run);
    rondo::cli::add_bench(app, run);
    rondo::cli::add_eval(app, run);
    const std::vector<std::string> words = words_of(argc, argv);
    if (const std::string unknown = unknown_command(app, words); !unknown.empty()) {
        print_error(unknown);
        return 2;
    }
    try {
        app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // which it takes from the end
    } catch (const CLI::Success& help) {
        return app.exit(help);
    } catch (const CLI::ParseError& error) {
        print_error(std::string(error.what()) + "; see rondo --help");
        return 2;
    }
    try {
        rondo::Status status = run();
        if (status.is_ok()) status = finish_output();
        if (status.is_ok()) return 0;
        print_error(status.error().message);
    } catch (const std::exception& error) {
        print_error(error.what());
    }
    return 1;
}
