#include "cli/measure/eval/contestant.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "cli/measure/eval/line_overlap.hpp"
#include "cli/measure/eval/variants.hpp"
#include "cli/model_options.hpp"
#include "config/method_rows.hpp"
#include "config/setting_keys.hpp"
#include "model/attention/policies/decode_selection/oracle.hpp"

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

/// Opens a generator with this budget. Methods themselves cut windows that a small budget cannot hold.
Result<std::unique_ptr<Generator>> open_generator(const Machine& machine, const Contestant& contestant, int budget,
                                                  const PromptedQuestion& question, int64_t tokens, bool give_up_blocks,
                                                  PromptProbe* prompt_probe = nullptr,
                                                  MassProbe* step_probe = nullptr) {
    Generator::Options how;
    how.chunk_tokens = machine.chunk_tokens;
    how.kv_type = machine.kv_type;
    how.context_tokens_max = tokens;
    how.prefill = contestant.prefill;
    how.decode = contestant.decode;
    how.decode.budget_tokens = budget;
    how.rounds = contestant.rounds;
    if (contestant.selection) how.decode_method = contestant.selection(how.decode, question.gold);
    how.measure = prompt_probe != nullptr;
    how.prompt_probe = prompt_probe;
    how.step_probe = step_probe;
    how.give_up_blocks = give_up_blocks;
    RONDO_ASSIGN(auto made, Generator::create(machine.model, machine.device, how));
    if (contestant.chooses_rounds()) made->plan_rounds(apart_from_preamble(question.round_ends));
    return made;
}

