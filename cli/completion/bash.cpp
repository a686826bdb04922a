#include <algorithm>

#include "cli/completion/command_tree.hpp"

namespace rondo::cli {

namespace {

using Kind = CompletedValue::Kind;

std::string joined(const std::vector<std::string>& words, const char* between = " ") {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
    return text;
}

/// The lines of one command's `case`: what may follow an option, and what may stand elsewhere.
std::string command_case(const CompletedCommand& command, const std::string& path) {
    std::string values, words, files, text;
    for (const CompletedOption& option : command.options) {
        words += (words.empty() ? "" : " ") + joined(option.names);
        const std::string names = joined(option.names, "|");
        if (option.value.kind == Kind::choice)
            values += "                " + names + ") values='" + joined(option.value.choices) + "' ;;\n";
        if (option.value.kind == Kind::file) files += (files.empty() ? "" : "|") + names;
        if (option.value.kind == Kind::text) text += (text.empty() ? "" : "|") + names;
    }
    if (!files.empty()) values += "                " + files + ") kind=file ;;\n";
    if (!text.empty()) values += "                " + text + ") kind=text ;;\n";
    for (const CompletedCommand& inner : command.commands) words += " " + inner.name;
    words += command.positional.choices.empty() ? "" : " " + joined(command.positional.choices);
    std::string lines = "        '" + path + "')\n            words='" + words + "'\n";
    if (command.positional.kind == Kind::file) lines += "            otherwise=file\n";
    if (!values.empty()) lines += "            case $option in\n" + values + "            esac\n";
    lines += "            ;;\n";
    for (const CompletedCommand& inner : command.commands) {
        if (inner.name == "help") continue;
        lines += command_case(inner, path.empty() ? inner.name : path + " " + inner.name);
    }
    return lines;
}

/// The commands that have commands of their own, as a pattern.
std::string parents(const CompletedCommand& root) {
    std::vector<std::string> names;
    for (const CompletedCommand& command : root.commands)
        if (!command.commands.empty()) names.push_back(command.name);
    return joined(names, "|");
}

}  // namespace

std::string bash_completion(const CompletedCommand& root) {
    return R"(# bash completion of rondo, printed by `rondo completion bash`.
_rondo() {
    local current=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD-1]}
    local path='' words='' values='' kind='' otherwise='' first=1
    # bash takes --option=value apart.
    if [[ $current == '=' ]]; then
        current=''
    elif [[ $option == '=' ]]; then
        option=${COMP_WORDS[COMP_CWORD-2]}
    fi
    [[ ${COMP_WORDS[1]} == help ]] && first=2
    if (( COMP_CWORD > first )); then
        path=${COMP_WORDS[first]}
        case $path in
            )" +
           parents(root) + R"() (( COMP_CWORD > first + 1 )) && path+=" ${COMP_WORDS[first+1]}" ;;
        esac
    fi
    case $path in
)" + command_case(root, "") +
           R"(    esac
    # `rondo help` wants commands alone.
    if (( first == 2 )); then
        local word commands=''
        for word in $words; do [[ $word == -* ]] || commands+=" $word"; done
        words=$commands kind='' values='' otherwise=''
        (( COMP_CWORD == 1 )) && words=help
    elif [[ -z $path ]]; then
        words+=' help'
    fi
    [[ -z $values && -z $kind && $current != -* ]] && kind=$otherwise
    COMPREPLY=()
    if [[ -n $values ]]; then
        COMPREPLY=($(compgen -W "$values" -- "$current"))
    elif [[ $kind == file ]]; then
        compopt -o filenames 2>/dev/null
        local IFS=$'\n'
        COMPREPLY=($(compgen -f -- "$current"))
    elif [[ -z $kind ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$current"))
    fi
}
complete -F _rondo rondo
)";
}

}  // namespace rondo::cli
