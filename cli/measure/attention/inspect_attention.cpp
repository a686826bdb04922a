#include <cstdio>
#include <filesystem>

#include "cli/commands.hpp"
#include "cli/interrupts.hpp"
#include "cli/measure/attention/attention_report.hpp"
#include "cli/measure/attention/dialogue_source.hpp"
#include "cli/measure/eval/roundtalk.hpp"
#include "cli/model_options.hpp"
#include "cli/number_in.hpp"
#include "cli/progress.hpp"

namespace rondo::cli {

namespace {

using namespace attention;

struct AttentionOptions {
    ModelOptions model;
    DialogueSource dialogues;
    PairChoice choice;
    std::string plot_folder;
    bool json = false;
};

/// Attention is looked at as the model itself has it, on a device that shows all rows.
Result<std::unique_ptr<Runner>> open_runner(const ModelOptions& options) {
    RONDO_ASSIGN(const Settings settings, options.settings());
    if (settings.pipeline.prefill.attention != PrefillAttention{} ||
        settings.pipeline.decode.attention != DecodeAttention{})
        return make_error(ErrorCode::invalid_argument,
                          "the settings say how to attend, which has no effect here; attention must be dense");
    RONDO_ASSIGN(auto runner, Runner::open_model(options));
    if (runner->device->space().kind != DeviceKind::cpu)
        return make_error(ErrorCode::unsupported, "a GPU does not show what rows attend to; --device must be cpu");
    if (runner->model.tokenizer == nullptr || !runner->model.chat_template)
        return make_error(ErrorCode::unsupported,
                          runner->model.name + " must have a tokenizer and a chat template, which dialogues need");
    return runner;
}

Error stopped(size_t done, size_t all) {
    return make_error(ErrorCode::cancelled, "stopped by Ctrl-C after " + std::to_string(done) + " of " +
                                                std::to_string(all) + " dialogues; no figures");
}

/// Of all dialogues. Before anything is computed, what does not fit is named, with how many others do not.
Result<size_t> count_all(const std::vector<Dialogue>& dialogues, const Runner& runner) {
    const auto context = static_cast<size_t>(runner.model.spec.usable_context());
    Progress progress("reading dialogues");
    size_t all = 0, read = 0, too_long = 0;
    std::string message;
    for (const Dialogue& dialogue : dialogues) {
        const Result<size_t> tokens = count_tokens(runner.model, dialogue);
        if (!tokens) return make_error(tokens.error().code, dialogue.name + ": " + tokens.error().message);
        all += *tokens;
        if (*tokens > context && too_long++ == 0)
            message = dialogue.name + ": a dialogue of " + std::to_string(*tokens) + " tokens; " + runner.model.name +
                      " holds " + std::to_string(context);
        if (CatchInterrupts::interrupted()) return stopped(0, dialogues.size());
        progress.show(static_cast<double>(++read) / static_cast<double>(dialogues.size()));
    }
    if (too_long == 0) return all;
    if (too_long > 1) message += "; dialogues that are too long: " + std::to_string(too_long);
    return make_error(ErrorCode::out_of_range, message);
}

Result<std::vector<Conversation>> measure_all(const std::vector<Dialogue>& dialogues, const Runner& runner,
                                              const PairChoice& choice) {
    const CatchInterrupts catching;
    RONDO_ASSIGN(const size_t all_tokens, count_all(dialogues, runner));
    MeasureOptions how;
    how.kv_type = kv_dtype(runner.settings.memory.kv_dtype);
    how.kv_bytes_max = static_cast<size_t>(runner.settings.memory.device_kv_mib) << 20;
    Progress progress("attention");
    std::vector<Conversation> conversations;
    size_t tokens_before = 0;
    for (const Dialogue& dialogue : dialogues) {
        const auto named = [&](const Error& error) {
            return error.code == ErrorCode::cancelled ? stopped(conversations.size(), dialogues.size())
                                                      : make_error(error.code, dialogue.name + ": " + error.message);
        };
        const Result<DialogueTokens> tokens = tokenize(runner.model, dialogue);
        if (!tokens) return named(tokens.error());
        Result<DialogueFigures> figures =
            measure_dialogue(runner.model, *runner.device, how, *tokens, [&](size_t done) {
                progress.show(static_cast<double>(tokens_before + done) / static_cast<double>(all_tokens));
                return !CatchInterrupts::interrupted();
            });
        if (!figures) return named(figures.error());
        conversations.push_back(conversation_of(*tokens, std::move(*figures), choice));
        tokens_before += tokens->ids.size();
    }
    return conversations;
}

/// Before anything is computed for it.
Status make_folder(const std::string& folder) {
    std::error_code failed;
    if (!folder.empty()) std::filesystem::create_directories(folder, failed);
    if (failed) return make_error(ErrorCode::io, folder + " cannot be made: " + failed.message());
    return Status::ok();
}

Status write_drawings(const std::string& folder, const std::vector<Drawing>& drawings) {
    for (const Drawing& drawing : drawings)
        RONDO_TRY(write_file((std::filesystem::path(folder) / drawing.file).string(), drawing.svg));
    return Status::ok();
}

Status inspect_attention(const AttentionOptions& options) {
    RONDO_ASSIGN(const std::vector<Dialogue> dialogues, options.dialogues.open());
    RONDO_TRY(make_folder(options.plot_folder));
    RONDO_ASSIGN(const auto runner, open_runner(options.model));
    RONDO_ASSIGN(const auto conversations, measure_all(dialogues, *runner, options.choice));
    const Summary summary = summarise(conversations, options.choice);
    const AttentionFacts facts = {runner->model.name, runner->device->name(),
                                  std::string(name_of(runner->settings.memory.kv_dtype)), options.dialogues.words(),
                                  options.choice};
    if (options.json) {
        constexpr auto replace = nlohmann::ordered_json::error_handler_t::replace;
        std::printf("%s\n", to_json(facts, conversations, summary).dump(-1, ' ', false, replace).c_str());
    } else {
        std::printf("%s", to_text(facts, conversations, summary).c_str());
    }
    if (options.plot_folder.empty()) return Status::ok();
    return write_drawings(options.plot_folder, draw_attention(facts, conversations, summary));
}

}  // namespace

void add_inspect_attention(CLI::App& inspect, Action& run) {
    auto options = std::make_shared<AttentionOptions>();
    DialogueSource& source = options->dialogues;
    CLI::App* const command = inspect.add_subcommand(
        "attention", "what a model attends to in dialogues: by layer, pairs of layers, rounds and lines");
    options->model.add_place(*command);
    CLI::Option* const file =
        command
            ->add_option("--dialogues", source.file,
                         "JSON lines: {\"messages\": [{\"role\", \"content\"} …], \"evidence\": [rounds, from 1]}")
            ->type_name("FILE");
    const auto only_roundtalk = [&](CLI::Option* option) { option->excludes(file); };
    only_roundtalk(command->add_option("--count", source.count, "dialogues of roundtalk, in place of a file's")
                       ->check(CLI::Range(1, 1000))
                       ->capture_default_str());
    only_roundtalk(command->add_option("--rounds", source.rounds, "of each")
                       ->check(CLI::Range(1, eval::DialogueOptions::rounds_max))
                       ->capture_default_str());
    only_roundtalk(
        command
            ->add_option("--task", source.tasks, "what the messages ask, in turn: recall,local,list,again,unknown,mix")
            ->capture_default_str());
    only_roundtalk(command->add_option("--places", source.places, "where in a message the question stands, in turn")
                       ->capture_default_str());
    only_roundtalk(command->add_option("--seeds", source.seeds, "what the dialogues are for")
                       ->check(CLI::IsMember({"development", "report"}))
                       ->capture_default_str());
    only_roundtalk(command->add_option("--seed", source.seed, "of the first dialogue"));
    command->add_option("--gamma", options->choice.gamma, "least I-R score of a layer that may share its KV")
        ->check(number_in(0.0, 1.0))
        ->capture_default_str();
    command->add_option("--layer-ratio", options->choice.layer_ratio, "share of the layers that pairs are to hold")
        ->check(number_in(0.0, 1.0))
        ->capture_default_str();
    command->add_option("--plot", options->plot_folder, "folder for SVG files: layers, rounds, masses, pairs")
        ->type_name("FOLDER");
    command->add_flag("--json", options->json);
    command->callback([options, &run] { run = [options] { return inspect_attention(*options); }; });
}

}  // namespace rondo::cli
