#include "cli/eval/contestant.hpp"

#include <algorithm>

#include "cli/eval/line_overlap.hpp"
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
Result<std::unique_ptr<Generator>> open_generator(const Machine& machine, const Contestant& contestant, int budget,
                                                  const GoldKeys& gold, int64_t tokens, bool measure,
                                                  bool give_up_blocks) {
    Generator::Options how;
    how.chunk_tokens = machine.chunk_tokens;
    how.kv_type = machine.kv_type;
    how.context_tokens_max = tokens;
    how.prefill = contestant.prefill;
    how.decode = contestant.decode;
    how.decode.budget_tokens = budget;
    if (contestant.is_oracle()) how.decode_method = make_oracle_selection(how.decode, gold);
    how.measure = measure;
    how.give_up_blocks = give_up_blocks;
    return Generator::create(machine.model, machine.device, how);
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
Status see(Generator& generator, const PromptedQuestion& question, size_t end, LineOverlap* overlap = nullptr) {
    size_t begin = 0;
    for (const size_t round : question.rounds) {
        if (round > end) break;
        generator.begin_round();
        if (overlap != nullptr) overlap->begin_round();
        const std::span<const int32_t> tokens(question.prompt);
        RONDO_TRY(generator.prefill(tokens.subspan(begin, round - begin), round == question.prompt.size()));
        begin = round;
    }
    return Status::ok();
}

/// Where the last round's prompt begins.
size_t question_begin(const PromptedQuestion& question) {
    return question.rounds.size() < 2 ? 0 : question.rounds[question.rounds.size() - 2];
}

bool is_of_prompts(const std::string& key) {
    return std::ranges::count(setting_keys(), std::string(prompt_keys) + key, &SettingKey::path) > 0;
}

/// What each method heeds, beside its budget.
struct MethodKeys {
    std::string_view method;
    std::vector<std::string_view> keys;
};
const MethodKeys keys_of_prompts[] = {{"loopserve", {"alpha", "alpha_of", "sample_rows", "min_tokens", "overlap"}},
                                      {"a_shape", {"density", "min_tokens"}},
                                      {"tri_shape", {"density", "min_tokens"}},
                                      {"minference", {"density", "patterns_file", "min_tokens"}},
                                      {"flexprefill", {"min_tokens"}}};
const MethodKeys keys_of_answers[] = {
    {"progressive", {"cold_tokens", "reselect_every", "lag_steps", "observe", "pool", "pool_side", "sinks"}},
    {"snapkv", {"pool", "window"}},
    {"adakv", {"pool", "window"}},
    {"streaming_llm", {"sinks", "shift"}},
    {"h2o", {"window"}},
    {"quest", {}},
    {"random", {"cold_tokens", "reselect_every", "lag_steps"}},
    {"recent", {"cold_tokens", "reselect_every", "lag_steps"}},
    {"oracle", {"cold_tokens", "reselect_every", "lag_steps"}}};

std::string_view name_of(PrefillAttention::Method method) {
    return names_of_methods(MethodSlot::prefill)[static_cast<size_t>(method)];
}

std::string_view name_of(DecodeAttention::Method method) {
    if (method == DecodeAttention::Method::oracle) return "oracle";
    return names_of_methods(MethodSlot::decode)[static_cast<size_t>(method)];
}

/// Why the key does nothing, unless the method heeds it.
std::string unheeded(std::span<const MethodKeys> methods, std::string_view method, const std::string& key) {
    const auto& keys = std::ranges::find(methods, method, &MethodKeys::method)->keys;
    if (std::ranges::count(keys, key) > 0) return {};
    return "has no effect on " + std::string(method) + "; " + (keys.empty() ? "no key" : listed(keys)) +
           " would be right";
}

/// Refuses what would have no effect: keys of a phase that is dense, or that something else says. `slot` is the setting
/// that the name fills, if any.
Status check_key(const Contestant& made, std::string_view slot, const std::string& key) {
    const auto wrong = [&](const std::string& why) {
        return make_error(ErrorCode::invalid_argument, "--methods " + made.label + ": " + key + " " + why);
    };
    if (key == "budget_tokens") return wrong("has no effect here; --budgets, in percent of the prompt, would be right");
    if (key == "method") {
        if (slot.empty() || slot.starts_with(answer_keys)) return Status::ok();
        return wrong("and the name both say how prompts attend; a name for answers would be right");
    }
    if (is_of_prompts(key)) {
        if (made.prefill.method == PrefillAttention::Method::dense)
            return wrong(
                "has no effect on dense prompts; with a method for prompts (method=loopserve) it would be right");
        if (key == "density" && !made.prefill.patterns_file.empty())
            return wrong("has no effect beside patterns_file; one of them would be right");
        const std::string why = unheeded(keys_of_prompts, name_of(made.prefill.method), key);
        return why.empty() ? Status::ok() : wrong(why);
    }
    if (!made.has_budget())
        return wrong("has no effect on dense answers; with a method for answers (progressive) it would be right");
    const std::string why = unheeded(keys_of_answers, name_of(made.decode.method), key);
    return why.empty() ? Status::ok() : wrong(why);
}

}  // namespace

