#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>

#include "cli/commands.hpp"
#include "cli/model_options.hpp"

namespace rondo::cli {

namespace {

struct Options {
    ModelOptions model;
    std::string system;
    int64_t tokens_max = 1024;
    SamplingParams sampling;
};

/// One conversation: each line is a round. What earlier rounds have computed stays; only what is new is prefilled.
class Chat {
public:
    Chat(const Options& options, Runner& runner) : options_(options), runner_(runner) {
        if (!options.system.empty()) messages_.push_back({"system", options.system});
    }

    Status answer(const std::string& line) {
        messages_.push_back({"user", line});
        const Status status = try_answer();
        if (!status.is_ok()) messages_.pop_back();
        return status;
    }

private:
    Status try_answer() {
        RONDO_ASSIGN(const std::vector<int32_t> ids, runner_.model.encode_chat(messages_));
        const int64_t room = runner_.generator->context_tokens_max() - static_cast<int64_t>(ids.size());
        if (room <= 0) {
            return make_error(ErrorCode::out_of_range, "the conversation has " + std::to_string(ids.size()) +
                                                           " tokens; the context holds " +
                                                           std::to_string(runner_.generator->context_tokens_max()));
        }
        const int64_t kept = runner_.generator->keep_prefix(ids);
        runner_.generator->begin_round();
        GenerateOptions how;
        how.tokens_max = std::min(options_.tokens_max, room);
        how.sampling = options_.sampling;
        RONDO_ASSIGN(const Generated made,
                     runner_.generator->generate(std::span(ids).subspan(static_cast<size_t>(kept)), how,
                                                 [](std::string_view piece) {
                                                     std::fwrite(piece.data(), 1, piece.size(), stdout);
                                                     std::fflush(stdout);
                                                     return true;
                                                 }));
        std::printf("\n");
        messages_.push_back({"assistant", made.text});
        return Status::ok();
    }

    const Options& options_;
    Runner& runner_;
    std::vector<ChatMessage> messages_;
};

Status chat(const Options& options) {
    RONDO_ASSIGN(const auto runner, Runner::open(options.model));
    Chat conversation(options, *runner);
    const bool terminal = isatty(STDIN_FILENO) == 1;
    if (terminal)
        std::printf("%s on %s. An empty line or Ctrl-D ends.\n", runner->model.name.c_str(),
                    runner->device->name().c_str());
    for (;;) {
        if (terminal) std::printf("> "), std::fflush(stdout);
        RONDO_ASSIGN(std::optional<std::string> line,
                     read_line(text_bytes_max(runner->generator->context_tokens_max())));
        if (!line) break;
        if (!line->empty() && line->back() == '\r') line->pop_back();
        if (line->empty()) {
            if (terminal) break;
            continue;
        }
        const Status status = conversation.answer(*line);
        if (status.is_ok()) continue;
        if (!terminal) return status;
        std::fprintf(stderr, "rondo: %s\n", status.error().message.c_str());
    }
    return Status::ok();
}

}  // namespace

void add_chat(CLI::App& app, Action& run) {
    auto options = std::make_shared<Options>();
    CLI::App* const command = app.add_subcommand("chat", "talk to a model: a line is a message; reads a pipe too");
    options->model.add_all(*command);
    command->add_option("--system", options->system, "system prompt");
    command->add_option("--max-tokens", options->tokens_max, "tokens of an answer at most")
        ->check(CLI::Range(1, 1 << 24));
    command->add_option("--temperature", options->sampling.temperature, "0 is greedy (default)");
    command->add_option("--top-p", options->sampling.top_p);
    command->add_option("--seed", options->sampling.seed, "same seed, same text");
    command->callback([options, &run] { run = [options] { return chat(*options); }; });
}

}  // namespace rondo::cli
