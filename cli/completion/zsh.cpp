#include "cli/completion/command_tree.hpp"

namespace rondo::cli {

namespace {

using Kind = CompletedValue::Kind;

/// Text for single quotes that ends no part of a specification of _arguments.
std::string escaped(const std::string& text) {
    std::string out;
    for (const char byte : text) {
        if (byte == '\'') {
            out += "'\\''";
            continue;
        }
        if (byte == '[' || byte == ']' || byte == ':' || byte == '\\') out += '\\';
        out += byte == '\n' ? ' ' : byte;
    }
    return out;
}

std::string action(const CompletedValue& value) {
    if (value.kind == Kind::file) return ":file:_files";
    if (value.kind == Kind::text) return ":value: ";
    if (value.kind == Kind::none) return "";
    std::string words;
    for (const std::string& choice : value.choices) words += (words.empty() ? "" : " ") + choice;
    return ":choice:(" + words + ")";
}

std::string function_of(const std::string& path) {
    std::string name = "_rondo";
    for (const char byte : path) name += byte == ' ' ? '_' : byte;
    return path.empty() ? name : "_rondo_" + name.substr(6);
}

std::string described(const std::vector<CompletedCommand>& commands, const std::string& indent) {
    std::string lines;
    for (const CompletedCommand& inner : commands)
        lines += indent + "'" + escaped(inner.name) + ":" + escaped(inner.help) + "'\n";
    return lines;
}

/// `inner` is a case for each of its commands.
std::string inner_cases(const CompletedCommand& command, const std::string& path) {
    std::string lines;
    for (const CompletedCommand& inner : command.commands)
        lines += "            " + inner.name + ") " + function_of(path.empty() ? inner.name : path + " " + inner.name) +
                 " ;;\n";
    return lines;
}

std::string functions(const CompletedCommand& command, const std::string& path) {
    std::string lines;
    for (const CompletedCommand& inner : command.commands)
        lines += functions(inner, path.empty() ? inner.name : path + " " + inner.name);
    lines += function_of(path) + "() {\n";
    if (!command.commands.empty()) {
        lines += "    local context state line curcontext=\"$curcontext\"\n    local -a commands=(\n" +
                 described(command.commands, "        ") + "    )\n";
        if (path.empty()) lines += "    commands+=('help:options of a command')\n";
        lines += "    _arguments -C \\\n";
    } else {
        lines += "    _arguments \\\n";
    }
    for (const CompletedOption& option : command.options) {
        for (const std::string& name : option.names) {
            const std::string star = option.value.kind == Kind::none ? "" : "*";  // said again, it may be a list
            lines += "        '" + star + name + "[" + escaped(option.help) + "]" + action(option.value) + "' \\\n";
        }
    }
    if (command.positional.kind != Kind::none) lines += "        '1" + action(command.positional) + "' \\\n";
    if (command.commands.empty()) return lines.substr(0, lines.size() - 3) + "\n}\n";
    lines +=
        "        '1: :->command' '*:: :->rest'\n    case $state in\n"
        "        command) _describe command commands ;;\n        rest) case $words[1] in\n" +
        inner_cases(command, path);
    if (path.empty()) lines += "            help) _rondo_help ;;\n";
    return lines + "        esac ;;\n    esac\n}\n";
}

/// Of `rondo help`: commands alone.
std::string help_function(const CompletedCommand& root) {
    std::string lines =
        "_rondo_help() {\n    local -a commands=()\n    if (( CURRENT == 2 )); then\n        commands=(\n" +
        described(root.commands, "            ") +
        "        )\n    elif (( CURRENT == 3 )); then\n"
        "        case $words[2] in\n";
    for (const CompletedCommand& command : root.commands) {
        if (command.commands.empty()) continue;
        lines += "            " + command.name + ") commands=(\n" + described(command.commands, "                ") +
                 "            ) ;;\n";
    }
    return lines + "        esac\n    fi\n    _describe command commands\n}\n";
}

}  // namespace

std::string zsh_completion(const CompletedCommand& root) {
    return "#compdef rondo\n# zsh completion of rondo, printed by `rondo completion zsh`.\n" + help_function(root) +
           functions(root, "") +
           "if [[ ${funcstack[1]} == _rondo ]]; then\n    _rondo \"$@\"\nelse\n    compdef _rondo rondo\nfi\n";
}

}  // namespace rondo::cli