Result<Contestant> parse_contestant(const std::string& text, std::vector<std::string> base) {
    const std::vector<std::string> parts = split(text, ':');
    const bool is_oracle = parts[0] == "oracle";
    Contestant made;
    made.label = text;
    made.no_history = parts[0] == "no_history";
    std::string slot;
    if (!is_oracle && !made.no_history) {
        RONDO_ASSIGN(slot, method_key(parts[0]));
        base.push_back(slot + "=" + parts[0]);
    }
    std::vector<std::string> keys;
    for (size_t i = 1; i < parts.size(); ++i) {
        keys.push_back(parts[i].substr(0, parts[i].find('=')));
        base.push_back(std::string(is_of_prompts(keys.back()) ? prompt_keys : answer_keys) + parts[i]);
    }
    RONDO_ASSIGN(const Settings settings, settings_from_yaml("", "--methods", base));
    made.prefill = settings.pipeline.prefill.attention;
    made.decode = settings.pipeline.decode.attention;
    // No setting can name it. Named here, it has the lag that settings give to methods which choose again and again.
    if (is_oracle) made.decode.method = DecodeAttention::Method::oracle;
    for (const std::string& key : keys) RONDO_TRY(check_key(made, slot, key));
    return made;
}

Result<std::vector<Contestant>> parse_contestants(const std::string& list, const std::vector<std::string>& base) {
    std::vector<Contestant> made;
    for (const std::string& text : split(list, ',')) {
        if (std::ranges::count(made, text, &Contestant::label) > 0)
            return make_error(ErrorCode::invalid_argument, "--methods " + list + ": each of them once would be right");
        RONDO_ASSIGN(Contestant one, parse_contestant(text, base));
        made.push_back(std::move(one));
    }
    return made;
}

Result<Attempt> force(const Machine& machine, const Contestant& contestant, int budget,
                      const PromptedQuestion& question) {
    const std::vector<int32_t>& answer = question.answer;
    const int64_t prompt = std::ssize(question.prompt), tokens = prompt + std::ssize(answer) + 1;
    // An evicting method's keys can only be measured against all keys while those are there: that is a run of its own.
    RONDO_ASSIGN(const auto measured, open_generator(machine, contestant, budget, question.gold, tokens, true, false));
    RONDO_ASSIGN(const auto plain, open_generator(machine, contestant, budget, question.gold, tokens, false, true));
    LineOverlap overlap;
    PromptAudit audit(question.gold, static_cast<int64_t>(question_begin(question)));
    if (SparsePrefill* const lines = measured->sparse_prefill(); lines != nullptr) {
        lines->listen([&overlap](int layer, const ChunkShape& chunk, std::span<const Lines> by_head) {
            overlap.add(layer, chunk, by_head);
        });
        lines->audit([&audit](const ChunkShape& chunk, const SampledRows& all, std::span<const int32_t> sampled,
                              const Lines& of_head) { audit.add(chunk, all, sampled, of_head); });
    }
    Attempt attempt;
    for (Generator* const generator : {measured.get(), plain.get()}) {
        RONDO_TRY(see(*generator, question, question.prompt.size(), generator == measured.get() ? &overlap : nullptr));
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
    attempt.line_overlap = overlap.share();
    attempt.prompt_mass = audit.of_sampled();
    attempt.unsampled_mass = audit.of_others();
    attempt.evidence_mass = audit.of_evidence();
    attempt.bytes_resident = bytes_in_use(plain->pool());
    if (const SelectiveDecode* const decode = plain->selective_decode(); decode != nullptr)
        attempt.bytes_resident += static_cast<double>(decode->bytes_beside());
    if (const SelectiveDecode* const decode = measured->selective_decode(); decode != nullptr) {
        attempt.density = share(decode->stats().attended, decode->stats().causal);
        attempt.masses.assign(decode->masses().begin(), decode->masses().end());
    }
    return attempt;
}

Result<std::vector<int32_t>> answer_freely(const Machine& machine, const Contestant& contestant, int budget,
                                           const PromptedQuestion& question, int64_t tokens_max) {
    RONDO_ASSIGN(const auto generator, open_generator(machine, contestant, budget, question.gold,
                                                      std::ssize(question.prompt) + tokens_max + 1, false, true));
    const std::span<const int32_t> prompt = question.prompt;
    const size_t last = question_begin(question);
    RONDO_TRY(see(*generator, question, last));
    GenerateOptions options;
    options.tokens_max = tokens_max;
    generator->begin_round();
    RONDO_ASSIGN(const Generated made, generator->generate(prompt.subspan(last), options));
    return made.ids;
}

}  // namespace rondo::cli::eval
