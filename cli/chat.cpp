#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>

#include "cli/chat_partner.hpp"
#include "cli/commands.hpp"
#include "cli/interrupts.hpp"
#include "cli/line_editor.hpp"
#include "config/limits.hpp"
#include "config/setting_keys.hpp"
#include "config/yaml_tree.hpp"

namespace rondo::cli {

namespace {

constexpr const char* help =
    "/rounds        what was said so far\n"
    "/rewind K      forget round K and all after it\n"
    "/list          the conversations that are kept, the newest first\n"
    "/open ID       go on with one of them\n"
    "/stats         where the last turn's time and KV went\n"
    "/method [M]    how attention is computed; M from the next turn on\n"
    "/help, /quit   Ctrl-C stops an answer, Ctrl-D ends\n";

/// "density 0.31, mass 0.97"; no mass where a method does not look at what it leaves out.
std::string shares(const TurnAttention::Phase& phase) {
    char text[64];
    std::snprintf(text, sizeof text, phase.masses > 0 ? "density %.2f, mass %.2f" : "density %.2f", phase.density(),
                  phase.mass_held());
    return text;
}

class Chat {
public:
    Chat(ChatPartner& partner, bool terminal) : partner_(partner), terminal_(terminal) {}

    Status answer(const std::string& line) {
        const CatchInterrupts catching;
        Result<TurnEnd> end = partner_.ask(line, [&](std::string_view piece) {
            std::fwrite(piece.data(), 1, piece.size(), stdout);
            std::fflush(stdout);
            return !catching.interrupted();
        });
        if (!end) return end.error();
        last_ = std::move(*end);
        std::printf(last_->outcome == TurnOutcome::cancelled ? " [stopped]\n" : "\n");
        return Status::ok();
    }

    /// A line that begins with a slash, on a terminal.
    Status command(const std::string& line) {
        if (line == "/help") return std::printf("%s", help), Status::ok();
        if (line == "/rounds") return rounds();
        if (line == "/stats") return stats();
        if (line == "/list") return list();
        if (line.starts_with("/open ")) return partner_.open_conversation(line.substr(6));
        if (line == "/method") return show_methods(), Status::ok();
        if (line.starts_with("/method ")) return choose_method(line.substr(8));
        if (line.starts_with("/rewind ")) {
            int64_t round = -1;
            const char* const end = line.data() + line.size();
            const auto [read, error] = std::from_chars(line.data() + 8, end, round);
            if (error != std::errc() || read != end)
                return make_error(ErrorCode::invalid_argument, "/rewind takes a round's number, as /rounds shows it");
            return partner_.rewind(round);
        }
        return make_error(ErrorCode::invalid_argument, line.substr(0, 40) + ": no such command; /help lists them");
    }

private:
    Status rounds() {
        RONDO_ASSIGN(const ConversationInfo info, partner_.rounds());
        for (size_t i = 0; i < info.rounds.size(); ++i) {
            const Round& round = info.rounds[i];
            std::printf("%zu  (%ld tokens) %s\n   %s\n", i, static_cast<long>(round.tokens),
                        round.asked.empty() ? "" : round.asked.back().content.c_str(), round.answer.c_str());
        }
        return Status::ok();
    }

    /// Page by page; Ctrl-C ends it.
    Status list() {
        const CatchInterrupts catching;
        std::string after;
        do {
            RONDO_ASSIGN(const ConversationPage page, partner_.conversations(after));
            for (const ListedConversation& one : page.conversations) {
                std::printf("%s  (%ld rounds, %ld tokens)\n", one.id.c_str(), static_cast<long>(one.figures.rounds),
                            static_cast<long>(one.figures.tokens));
            }
            after = page.has_more && !page.conversations.empty() ? page.conversations.back().id : "";
        } while (!after.empty() && !catching.interrupted());
        return Status::ok();
    }

    std::string method() const { return partner_.method.empty() ? partner_.methods().front() : partner_.method; }

