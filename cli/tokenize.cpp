#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/model_options.hpp"
#include "cli/terminal_text.hpp"
#include "config/limits.hpp"

namespace rondo::cli {

namespace {

struct TokenizeOptions {
    ModelOptions model;
    std::string text, ids;
    bool plain = false, json = false;
};

Result<const Tokenizer*> tokenizer_of(const Model& model) {
    if (model.tokenizer != nullptr) return static_cast<const Tokenizer*>(model.tokenizer.get());
    return make_error(ErrorCode::not_found, "model " + model.name + " has no tokenizer.json");
}

Status tokenize(const TokenizeOptions& options, bool text_given) {
    RONDO_ASSIGN(const Model model, options.model.load_text());
    RONDO_ASSIGN(const Tokenizer* const tokenizer, tokenizer_of(model));
    std::string text = options.text;
    if (!text_given) {
        RONDO_ASSIGN(text, read_standard_input(limits::prompt_bytes_max));
    }
    RONDO_ASSIGN(const std::vector<int32_t> ids, tokenizer->encode(text, !options.plain));
    if (options.json) {
        std::printf("%s\n", nlohmann::json{{"ids", ids}}.dump().c_str());
        return Status::ok();
    }
    for (size_t i = 0; i < ids.size(); ++i) std::printf("%s%d", i == 0 ? "" : ",", ids[i]);
    std::printf("\n");
    return Status::ok();
}

Status detokenize(const TokenizeOptions& options) {
    RONDO_ASSIGN(const Model model, options.model.load_text());
    RONDO_ASSIGN(const Tokenizer* const tokenizer, tokenizer_of(model));
    RONDO_ASSIGN(const std::vector<int32_t> ids, parse_numbers(options.ids, "token ids"));
    RONDO_TRY(check_ids(ids, model.spec.vocabulary));
    const std::string text = tokenizer->decode(ids, !options.plain);
    if (options.json) {
        std::printf("%s\n", nlohmann::json{{"text", text}}.dump().c_str());
    } else {
        print_text(text + "\n");
    }
    return Status::ok();
}

}  // namespace

void add_tokenize(CLI::App& app, Action& run) {
    auto options = std::make_shared<TokenizeOptions>();
    CLI::App* const command = app.add_subcommand("tokenize", "text (or standard input) to token ids");
    options->model.add_text_side(*command);
    auto* const text = command->add_option("--text", options->text);
    command->add_flag("--plain", options->plain, "treat special tokens in the text as plain text");
    command->add_flag("--json", options->json);
    command->callback(
        [options, text, &run] { run = [options, text] { return tokenize(*options, text->count() > 0); }; });

    CLI::App* const back = app.add_subcommand("detokenize", "token ids to text");
    options->model.add_text_side(*back);
    back->add_option("--ids", options->ids, "1,2,3")->required();
    back->add_flag("--plain", options->plain, "leave special tokens out");
    back->add_flag("--json", options->json);
    back->callback([options, &run] { run = [options] { return detokenize(*options); }; });
}

}  // namespace rondo::cli
