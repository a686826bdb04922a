#include "cli/usage.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "cli/terminal_text.hpp"
#include "config/did_you_mean.hpp"

namespace rondo::cli {

namespace {

std::string guess(const std::string& given, const std::vector<std::string>& names) {
    return did_you_mean(given, std::vector<std::string_view>(names.begin(), names.end()));
}

/// The innermost command that was named, and the words that lead to it.
const CLI::App& chosen_command(const CLI::App& app, std::string& path) {
    path = app.get_name();
    const CLI::App* at = &app;
    for (bool deeper = true; deeper;) {
        deeper = false;
        for (const CLI::App* command : commands_of(*at)) {
            if (!command->parsed()) continue;
            at = command;
            path += " " + command->get_name();
            deeper = true;
            break;
        }
    }
    return *at;
}

std::vector<std::string> flags_of(const CLI::App& command) {
    std::vector<std::string> flags;
    for (const CLI::Option* option : options_of(command))
        for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    return flags;
}

/// Null where the command has none of that name.
const CLI::App* command_named(const CLI::App& command, const std::string& name) {
    const std::vector<const CLI::App*> commands = commands_of(command);
    const auto found = std::ranges::find(commands, name, [](const CLI::App* one) { return one->get_name(); });
    return found == commands.end() ? nullptr : *found;
}

}  // namespace

void print_error(const std::string& message) {
    std::string line;
    size_t escaped = 0;  // bytes that come next
    for (size_t i = 0; i < message.size(); ++i) {
        const auto code = static_cast<unsigned char>(message[i]);
        if (begins_control_of_two(std::string_view(message).substr(i))) escaped = 2;
        if (code < 0x20 || code == 0x7f) escaped = 1;
        char shown[5];
        std::snprintf(shown, sizeof shown, "\\x%02x", code);
        line += escaped > 0 ? std::string(shown) : std::string(1, message[i]);
        if (escaped > 0) --escaped;
    }
    std::fprintf(stderr, "rondo: %s\n", line.c_str());
}

bool names_file(const CLI::Option& option) {
    const std::string type = option.get_type_name();
    return type.starts_with("FILE") || type.starts_with("FOLDER") || type.starts_with("MODEL");
}

std::vector<const CLI::Option*> options_of(const CLI::App& command) {
    std::vector<const CLI::Option*> options = command.get_options();
    for (const CLI::App* group : command.get_subcommands({})) {
        if (!group->get_name().empty()) continue;
        for (const CLI::Option* option : options_of(*group))
            if (std::ranges::find(options, option) == options.end()) options.push_back(option);
    }
    return options;
}

std::vector<const CLI::App*> commands_of(const CLI::App& command) {
    std::vector<const CLI::App*> commands;
    for (const CLI::App* one : command.get_subcommands({}))
        if (!one->get_name().empty()) commands.push_back(one);
    return commands;
}

std::vector<std::string> words_of(int argc, char** argv) {
    std::vector<std::string> words(argv + 1, argv + argc);
    if (words.empty() || words[0] != "help") return words;
    std::erase(words, "help");  // `rondo help help` too
    words.emplace_back("--help");
    return words;
}

void split_empty_values(const CLI::App& app, std::vector<std::string>& words) {
    const CLI::App* at = &app;
    size_t i = 0;
    for (; i < words.size(); ++i) {
        const CLI::App* const inner = command_named(*at, words[i]);
        if (inner == nullptr) break;
        at = inner;
    }
    const std::vector<std::string> flags = flags_of(*at);
    for (; i < words.size() && words[i] != "--"; ++i) {
        if (!words[i].ends_with('=')) continue;
        const std::string flag = words[i].substr(0, words[i].size() - 1);
        if (std::ranges::find(flags, flag) == flags.end()) continue;
        words[i] = flag;
        words.insert(words.begin() + static_cast<std::ptrdiff_t>(++i), "");
    }
}

void refuse_empty_names(CLI::App& app) {
    for (CLI::Option* option : app.get_options()) {
        if (!names_file(*option)) continue;
        option->check([](const std::string& name) {
            return name.empty() ? std::string("must name a file or a folder") : std::string();
        });
    }
    for (CLI::App* inner : app.get_subcommands({})) refuse_empty_names(*inner);
}

void take_plain_numbers(CLI::App& app) {
    for (CLI::Option* option : app.get_options()) {
        const std::string type = option->get_type_name();
        const bool is_unsigned = type.starts_with("UINT");
        if (!is_unsigned && !type.starts_with("INT")) continue;
        option->check([is_unsigned](const std::string& text) -> std::string {
            const std::string_view digits = std::string_view(text).substr(text.starts_with('-') ? 1 : 0);
            int64_t number = 0;
            uint64_t large = 0;
            const char* const end = text.data() + text.size();
            const auto read =
                is_unsigned ? std::from_chars(text.data(), end, large) : std::from_chars(text.data(), end, number);
            const bool is_plain = read.ec == std::errc() && read.ptr == end && (digits == "0" || digits[0] != '0');
            return is_plain ? "" : "\"" + text + "\": must be a whole number, without leading zeros";
        });
    }
    for (CLI::App* inner : app.get_subcommands({})) take_plain_numbers(*inner);
}

std::string unknown_command(const CLI::App& app, std::span<const std::string> words) {
    const CLI::App* at = &app;
    for (const std::string& word : words) {
        std::vector<std::string> names;
        for (const CLI::App* command : commands_of(*at)) names.push_back(command->get_name());
        if (word.starts_with("-") || names.empty()) return {};
        const CLI::App* const inner = command_named(*at, word);
        if (inner == nullptr) {
            if (at == &app) names.emplace_back("help");
            const std::string meant = guess(word, names);
            return "no command \"" + word + '"' + (meant.empty() ? "; see rondo --help" : meant);
        }
        at = inner;
    }
    return {};
}

std::string wrong_use(const CLI::App& app, const CLI::ParseError& error) {
    std::string path;
    const CLI::App& command = chosen_command(app, path);
    const std::string see = "; see " + path + " --help";
    // A misspelt option is left over, or missed where it is required.
    const int code = error.get_exit_code();
    if (code != static_cast<int>(CLI::ExitCodes::ExtrasError) &&
        code != static_cast<int>(CLI::ExitCodes::RequiredError))
        return error.what() + see;
    for (const std::string& word : app.remaining(true)) {
        if (!word.starts_with("-") || word == "-" || word == "--") continue;
        const std::string flag = word.substr(0, word.find('='));
        const std::string meant = guess(flag, flags_of(command));
        return path + " has no option " + flag + (meant.empty() ? see : meant);
    }
    return error.what() + see;
}

}  // namespace rondo::cli
