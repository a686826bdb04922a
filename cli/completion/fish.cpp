#include "cli/completion/command_tree.hpp"

namespace rondo::cli {

namespace {

using Kind = CompletedValue::Kind;

std::string quoted_text(const std::string& text) {
    std::string out = "'";
    for (const char byte : text) {
        if (byte == '\'' || byte == '\\') out += '\\';
        out += byte == '\n' ? ' ' : byte;
    }
    return out + "'";
}

std::string words(const std::vector<std::string>& all) {
    std::string text;
    for (const std::string& word : all) text += (text.empty() ? "" : " ") + word;
    return quoted_text(text);
}

std::string lines_of(const CompletedCommand& command, const std::string& path) {
    const std::string begin =
        "complete -c rondo -n " + quoted_text(path.empty() ? "__rondo_at" : "__rondo_at " + path) + " ";
    std::string lines;
    for (const CompletedOption& option : command.options) {
        lines += begin;
        for (const std::string& name : option.names)
            lines += name.starts_with("--") ? "-l " + name.substr(2) + " " : "-s " + name.substr(1) + " ";
        if (option.value.kind == Kind::choice) lines += "-x -a " + words(option.value.choices) + " ";
        if (option.value.kind == Kind::file) lines += "-r -F ";
        if (option.value.kind == Kind::text) lines += "-x ";
        lines += "-d " + quoted_text(option.help) + "\n";
    }
    if (command.positional.kind == Kind::file) lines += begin + "-F\n";
    if (command.positional.kind == Kind::choice) lines += begin + "-a " + words(command.positional.choices) + "\n";
    for (const CompletedCommand& inner : command.commands) {
        lines += begin + "-a " + inner.name + " -d " + quoted_text(inner.help) + "\n";
        const std::string help = path.empty() ? "__rondo_at help" : "__rondo_at help " + path;
        lines +=
            "complete -c rondo -n " + quoted_text(help) + " -a " + inner.name + " -d " + quoted_text(inner.help) + "\n";
        lines += lines_of(inner, path.empty() ? inner.name : path + " " + inner.name);
    }
    return lines;
}

}  // namespace

std::string fish_completion(const CompletedCommand& root) {
    std::string parents;
    for (const CompletedCommand& command : root.commands)
        if (!command.commands.empty()) parents += (parents.empty() ? "" : " ") + command.name;
    return "# fish completion of rondo, printed by `rondo completion fish`.\n"
           "# Whether the words before the one that is typed name just this command.\n"
           "function __rondo_at\n"
           "    set -l words (commandline -opc)\n"
           "    set -l path\n"
           "    for word in $words[2..-1]\n"
           "        if test (count $path) -gt 0; and not contains -- $path[-1] help " +
           parents +
           "\n"
           "            break\n"
           "        end\n"
           "        string match -q -- '-*' $word; and break\n"
           "        set -a path $word\n"
           "    end\n"
           "    test \"$path\" = \"$argv\"\n"
           "end\n"
           "complete -c rondo -f\n"
           "complete -c rondo -n '__rondo_at' -a help -d 'options of a command'\n" +
           lines_of(root, "");
}

}  // namespace rondo::cli
