#include "cli/eval/contestant.hpp"

#include <algorithm>

#include "cli/model_options.hpp"
#include "config/setting_keys.hpp"
#include "model/policies/decode_selection/oracle.hpp"

namespace rondo::cli::eval {

namespace {

std::vector<std::string> split(const std::string& text, char by) {
    std::vector<std::string> parts;
    size_t begin = 0;
    for (size_t end; (end = text.find(by, begin)) != std::string::npos; begin = end + 1)
        parts.push_back(text.substr(begin, end - begin));
    parts.push_back(text.substr(begin));
    return parts;
}

/// Windows that a small budget cannot hold are cut by the methods; this is the budget alone.
Result<std::unique_ptr<Generator>> open_generator(const Model& model, Device& device, DType kv_type,
                                                  const Contestant& contestant, int budget, const GoldKeys& gold,
                                                  int64_t tokens, bool measure, bool give_up_blocks) {
    Generator::Options how;
    how.kv_type = kv_type;
    how.context_tokens_max = tokens;
    how.prefill = contestant.prefill;
    how.decode = contestant.decode;
    how.decode.budget_tokens = budget;
    if (contestant.oracle) how.decode_method = make_oracle_selection(how.decode, gold);
    how.measure = measure;
    how.give_up_blocks = give_up_blocks;
    return Generator::create(model, device, how);
}

double bytes_in_use(const KvPool& pool) {
    double bytes = 0.0;
    for (const LayerGroup group : {LayerGroup::lower, LayerGroup::upper}) {
        if (pool.shape().layers_in(group) == 0) continue;
        bytes += static_cast<double>(pool.blocks_total(group) - pool.blocks_free(group)) *
                 static_cast<double>(pool.shape().block_bytes(group));
    }
    return bytes;
}

int32_t argmax_of(std::span<const float> logits) {
    return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

double share(int64_t part, int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 1.0;
}

/// The prompt's rounds one by one, as far as `end`.
Status see(Generator& generator, const PromptedQuestion& question, size_t end) {
    size_t begin = 0;
    for (const size_t round : question.rounds) {
        if (round > end) break;
        generator.begin_round();
        const std::span<const int32_t> tokens(question.prompt);
        RONDO_TRY(generator.prefill(tokens.subspan(begin, round - begin), round == question.prompt.size()));
        begin = round;
    }
    return Status::ok();
}

Status see(Generator& generator, const PromptedQuestion& question) {
    return see(generator, question, question.prompt.size());
}

}  // namespace

Result<Contestant> parse_contestant(const std::string& text, std::vector<std::string> base) {
    const std::vector<std::string> parts = split(text, ':');
    Contestant made;
    made.label = text;
    made.oracle = parts[0] == "oracle";
    made.no_history = parts[0] == "no_history";
    if (!made.oracle && !made.no_history) {
        RONDO_ASSIGN(const std::string key, method_key(parts[0]));
        base.push_back(key + "=" + parts[0]);
    }
    for (size_t i = 1; i < parts.size(); ++i) {
        const std::string prompt = "pipeline.prefill.attention." + parts[i].substr(0, parts[i].find('='));
        const bool is_prompt = std::ranges::count(setting_keys(), prompt, &SettingKey::path) > 0;
        base.push_back((is_prompt ? "pipeline.prefill.attention." : "pipeline.decode.attention.") + parts[i]);
    }
    RONDO_ASSIGN(const Settings settings, settings_from_yaml("", "--methods", base));
    made.prefill = settings.pipeline.prefill.attention;
    made.decode = settings.pipeline.decode.attention;
    return made;
}

Result<std::vector<Contestant>> parse_contestants(const std::string& list, const std::vector<std::string>& base) {
    std::vector<Contestant> made;
    for (const std::string& text : split(list, ',')) {
        RONDO_ASSIGN(Contestant one, parse_contestant(text, base));
        made.push_back(std::move(one));
    }
    return made;
}

Result<Attempt> force(const Model& model, Device& device, DType kv_type, const Contestant& contestant, int budget,
                      const PromptedQuestion& question) {
    const std::vector<int32_t>& answer = question.answer;
    const int64_t prompt = std::ssize(question.prompt), tokens = prompt + std::ssize(answer) + 1;
    // An evicting method's keys can only be measured against all keys while those are there: that is a run of its own.
    RONDO_ASSIGN(const auto measured,
                 open_generator(model, device, kv_type, contestant, budget, question.gold, tokens, true, false));
    RONDO_ASSIGN(const auto plain,
                 open_generator(model, device, kv_type, contestant, budget, question.gold, tokens, false, true));
    Attempt attempt;
    for (Generator* const generator : {measured.get(), plain.get()}) {
        RONDO_TRY(see(*generator, question));
        for (size_t i = 0; i < answer.size(); ++i) {
            if (generator == plain.get()) {
                attempt.argmax.push_back(argmax_of(generator->logits()));
                attempt.logits.emplace_back(generator->logits().begin(), generator->logits().end());
            }
            if (i + 1 == answer.size()) break;  // nothing follows the last token
            RONDO_TRY(generator->step(answer[i]));
        }
    }
    if (const SparsePrefill* const lines = measured->sparse_prefill(); lines != nullptr)
        attempt.prompt_density = share(lines->stats().covered, lines->stats().causal);
    attempt.bytes_resident = bytes_in_use(plain->pool());
    if (const SelectiveDecode* const decode = measured->selective_decode(); decode != nullptr) {
        attempt.density = share(decode->stats().attended, decode->stats().causal);
        attempt.masses.assign(decode->masses().begin(), decode->masses().end());
    }
    return attempt;
}

Result<std::vector<int32_t>> answer_freely(const Model& model, Device& device, DType kv_type,
                                           const Contestant& contestant, int budget, const PromptedQuestion& question,
                                           int64_t tokens_max) {
    RONDO_ASSIGN(const auto generator, open_generator(model, device, kv_type, contestant, budget, question.gold,
                                                      std::ssize(question.prompt) + tokens_max + 1, false, true));
    const std::span<const int32_t> prompt = question.prompt;
    const size_t last = question.rounds.size() < 2 ? 0 : question.rounds[question.rounds.size() - 2];
    RONDO_TRY(see(*generator, question, last));
    GenerateOptions options;
    options.tokens_max = tokens_max;
    generator->begin_round();
    RONDO_ASSIGN(const Generated made, generator->generate(prompt.subspan(last), options));
    return made.ids;
}

}  // namespace rondo::cli::eval