    void show_methods() const {
        std::string others;
        for (const std::string& name : partner_.methods())
            if (name != method()) others += (others.empty() ? "" : ", ") + name;
        std::printf("%s%s\n", method().c_str(), others.empty() ? "" : ("; or " + others).c_str());
    }

    Status choose_method(const std::string& name) {
        const std::vector<std::string> methods = partner_.methods();
        if (std::ranges::count(methods, name) == 0) {
            return make_error(ErrorCode::invalid_argument,
                              "/method " + shown(name) + ": must be " +
                                  listed(std::vector<std::string_view>(methods.begin(), methods.end())));
        }
        partner_.method = name;
        return Status::ok();
    }

    Status stats() const {
        if (!last_) return make_error(ErrorCode::not_found, "no turn so far");
        const bool stopped = last_->outcome == TurnOutcome::cancelled;
        const TurnUsage& usage = last_->usage;
        const TurnTimings& times = last_->timings;
        if (stopped && usage.prompt_tokens == 0) {
            std::printf("stopped before the server told its figures; /rounds shows what it kept\n");
            return Status::ok();
        }
        std::printf("prompt %ld tokens: %ld cached, %ld restored, %ld computed; answer %ld tokens\n",
                    static_cast<long>(usage.prompt_tokens), static_cast<long>(usage.cached_tokens),
                    static_cast<long>(usage.restored_tokens), static_cast<long>(usage.recomputed_tokens),
                    static_cast<long>(usage.completion_tokens));
        std::printf("queued %.1f ms, restore %.1f ms, prefill %.1f ms, decode %.1f ms; first token after %.1f ms\n",
                    times.queued * 1e3, times.restore * 1e3, times.prefill * 1e3, times.decode * 1e3,
                    times.first_token * 1e3);
        std::printf("%d preemptions%s\n", times.preemptions, stopped ? "; stopped" : "");
        const TurnAttention& how = last_->attention;
        if (how.method != "dense") {
            std::printf("%s: prompt %s; answer %s; %ld selections\n", how.method.c_str(), shares(how.prompt).c_str(),
                        shares(how.answer).c_str(), static_cast<long>(how.selections));
        }
        return Status::ok();
    }

    ChatPartner& partner_;
    bool terminal_;
    std::optional<TurnEnd> last_;
};

Status chat(const ChatOptions& options) {
    RONDO_ASSIGN(const auto partner, options.url.empty() ? open_engine_partner(options) : open_server_partner(options));
    const bool terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
    Chat conversation(*partner, terminal);
    LineEditor editor(terminal, limits::prompt_bytes_max);
    if (terminal) std::printf("%s. /help lists commands; Ctrl-D ends.\n", partner->name().c_str());
    for (;;) {
        RONDO_ASSIGN(std::optional<std::string> line, editor.next("> "));
        if (!line || (terminal && *line == "/quit")) break;
        if (line->empty()) continue;
        const Status status =
            terminal && line->front() == '/' ? conversation.command(*line) : conversation.answer(*line);
        if (status.is_ok()) continue;
        if (!terminal) return status;
        std::fprintf(stderr, "rondo: %s\n", status.error().message.c_str());
    }
    return Status::ok();
}

}  // namespace

void add_chat(CLI::App& app, Action& run) {
    auto options = std::make_shared<ChatOptions>();
    CLI::App* const command = app.add_subcommand("chat", "talk to a model: a line is a message; reads a pipe too");
    options->model.add_all(*command);
    command->add_option("--url", options->url, "of a running server, instead of a model in this process");
    // Not an argument: every process list would show it.
    command->add_option("--api-key-file", options->api_key_file, "a file with the key for --url");
    command->add_option("--system", options->system, "system prompt");
    command->add_option("--max-tokens", options->tokens_max, "tokens of an answer at most")
        ->check(CLI::Range(1, 1 << 24));
    command->add_option("--temperature", options->sampling.temperature, "0 is greedy (default)");
    command->add_option("--top-p", options->sampling.top_p);
    command->add_option("--seed", options->sampling.seed, "same seed, same text");
    command->callback([options, &run] { run = [options] { return chat(*options); }; });
}

}  // namespace rondo::cli
