#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "cli/chat/chat_commands.hpp"
#include "cli/chat/chat_partner.hpp"
#include "cli/chat/line_editor.hpp"
#include "cli/commands.hpp"
#include "cli/terminal_text.hpp"
#include "cli/usage.hpp"
#include "config/limits.hpp"
#include "config/setting_keys.hpp"

namespace rondo::cli {

namespace {

/// --method beside --url: what the turns ask the server for. An engine of this process has it from its settings.
Status choose_method(ChatPartner& partner, const ChatOptions& options) {
    if (options.server.url.empty() || options.model.method.empty()) return Status::ok();
    const std::vector<std::string> methods = partner.methods();
    partner.method = options.model.method;
    if (std::ranges::count(methods, partner.method) > 0) return Status::ok();
    const std::string right =
        methods.empty() ? "the server must be Rondo"
                        : "it must be " + listed(std::vector<std::string_view>(methods.begin(), methods.end()));
    return make_error(ErrorCode::invalid_argument, "--method " + partner.method + " is not offered there; " + right);
}

Status chat(const ChatOptions& options) {
    RONDO_TRY(options.sampling().check(limits::vocabulary_max));
    RONDO_ASSIGN(const auto partner,
                 options.server.url.empty() ? open_engine_partner(options) : open_server_partner(options));
    RONDO_TRY(choose_method(*partner, options));
    const bool shows_on_terminal = isatty(STDOUT_FILENO) == 1;
    const bool terminal = shows_on_terminal && isatty(STDIN_FILENO) == 1;
    ChatCommands conversation(*partner, terminal, shows_on_terminal);
    LineEditor editor(terminal, limits::prompt_bytes_max);
    if (terminal)
        std::printf("%s. /help lists commands; Ctrl-D ends.\n", TerminalText().shown(partner->name()).c_str());
    while (!conversation.left()) {
        RONDO_ASSIGN(const std::optional<std::string> line, editor.next());
        if (!line) break;
        if (line->empty()) continue;
        const Status status = conversation.take(*line);
        if (status) continue;
        if (!terminal) return status;
        print_error(status.error().message);
    }
    return Status::ok();
}

}  // namespace

void add_chat(CLI::App& app, Action& run) {
    auto options = std::make_shared<ChatOptions>();
    CLI::App* const command = app.add_subcommand("chat", "talk to a model: a line is a message; reads a pipe too");
    options->model.add_all(*command);
    CLI::Option* const url =
        command
            ->add_option("--url", options->server.url,
                         "of a running server with OpenAI's API (http or https), instead of a model in this process")
            ->type_name("URL")
            ->check([](const std::string& url) {
                return url.empty() ? std::string("must be http://HOST:PORT") : std::string();
            });
    for (const char* name : {"--model", "--config", "--set", "--weights", "--device", "--threads", "--kv", "--chunk"})
        url->excludes(command->get_option(name));
    options->server.add_all(*command, "--model-name");
    for (const char* name : {"--model-name", "--api-key-file", "--ca-file", "--timeout-s"})
        command->get_option(name)->needs(url);
    command->add_option("--system", options->system, "system prompt");
    command->add_option("--max-tokens", options->tokens_max, "tokens of an answer at most (default: 1024)")
        ->check(CLI::Range(1, 1 << 24));
    command->add_option("--temperature", options->temperature, "0 is greedy (default)");
    command->add_option("--top-p", options->top_p, "the fewest likeliest tokens of this share (default: 1)");
    command->add_option("--seed", options->seed, "same seed, same text");
    command->footer(
        std::string("Servers that are not Rondo get no value that is not given here: the defaults are theirs."
                    "\n\nLines that begin with / are commands, on a terminal and from a pipe:\n") +
        ChatCommands::help() +
        "On a terminal an error is told and the chat goes on; from a pipe it ends with status 1.");
    command->callback([options, &run] { run = [options] { return chat(*options); }; });
}

}  // namespace rondo::cli
