#include "cli/chat/chat_commands.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "cli/interrupts.hpp"
#include "config/did_you_mean.hpp"
#include "config/setting_keys.hpp"
#include "config/yaml_tree.hpp"

namespace rondo::cli {

namespace {

constexpr std::array<std::string_view, 8> names = {"/rounds", "/rewind", "/list", "/open",
                                                   "/stats",  "/method", "/help", "/quit"};
constexpr size_t shown_bytes_max = 40;

}  // namespace

const char* ChatCommands::help() {
    return "/rounds        what was said so far\n"
           "/rewind K      forget round K and all after it\n"
           "/list          the conversations that are kept, the newest first\n"
           "/open ID       go on with one of them\n"
           "/stats         where the last turn's time and KV went\n"
           "/method [M]    how attention is computed; M from the next turn on\n"
           "//TEXT         say /TEXT\n"
           "/help, /quit   Ctrl-C stops an answer or clears a line, twice it leaves; Ctrl-D leaves\n";
}

void ChatCommands::print(std::string_view text) const {
    TerminalText whole;
    print(text, whole);
}

/// A piece of a longer text.
void ChatCommands::print(std::string_view piece, TerminalText& of) const {
    const std::string shown = shows_on_terminal_ ? of.shown(piece) : std::string(piece);
    std::fwrite(shown.data(), 1, shown.size(), stdout);
}

Status ChatCommands::take(const std::string& line) {
    const CatchInterrupts catching;
    if (line.starts_with("//")) return say(line.substr(1));
    return line.front() == '/' ? command(line) : say(line);
}

Status ChatCommands::say(const std::string& message) {
    bool begun = false;
    TerminalText answer;
    Result<TurnEnd> end = partner_.ask(message, [&](std::string_view piece) {
        begun = begun || !piece.empty();
        print(piece, answer);
        std::fflush(stdout);
        return !CatchInterrupts::interrupted();
    });
    if (!end) {
        if (begun) print("\n");  // the error has a line of its own
        std::fflush(stdout);
        return end.error();
    }
    last_ = std::move(*end);
    const bool stopped = last_->outcome == TurnOutcome::cancelled;
    const bool cut = terminal_ && last_->outcome == TurnOutcome::length;
    std::printf("%s\n", stopped ? " [stopped]" : cut ? " [cut: it has as many tokens as it may have]" : "");
    if (stopped && !terminal_) return make_error(ErrorCode::cancelled, "stopped by Ctrl-C");
    return Status::ok();
}

Status ChatCommands::command(const std::string& line) {
    const size_t space = std::min(line.find(' '), line.size());
    const std::string name = line.substr(0, space);
    const std::string value = line.substr(std::min(line.find_first_not_of(' ', space), line.size()));
    const bool takes_value = name == "/rewind" || name == "/open" || name == "/method";
    if (std::ranges::find(names, name) == names.end()) {
        const std::string meant = did_you_mean(name, names);
        return make_error(ErrorCode::invalid_argument, name.substr(0, shown_bytes_max) + ": no such command" +
                                                           (meant.empty() ? "; /help lists them" : meant) +
                                                           (terminal_ ? "" : "; a message must begin with // instead"));
    }
    if (!value.empty() && !takes_value) return make_error(ErrorCode::invalid_argument, name + " takes no value");
    if (name == "/rounds") return rounds();
    if (name == "/rewind") return rewind(value);
    if (name == "/list") return list();
    if (name == "/open" && value.empty())
        return make_error(ErrorCode::invalid_argument, "/open: the conversation's id must be one that /list shows");
    if (name == "/open") return partner_.open_conversation(value);
    if (name == "/stats") return stats();
    if (name == "/method") return value.empty() ? show_methods() : choose_method(value);
    if (name == "/help") print(help());
    left_ = name == "/quit";
    return Status::ok();
}

Status ChatCommands::rounds() {
    RONDO_ASSIGN(const ConversationInfo info, partner_.rounds());
    for (size_t i = 0; i < info.rounds.size(); ++i) {
        const Round& round = info.rounds[i];
        print(std::to_string(i) + "  (" + std::to_string(round.tokens) + " tokens) " +
              (round.asked.empty() ? "" : round.asked.back().content) + "\n   " + round.answer + "\n");
    }
    return Status::ok();
}

Status ChatCommands::rewind(const std::string& round) {
    int64_t number = -1;
    const char* const end = round.data() + round.size();
    const auto [read, error] = std::from_chars(round.data(), end, number);
    if (error == std::errc() && read == end) return partner_.rewind(number);
    return make_error(ErrorCode::invalid_argument, "/rewind: the round must be a number that /rounds shows");
}

/// Page by page; Ctrl-C ends it.
Status ChatCommands::list() {
    std::string after;
    do {
        RONDO_ASSIGN(const ConversationPage page, partner_.conversations(after));
        for (const ListedConversation& one : page.conversations) {
            print(one.id + "  (" + std::to_string(one.figures.rounds) + " rounds, " +
                  std::to_string(one.figures.tokens) + " tokens)\n");
        }
        after = page.has_more && !page.conversations.empty() ? page.conversations.back().id : "";
    } while (!after.empty() && !CatchInterrupts::interrupted());
    return Status::ok();
}

std::string ChatCommands::method() const {
    return partner_.method.empty() ? partner_.methods().front() : partner_.method;
}

namespace {

Error no_choice() {
    return make_error(ErrorCode::unsupported, "this server offers no choice of methods: it must be Rondo");
}

}  // namespace

Status ChatCommands::show_methods() const {
    if (partner_.methods().empty()) return no_choice();
    std::string others;
    for (const std::string& name : partner_.methods())
        if (name != method()) others += (others.empty() ? "" : ", ") + name;
    print(method() + (others.empty() ? "" : "; or " + others) + "\n");
    return Status::ok();
}

Status ChatCommands::choose_method(const std::string& name) {
    const std::vector<std::string> methods = partner_.methods();
    if (methods.empty()) return no_choice();
    if (std::ranges::count(methods, name) == 0) {
        return make_error(ErrorCode::invalid_argument,
                          "/method " + shown(name) + ": must be " +
                              listed(std::vector<std::string_view>(methods.begin(), methods.end())));
    }
    partner_.method = name;
    return Status::ok();
}

Status ChatCommands::stats() const {
    if (!last_) return make_error(ErrorCode::not_found, "no turn so far");
    print(partner_.stats(*last_));
    return Status::ok();
}

}  // namespace rondo::cli
