#include "cli/completion/command_tree.hpp"

#include "cli/usage.hpp"

namespace rondo::cli {

namespace {

/// What stands in the braces of a type name such as "TEXT:{bf16,f32,int8}".
std::vector<std::string> choices_in(const std::string& type) {
    std::vector<std::string> choices;
    const size_t open = type.find('{'), close = type.find('}');
    if (open == type.npos || close == type.npos) return choices;
    std::string list = type.substr(open + 1, close - open - 1);
    for (size_t comma = 0; !list.empty(); list.erase(0, comma + 1)) {
        comma = std::min(list.find(','), list.size() - 1);
        choices.push_back(list.substr(0, list[comma] == ',' ? comma : comma + 1));
    }
    return choices;
}

CompletedValue value_of(const CLI::Option& option) {
    using Kind = CompletedValue::Kind;
    if (option.get_expected_max() == 0) return {};
    std::vector<std::string> choices = choices_in(option.get_type_name());
    if (!choices.empty()) return {Kind::choice, std::move(choices)};
    return {names_file(option) ? Kind::file : Kind::text};
}

}  // namespace

CompletedCommand command_tree(const CLI::App& app) {
    CompletedCommand command{app.get_name(), app.get_description(), {}, {}, {}};
    for (const CLI::Option* option : options_of(app)) {
        if (option->get_positional()) {
            command.positional = value_of(*option);
            continue;
        }
        CompletedOption one{{}, option->get_description(), value_of(*option)};
        for (const std::string& name : option->get_snames()) one.names.push_back("-" + name);
        for (const std::string& name : option->get_lnames()) one.names.push_back("--" + name);
        command.options.push_back(std::move(one));
    }
    for (const CLI::App* inner : commands_of(app)) command.commands.push_back(command_tree(*inner));
    return command;
}

}  // namespace rondo::cli
