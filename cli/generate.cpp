#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "actors/preamble.hpp"
#include "cli/commands.hpp"
#include "cli/model_options.hpp"
#include "cli/terminal_text.hpp"
#include "config/limits.hpp"
#include "config/setting_keys.hpp"
#include "model/attention/round_attention.hpp"
#include "model/format/answer_format.hpp"
#include "model/tools/written_calls.hpp"

namespace rondo::cli {

namespace {

struct GenerateCall {
    ModelOptions model;
    std::string prompt, tokens, messages_file;
    enum class Input { standard_input, prompt, tokens, messages } input = Input::standard_input;
    int64_t tokens_max = 256;
    SamplingParams sampling;
    std::vector<std::string> stops;
    std::vector<int32_t> stop_ids;
    std::string schema_file;
    std::string tools_file, tool_choice = "auto";
    bool ignore_eos = false;
    bool json = false;
};

constexpr std::array<std::string_view, 5> roles = {"system", "developer", "user", "assistant", "tool"};

Result<std::vector<ChatMessage>> read_messages(const std::string& path, size_t bytes_max) {
    RONDO_ASSIGN(const std::string text, read_file(path, bytes_max));
    const auto json = nlohmann::json::parse(text, nullptr, false);
    const auto wrong = [&](const std::string& what) {
        return make_error(ErrorCode::invalid_argument,
                          path + ": " + what + "; it must be a list of {\"role\": …, \"content\": …}");
    };
    if (json.is_discarded()) return wrong("not JSON");
    if (!json.is_array()) return wrong("not a list");
    std::vector<ChatMessage> messages;
    for (const auto& item : json) {
        if (!item.is_object() || !item.contains("role") || !item.contains("content") || !item["role"].is_string() ||
            !item["content"].is_string()) {
            return wrong("message " + std::to_string(messages.size()) + " has no role and content that are text");
        }
        std::string role = item["role"];
        if (role == "developer") role = "system";
        if (std::ranges::find(roles, role) == roles.end()) {
            return make_error(ErrorCode::invalid_argument, path + ": message " + std::to_string(messages.size()) +
                                                               ": the role must be " + listed(roles));
        }
        messages.push_back({std::move(role), item["content"]});
    }
    return messages;
}

/// Null without --tools. Whoever calls a tool like one of the other choices cannot ask for it.
Result<std::shared_ptr<const ToolUse>> tools_of(const GenerateCall& options, const Model& model,
                                                std::shared_ptr<const AnswerFormat> text) {
    if (options.tools_file.empty()) return std::shared_ptr<const ToolUse>();
    RONDO_ASSIGN(const std::string list, read_file(options.tools_file, limits::tools_bytes_max));
    ToolChoice choice;
    choice.text = std::move(text);
    if (options.tool_choice == "none") {
        choice.kind = ToolChoice::Kind::none;
    } else if (options.tool_choice != "auto") {
        choice.kind = ToolChoice::Kind::required;
        if (options.tool_choice != "required") choice.name = options.tool_choice;
    }
    return model.tool_use(list, choice, options.tools_file);
}

/// A chat's rounds end where a server's would.
Result<std::vector<int32_t>> chat_ids(const GenerateCall& options, Runner& runner, const ToolUse* tools) {
    const Model& model = runner.model;
    RONDO_ASSIGN(const auto messages,
                 read_messages(options.messages_file, text_bytes_max(model.spec.usable_context())));
    const GivenToTemplate given{{}, tools == nullptr ? std::string() : tools->json()};
    const Conversation conversation(model);
    RONDO_ASSIGN(Conversation::Prompt prompt, conversation.prompt(messages, given));
    if (runner.generator->round_attention() != nullptr) {
        const int64_t preamble = preamble_tokens(model, conversation, messages, given, prompt.ids, {});
        runner.generator->plan_rounds(apart_from_preamble(std::move(prompt.round_ends), preamble));
    }
    return std::move(prompt.ids);
}

Result<std::vector<int32_t>> prompt_ids(const GenerateCall& options, Runner& runner, const ToolUse* tools) {
    const Model& model = runner.model;
    const size_t bytes_max = text_bytes_max(model.spec.usable_context());
    switch (options.input) {
        case GenerateCall::Input::tokens:
            return parse_numbers(options.tokens, "token ids");
        case GenerateCall::Input::prompt:
            return model.encode_text(options.prompt);
        case GenerateCall::Input::messages:
            return chat_ids(options, runner, tools);
        case GenerateCall::Input::standard_input:
            break;
    }
    RONDO_ASSIGN(const std::string text, read_standard_input(bytes_max));
    return model.encode_text(text);
}

nlohmann::json calls_json(const std::string& text, const CallStyle& style) {
    const ChatMessage message = answer_message(text, &style);
    if (message.more_json.empty()) return nlohmann::json::array();
    nlohmann::json calls = nlohmann::json::parse(message.more_json).at("tool_calls");
    for (nlohmann::json& call : calls) call = call.at("function");
    return calls;
}

/// `style`: of the calls that the answer may have.
nlohmann::json as_json(const Generated& made, const std::vector<int32_t>& prompt, const GenerateCall& options,
                       const CallStyle* style) {
    const auto per_second = [](double count, double seconds) { return seconds > 0 ? count / seconds : 0.0; };
    const auto decoded = static_cast<double>(made.ids.size() - 1);
    nlohmann::json out = {
        {"text", made.text},
        {"ids", made.ids},
        {"prompt_ids", prompt},
        {"finish_reason", made.finish_reason == FinishReason::stop ? "stop" : "length"},
        {"timings",
         {{"prefill_s", made.prefill_seconds},
          {"prefill_tokens_per_s", per_second(static_cast<double>(prompt.size()), made.prefill_seconds)},
          {"decode_s", made.decode_seconds},
          {"decode_tokens_per_s", per_second(decoded, made.decode_seconds)}}}};
    if (style != nullptr) out["tool_calls"] = calls_json(made.text, *style);
    if (options.sampling.logprobs < 0) return out;
    for (const auto& token : made.logprobs) {
        nlohmann::json top = nlohmann::json::array();
        for (size_t i = 1; i < token.size(); ++i) top.push_back({{"id", token[i].id}, {"logprob", token[i].logprob}});
        out["logprobs"].push_back({{"id", token[0].id}, {"logprob", token[0].logprob}, {"top", top}});
    }
    return out;
}

Status generate(const GenerateCall& options) {
    RONDO_TRY(
        options.sampling.check(limits::vocabulary_max));  // before a model is loaded; its own vocabulary comes later
    GenerateOptions how;
    if (!options.schema_file.empty()) {
        RONDO_ASSIGN(const std::string schema, read_file(options.schema_file, limits::schema_bytes_max));
        RONDO_ASSIGN(how.format, AnswerFormat::json_schema(schema, options.schema_file));
    }
    RONDO_ASSIGN(const auto runner, Runner::open(options.model));
    RONDO_ASSIGN(const auto tools, tools_of(options, runner->model, how.format));
    if (tools != nullptr) how.format = tools->format();
    RONDO_ASSIGN(const std::vector<int32_t> prompt, prompt_ids(options, *runner, tools.get()));
    how.tokens_max = options.tokens_max;
    how.sampling = options.sampling;
    how.stops = options.stops;
    how.stop_ids = options.stop_ids;
    how.ignore_eos = options.ignore_eos;
    how.continues_text = options.input != GenerateCall::Input::messages;
    TerminalText terminal;
    const bool on_terminal = isatty(STDOUT_FILENO) == 1;
    const auto print = [&](std::string_view piece) {
        if (options.json) return true;
        const std::string text = on_terminal ? terminal.shown(piece) : std::string(piece);
        std::fwrite(text.data(), 1, text.size(), stdout);
        std::fflush(stdout);
        return true;
    };
    RONDO_ASSIGN(const Generated made, runner->generator->generate(prompt, how, print));
    if (options.json) {
        std::printf("%s\n", as_json(made, prompt, options, tools == nullptr ? nullptr : tools->style())
                                .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                                .c_str());
    } else if (runner->model.tokenizer == nullptr) {
        for (size_t i = 0; i < made.ids.size(); ++i) std::printf("%s%d", i == 0 ? "" : ",", made.ids[i]);
        std::printf("\n");
    } else {
        std::printf("\n");
    }
    return Status::ok();
}

}  // namespace

void add_generate(CLI::App& app, Action& run) {
    auto options = std::make_shared<GenerateCall>();
    CLI::App* const command = app.add_subcommand("generate", "continue a prompt (or standard input)");
    options->model.add_all(*command);
    auto* const prompt = command->add_option("--prompt", options->prompt, "text to continue");
    auto* const tokens = command->add_option("--tokens", options->tokens, "token ids to continue: 1,2,3");
    auto* const messages =
        command->add_option("--messages", options->messages_file, "JSON file: a list of {role, content}")
            ->type_name("FILE");
    tokens->excludes(prompt)->excludes(messages);
    messages->excludes(prompt);
    command->add_option("--max-tokens", options->tokens_max, "tokens to make at most")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
    SamplingParams& sampling = options->sampling;
    command->add_option("--temperature", sampling.temperature, "0 is greedy (default)");
    command->add_option("--top-k", sampling.top_k, "0 is off");
    command->add_option("--top-p", sampling.top_p);
    command->add_option("--min-p", sampling.min_p);
    command->add_option("--repetition-penalty", sampling.repetition_penalty);
    command->add_option("--presence-penalty", sampling.presence_penalty);
    command->add_option("--frequency-penalty", sampling.frequency_penalty);
    command->add_option("--seed", sampling.seed, "same seed, same text");
    CLI::Option* const logprobs =
        command->add_option("--logprobs", sampling.logprobs, "of each token and the N likeliest, in --json");
    // With extra arguments a text in brackets would be a list.
    command->add_option("--stop", options->stops, "end the answer before this text (may be repeated)")
        ->allow_extra_args(false);
    command->add_option("--stop-id", options->stop_ids, "end the answer at this token id (may be repeated)")
        ->allow_extra_args(false);
    command->add_option("--json-schema", options->schema_file, "JSON Schema that the text must keep to")
        ->type_name("FILE");
    auto* const tools = command
                            ->add_option("--tools", options->tools_file,
                                         "JSON file: functions that the answer may call, in OpenAI's form")
                            ->type_name("FILE")
                            ->needs(messages);
    command->add_option("--tool-choice", options->tool_choice, "auto, none, required or a function's name")
        ->needs(tools);
    command->add_flag("--ignore-eos", options->ignore_eos, "go on after an end-of-answer token");
    logprobs->needs(command->add_flag("--json", options->json, "one JSON object instead of text"));
    command->callback([=, &run] {
        if (prompt->count() > 0) options->input = GenerateCall::Input::prompt;
        if (tokens->count() > 0) options->input = GenerateCall::Input::tokens;
        if (messages->count() > 0) options->input = GenerateCall::Input::messages;
        run = [options] { return generate(*options); };
    });
}

}  // namespace rondo::cli
