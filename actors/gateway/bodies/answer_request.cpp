#include "actors/gateway/bodies/answer_request.hpp"

#include <charconv>
#include <limits>
#include <optional>

#include "config/limits.hpp"

namespace rondo {

namespace {

using Json = nlohmann::json;

/// The id that a member of logit_bias is called by: digits, as to_string writes them, so that none comes twice.
std::optional<int32_t> token_id(const std::string& text, int64_t vocabulary) {
    int32_t id = -1;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), id);
    if (read.ec != std::errc() || std::to_string(id) != text || id < 0 || id >= vocabulary) return std::nullopt;
    return id;
}

void read_logit_bias(BodyFields& fields, int64_t vocabulary, SamplingParams& into) {
    constexpr std::string_view name = "logit_bias";
    const Json* biases = fields.find(name);
    if (biases == nullptr) return;
    if (!biases->is_object()) return fields.wrong(name, "not an object", "{\"token id\": bias}", "invalid_type");
    if (biases->size() > limits::logit_bias_entries_max) {
        return fields.wrong(name, "of " + std::to_string(biases->size()) + " entries",
                            "0 to " + std::to_string(limits::logit_bias_entries_max));
    }
    for (const auto& [key, value] : biases->items()) {
        const auto id = token_id(key, vocabulary);
        if (!id) {
            return fields.wrong(name, "for a token that is not there",
                                "an id from 0 to " + std::to_string(vocabulary - 1));
        }
        const auto bias = fields.checked_number("logit_bias." + key, value, sampling_ranges::logit_bias);
        if (!bias) return;
        into.logit_bias.emplace_back(*id, static_cast<float>(*bias));
    }
}

void read_stops(BodyFields& fields, std::vector<std::string>& into) {
    constexpr std::string_view right = "a string or a list of strings";
    const Json* stop = fields.find("stop");
    if (stop == nullptr) return;
    if (stop->is_string()) {
        into.push_back(stop->get<std::string>());
    } else if (!stop->is_array()) {
        return fields.wrong("stop", "of another type", right, "invalid_type");
    } else if (fields.array("stop", limits::stop_strings_max) == nullptr) {
        return;
    } else {
        for (const Json& item : *stop) {
            if (!item.is_string()) return fields.wrong("stop", "a list of other things", right, "invalid_type");
            into.push_back(item.get<std::string>());
        }
    }
    for (size_t i = 0; i < into.size(); ++i) {
        if (!into[i].empty() && into[i].size() <= limits::stop_string_bytes_max) continue;
        return fields.wrong(stop->is_string() ? "stop" : item_name("stop", i),
                            std::to_string(into[i].size()) + " bytes long",
                            "1 to " + std::to_string(limits::stop_string_bytes_max));
    }
}

void read_sampling(BodyFields& fields, int64_t vocabulary, AnswerRequest& into) {
    SamplingParams& sampling = into.options.sampling;
    sampling.temperature = 1.0F;
    fields.number("temperature", sampling_ranges::temperature, sampling.temperature);
    if (const Json* top_k = fields.find("top_k"); top_k == nullptr || *top_k != -1)  // "off" in other servers
        fields.whole("top_k", 0, vocabulary, sampling.top_k);
    fields.number("top_p", sampling_ranges::top_p, sampling.top_p);
    fields.number("min_p", sampling_ranges::min_p, sampling.min_p);
    fields.number("repetition_penalty", sampling_ranges::repetition_penalty, sampling.repetition_penalty);
    fields.number("presence_penalty", sampling_ranges::presence_penalty, sampling.presence_penalty);
    fields.number("frequency_penalty", sampling_ranges::frequency_penalty, sampling.frequency_penalty);
    read_logit_bias(fields, vocabulary, sampling);
    int64_t seed = 0;
    into.seed_given = fields.find("seed") != nullptr;
    fields.whole("seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), seed);
    sampling.seed = static_cast<uint64_t>(seed);
}

/// A method's name, or an object with it and how many keys it may attend to.
void read_method(BodyFields& fields, AnswerRequest& into) {
    const Json* method = fields.find("method");
    if (method == nullptr || !method->is_object()) return fields.word("method", into.method);
    if (method->empty()) return fields.wrong("method", "an empty object", "a name or an object", "invalid_type");
    auto within = fields.within("method", *method, "a name or an object");
    if (!within) return;
    within->word("name", into.method);
    within->whole("budget_tokens", 1, limits::context_tokens_max, into.budget_tokens);
    within->refuse_others();
}

void read_stream_options(BodyFields& fields, AnswerRequest& into) {
    const Json* options = fields.find("stream_options");
    if (options == nullptr) return;
    if (!into.stream) return fields.wrong("stream_options", "there without stream", "left out");
    auto within = fields.within("stream_options", *options, "an object");
    if (!within) return;
    within->flag("include_usage", into.include_usage);
    within->refuse_unless("include_obfuscation", false);
    within->refuse_unless("continuous_usage_stats", false);
    within->refuse_others();
}

}  // namespace

void read_answer_fields(BodyFields& fields, int64_t vocabulary, AnswerRequest& into) {
    fields.text("model", limits::name_bytes_max, into.model);
    into.tokens_max_given = fields.find("max_tokens") != nullptr;
    fields.whole("max_tokens", 1, limits::context_tokens_max, into.options.tokens_max);
    read_sampling(fields, vocabulary, into);
    read_stops(fields, into.options.stops);
    if (fields.array("stop_token_ids", limits::stop_ids_max) != nullptr)
        fields.token_ids("stop_token_ids", vocabulary, into.options.stop_ids);
    fields.whole("n", 1, limits::answers_max, into.n);
    fields.flag("stream", into.stream);
    read_stream_options(fields, into);
    fields.conversation_id("conversation", into.conversation);
    if (into.n > 1 && !into.conversation.empty()) {
        fields.wrong("n", std::to_string(into.n) + " and a conversation is named", "1");
    }
    fields.flag("continue", into.goes_on);
    if (into.goes_on && into.conversation.empty())
        fields.wrong("continue", "true and no conversation is named", "false");
    fields.flag("ignore_eos", into.options.ignore_eos);
    fields.whole("priority", -limits::priority_max, limits::priority_max, into.priority);
    fields.number("deadline_s", {0, limits::deadline_s_max, false}, into.deadline_s);
    read_method(fields, into);
    bool skip_special = true;
    fields.flag("skip_special_tokens", skip_special);
    into.options.special_text = !skip_special;
    fields.refuse_unless("include_stop_str_in_output", false);
    std::string unused;  // names an end user to whoever runs the server, and changes no answer
    fields.text("user", limits::name_bytes_max, unused);
}

void read_tokens_min(BodyFields& fields, AnswerRequest& into) {
    fields.whole("min_tokens", 0, limits::context_tokens_max, into.options.tokens_min);
    if (into.options.tokens_min <= into.options.tokens_max) return;
    fields.wrong("min_tokens", std::to_string(into.options.tokens_min),
                 "0 to max_tokens, which is " + std::to_string(into.options.tokens_max) + ",");
}

}  // namespace rondo