double bytes_in_use(const KvPool& pool) {
    double bytes = 0.0;
    for (const LayerGroup group : layer_groups) {
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

/// Prefills the prompt's rounds one by one, from the one that begins at token `begin` to the one that ends at `end`.
/// Where rounds are chosen they end as in a conversation, behind answers.
Status see(Generator& generator, const PromptedQuestion& question, size_t begin, size_t end,
           LineOverlap* overlap = nullptr) {
    for (const size_t round : question.rounds) {
        if (round <= begin) continue;
        if (round > end) break;
        if (generator.round_attention() == nullptr) generator.begin_round();
        if (overlap != nullptr) overlap->begin_round();
        const std::span<const int32_t> ids(question.prompt);
        RONDO_TRY(generator.prefill(ids.subspan(begin, round - begin), round == question.prompt.size()));
        begin = round;
    }
    return Status::ok();
}

/// Where the last round's prompt begins.
size_t question_begin(const PromptedQuestion& question) {
    return question.rounds.size() < 2 ? 0 : question.rounds[question.rounds.size() - 2];
}

/// What there is to be known of a prompt's lines.
class LinesProbe : public PromptProbe {
public:
    explicit LinesProbe(const PromptedQuestion& question)
        : audit(question.gold, static_cast<int64_t>(question_begin(question))) {}

    void look_at_lines(int layer, const ChunkShape& chunk, std::span<const Lines> by_head) override {
        overlap.add(layer, chunk, by_head);
    }
    bool wants_rows() const override { return true; }
    void look_at_rows(const ChunkShape& chunk, const SampledRows& all, std::span<const int32_t> sampled,
                      const Lines& lines) override {
        audit.add(chunk, all, sampled, lines);
    }

    LineOverlap overlap;
    PromptAudit audit;
};

bool is_key(std::string_view begin, const std::string& key) {
    return std::ranges::count(setting_keys(), std::string(begin) + key, &SettingKey::path) > 0;
}

bool is_of_prompts(const std::string& key) {
    return is_key(prompt_keys, key);
}

bool is_of_rounds(const std::string& key) {
    return is_key(round_keys, key) && !is_of_prompts(key);
}

/// Why the key does nothing, unless the method heeds it.
std::string unheeded(const MethodRow& method, const std::string& key) {
    if (heeds(method, key)) return {};
    const std::vector<std::string_view> keys = words_in(method.keys);
    return "has no effect on " + std::string(method.name) +
           (keys.empty() ? "; there must be no key" : "; the key must be " + listed(keys));
}

/// Refuses what would have no effect: keys of a phase that is dense, or that something else says. `slot` is the setting
/// that the name fills, if any.
Status check_key(const Contestant& made, std::string_view slot, const std::string& key) {
    const auto wrong = [&](const std::string& why) {
        return make_error(ErrorCode::invalid_argument, "--methods " + made.label + ": " + key + " " + why);
    };
    if (key == "budget_tokens" && made.scaled)
        return wrong("has no effect here; that must be said by --budgets, in percent of the prompt");
    if (key == "budget_tokens" && made.has_budget()) return Status::ok();
    if (key == "method") {
        if (slot.empty() || slot.starts_with(answer_keys) || slot.starts_with(round_keys)) return Status::ok();
        return wrong("and the name both say how prompts attend; the name must be one for answers or rounds");
    }
    if (is_of_rounds(key)) {
        if (!made.chooses_rounds())
            return wrong("has no effect where all rounds are attended to; there must be a method for rounds");
        const std::string why = unheeded(row_of(made.rounds.method), key);
        return why.empty() ? Status::ok() : wrong(why);
    }
    if (is_of_prompts(key)) {
        if (made.prefill.method == PrefillAttention::Method::dense)
            return wrong("has no effect on dense prompts; there must be a method for prompts (method=loopserve)");
        if (key == "density" && !made.prefill.patterns_file.empty())
            return wrong("has no effect beside patterns_file; there must be only one of them");
        const std::string why = unheeded(row_of(made.prefill.method), key);
        return why.empty() ? Status::ok() : wrong(why);
    }
    if (!made.has_budget())
        return wrong("has no effect on dense answers; there must be a method for answers (progressive)");
    const std::string why = unheeded(row_of(made.decode.method), key);
    return why.empty() ? Status::ok() : wrong(why);
}

/// KV that the steps read: what they attended to, and what was looked at to choose it.
double bytes_read(Generator& generator, int64_t keys_seen) {
    const KvShape& shape = generator.pool().shape();
    const double entry = static_cast<double>(shape.atom.bytes()) / kv_block_tokens;  // a key and its value of one head
    const StepAttention* const decode = generator.step_attention();
    const RoundAttention* const rounds = generator.round_attention();
    if (decode == nullptr && rounds != nullptr && rounds->stats().causal > 0)
        return entry * static_cast<double>(rounds->stats().attended);
    if (decode == nullptr) return entry * static_cast<double>(keys_seen * shape.layers * shape.kv_heads);
    const StepAttentionStats& stats = decode->stats();
    return entry * (static_cast<double>(stats.attended) + static_cast<double>(stats.keys_scored) / 2.0) +
           static_cast<double>(stats.bounds_read);
}

/// Tokens that there must be room for.
int64_t tokens_of(const PromptedQuestion& question) {
    return std::ssize(question.prompt) + std::ssize(question.answer) + 1;
}

/// Forces an answer through, behind a prompt.
Result<Attempt> answer_given(Generator& generator, std::span<const int32_t> answer) {
    Attempt attempt;
    int64_t keys_seen = 0;  // by the steps, of all there were
    for (size_t i = 0; i < answer.size(); ++i) {
        attempt.argmax.push_back(argmax_of(generator.logits()));
        attempt.logits.emplace_back(generator.logits().begin(), generator.logits().end());
        if (i + 1 == answer.size()) break;  // nothing follows the last token
        RONDO_TRY(generator.step(answer[i], i + 2 == answer.size()));
        keys_seen += generator.tokens();
    }
    if (answer.size() > 1)
        attempt.bytes_read = bytes_read(generator, keys_seen) / static_cast<double>(answer.size() - 1);
    if (const StepAttention* const decode = generator.step_attention(); decode != nullptr)
        attempt.density = share(decode->stats().attended, decode->stats().causal);
    if (const RoundAttention* const rounds = generator.round_attention(); rounds != nullptr) {
        const RoundStats& stats = rounds->stats();
        if (generator.step_attention() == nullptr) attempt.density = share(stats.attended, stats.causal);
        if (stats.rounds > 0) attempt.round_mass = stats.mass;
    }
    return attempt;
}

/// Of "budget=20".
Result<int> parse_budget(const std::string& label, const std::string& part) {
    const std::string text = part.substr(part.find('=') + 1);
    int percent = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
    if (error == std::errc() && end == text.data() + text.size() && percent >= 1 && percent <= 100) return percent;
    return make_error(ErrorCode::invalid_argument, "--methods " + label + ": budget must be a percent from 1 to 100");
}

}  // namespace

Result<Contestant> parse_contestant(const std::string& text, std::vector<std::string> base) {
    std::vector<std::string> parts = split(text, ':');
    const std::vector<std::string> name_and_variant = split(parts[0], '@');
    const std::string& name = name_and_variant[0];
    const bool is_oracle = name == "oracle";
    Contestant made;
    made.label = text;
    made.no_history = name == "no_history";
    std::string slot;
    if (!is_oracle && !made.no_history) {
        RONDO_ASSIGN(slot, method_key(name));
    }
    const auto add = [&](const std::string& setting) {
        const std::string key = setting.substr(0, setting.find('='));
        base.push_back(std::string(is_of_prompts(key)  ? prompt_keys
                                   : is_of_rounds(key) ? round_keys
                                                       : answer_keys) +
                       setting);
        return key;
    };
    if (name_and_variant.size() > 1) {
        RONDO_ASSIGN(const Variant variant, find_variant(name, parts[0].substr(name.size() + 1), text));
        made.scaled = variant.scaled;
        if (!made.scaled) base = {std::string(prompt_keys) + "min_tokens=0"};
        for (const std::string& setting : variant.keys) add(setting);
    }
    if (!slot.empty()) base.push_back(slot + "=" + name);
    std::vector<std::string> keys;
    for (const std::string& part : std::span(parts).subspan(1)) {
        if (part.starts_with("budget=")) {
            RONDO_ASSIGN(made.budget, parse_budget(text, part));
        } else if (part.starts_with("match=")) {
            if (part != "match=bytes")
                return make_error(ErrorCode::invalid_argument, "--methods " + text + ": match must be bytes");
            made.matches_bytes = true;
        } else {
            keys.push_back(add(part));
        }
    }
    RONDO_ASSIGN(const Settings settings, settings_from_yaml("", "--methods", base));
    made.prefill = settings.pipeline.prefill.attention;
    made.decode = settings.pipeline.decode.attention;
    made.rounds = settings.pipeline.rounds;
    // No setting can name the oracle. Its lag is the one that settings give to methods which choose again and again.
    if (is_oracle) {
        made.decode.method = DecodeAttention::Method::oracle;
        made.selection = make_oracle_selection;
    }
    for (const std::string& key : keys) RONDO_TRY(check_key(made, slot, key));
    if ((made.budget || made.matches_bytes) && (!made.has_budget() || !made.scaled))
        return make_error(ErrorCode::invalid_argument,
                          "--methods " + text + ": a budget has no effect on " +
                              (made.has_budget() ? "@preset; it must be budget_tokens"
                                                 : "dense answers; there must be a method for answers"));
    return made;
}

Result<std::vector<Contestant>> parse_contestants(const std::string& list, const std::vector<std::string>& base) {
    std::vector<Contestant> made;
    for (const std::string& text : split(list, ',')) {
        if (std::ranges::count(made, text, &Contestant::label) > 0)
            return make_error(ErrorCode::invalid_argument, "--methods " + list + ": each must be there only once");
        RONDO_ASSIGN(Contestant one, parse_contestant(text, base));
        made.push_back(std::move(one));
    }
    return made;
}

std::vector<int> shares_of(const Contestant& contestant, const std::vector<int>& budgets) {
    if (contestant.budget) return {*contestant.budget};
    return contestant.has_budget() && contestant.scaled ? budgets : std::vector<int>{100};
}

int least_keys(const Contestant& contestant) {
    return row_of(contestant.decode.method).budget_tokens_min;
}

Result<DensePrompt> DensePrompt::create(const Machine& machine, const PromptedQuestion& question) {
    const int64_t tokens = tokens_of(question);
    Contestant any;
    any.decode.method = DecodeAttention::Method::progressive;  // so that there is room for copies of all keys
    RONDO_ASSIGN(auto generator, open_generator(machine, any, static_cast<int>(tokens), question, tokens, false));
    RONDO_TRY(generator->answer_by({}));
    RONDO_TRY(see(*generator, question, 0, question.prompt.size()));
    return DensePrompt(question, std::move(generator));
}

Result<Attempt> DensePrompt::answer(const Contestant& contestant, int budget) {
    DecodeAttention how = contestant.decode;
    how.budget_tokens = budget;
    RONDO_TRY(generator_->answer_by(how, contestant.selection ? contestant.selection(how, question_->gold) : nullptr));
    // The last rounds are computed once more: the method needs their queries, and the answer before took their places.
    const int64_t known = std::ssize(question_->prompt) - StepAttention::prompt_rows(how);
    size_t begin = 0;
    for (const size_t round : question_->rounds) {
        if (static_cast<int64_t>(round) <= known) begin = round;
    }
    generator_->truncate(static_cast<int64_t>(begin));
    RONDO_TRY(see(*generator_, *question_, begin, question_->prompt.size()));
    return answer_given(*generator_, question_->answer);
}

int keys_for(const Machine& machine, double bytes_read) {
    const KvShape shape = Transformer::kv_shape(machine.model.spec, machine.kv_type);
    const double key = static_cast<double>(shape.atom.bytes()) / kv_block_tokens * shape.layers * shape.kv_heads;
    return static_cast<int>(std::lround(bytes_read / key));
}

Result<Attempt> force(const Machine& machine, const Contestant& contestant, int budget,
                      const PromptedQuestion& question) {
    RONDO_ASSIGN(const auto generator,
                 open_generator(machine, contestant, budget, question, tokens_of(question), true));
    RONDO_TRY(see(*generator, question, 0, question.prompt.size()));
    return answer_given(*generator, question.answer);
}

Status measure_choices(const Machine& machine, const Contestant& contestant, int budget,
                       const PromptedQuestion& question, Attempt& attempt) {
    const int64_t tokens = tokens_of(question);
    // An evicting method's keys can only be measured against all keys while those are there: two runs.
    RONDO_ASSIGN(const auto plain, open_generator(machine, contestant, budget, question, tokens, true));
    RONDO_TRY(see(*plain, question, 0, question.prompt.size()));
    RONDO_ASSIGN(const Attempt again, answer_given(*plain, question.answer));
    if (again.argmax != attempt.argmax)
        return make_error(ErrorCode::internal, contestant.label + " answers otherwise where it gives up keys for good");
    attempt.bytes_resident = bytes_in_use(plain->pool());
    if (const StepAttention* const decode = plain->step_attention(); decode != nullptr)
        *attempt.bytes_resident += static_cast<double>(decode->bytes_beside());

    LinesProbe lines_probe(question);
    MassProbe probe;
    RONDO_ASSIGN(const auto measured,
                 open_generator(machine, contestant, budget, question, tokens, false, &lines_probe,
                                contestant.chooses_rounds() ? nullptr : &probe));  // all keys there are
    RONDO_TRY(see(*measured, question, 0, question.prompt.size(), &lines_probe.overlap));
    for (size_t i = 0; i + 1 < question.answer.size(); ++i) {
        RONDO_TRY(measured->step(question.answer[i]));
        const StepAttention* const decode = measured->step_attention();
        if (decode != nullptr && !decode->serving()) attempt.cold_masses = probe.masses().size();
    }
    attempt.prompt_density = 1.0;
    if (const SparsePrefill* const lines = measured->sparse_prefill(); lines != nullptr)
        attempt.prompt_density = share(lines->stats().covered, lines->stats().causal);
    attempt.line_overlap = lines_probe.overlap.share();
    attempt.prompt_mass = lines_probe.audit.of_sampled();
    attempt.unsampled_mass = lines_probe.audit.of_others();
    attempt.evidence_mass = lines_probe.audit.of_evidence();
    attempt.masses.assign(probe.masses().begin(), probe.masses().end());
    return Status::ok();
}

Result<std::vector<int32_t>> answer_freely(const Machine& machine, const Contestant& contestant, int budget,
                                           const PromptedQuestion& question, int64_t tokens_max) {
    RONDO_ASSIGN(const auto generator, open_generator(machine, contestant, budget, question,
                                                      std::ssize(question.prompt) + tokens_max + 1, true));
    const std::span<const int32_t> prompt = question.prompt;
    const size_t last = question_begin(question);
    RONDO_TRY(see(*generator, question, 0, last));
    GenerateOptions options;
    options.tokens_max = tokens_max;
    if (!contestant.chooses_rounds()) generator->begin_round();
    RONDO_ASSIGN(const Generated made, generator->generate(prompt.subspan(last), options));
    return made.ids;
}

}  // namespace rondo::cli::eval
