#include "cli/measure/multi_turn/workload_options.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "cli/number_in.hpp"

namespace rondo::cli::multi_turn {

namespace {

constexpr double scale_max = 1e4;

Result<Range> parse_range(const std::string& option, const std::string& text) {
    Range range;
    const char* const end = text.data() + text.size();
    auto [at, error] = std::from_chars(text.data(), end, range.low);
    range.high = range.low;
    if (error == std::errc() && at != end && *at == ':') {
        const auto second = std::from_chars(at + 1, end, range.high);
        at = second.ptr;
        error = second.ec;
    }
    if (error == std::errc() && at == end) return range;
    return make_error(ErrorCode::invalid_argument,
                      option + " \"" + text.substr(0, 40) + "\" must be a number, or two such as 120:160");
}

Status replace(Range& range, const std::string& option, const std::string& text) {
    if (text.empty()) return Status::ok();
    RONDO_ASSIGN(range, parse_range(option, text));
    return Status::ok();
}

std::string to_text(int64_t low, int64_t high) {
    return std::to_string(low) + (low == high ? "" : ":" + std::to_string(high));
}

std::string to_text(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    return text;
}

}  // namespace

void WorkloadOptions::add_to(CLI::App& app) {
    std::vector<std::string> names;
    for (const Workload& workload : known_workloads()) names.push_back(workload.name);
    app.add_option("--workload", name, "the shape that the options below change")
        ->check(CLI::IsMember(names))
        ->capture_default_str();
    app.add_option("--conversations", conversations, "conversations in all");
    app.add_option("--turns", turns, "turns of a conversation, A:B");
    app.add_option("--shared-prefix", shared_prefix, "tokens of the system prompt, the same for all");
    app.add_option("--own-prefix", own_prefix, "tokens before the first question, MEAN:MAX; one number for all alike");
    app.add_option("--user-tokens", user_tokens, "tokens of a question, A:B");
    app.add_option("--answer-tokens", answer_tokens, "tokens of an answer, A:B");
    app.add_option("--active", active, "conversations that are under way at once");
    app.add_option("--clients", clients, "requests in flight at once (default: as many as --active, where given)");
    app.add_option("--rate", rate, "turns a second; 0: as fast as the server answers");
    app.add_option("--gap-s", gap_s, "seconds from an answer to the conversation's next turn, at least");
    app.add_option("--scale", scale, "multiplies all numbers of tokens")->check(number_in(1e-6, scale_max));
}

Result<Workload> WorkloadOptions::unscaled() const {
    RONDO_ASSIGN(Workload workload, find_workload(name));
    workload.conversations = conversations.value_or(workload.conversations);
    workload.shared_prefix_tokens = shared_prefix.value_or(workload.shared_prefix_tokens);
    workload.active = active.value_or(workload.active);
    workload.clients = clients.value_or(std::min(active.value_or(workload.clients), clients_max));
    workload.rate = rate.value_or(workload.rate);
    workload.gap_s = gap_s.value_or(workload.gap_s);
    RONDO_TRY(replace(workload.turns, "--turns", turns));
    RONDO_TRY(replace(workload.user_tokens, "--user-tokens", user_tokens));
    RONDO_TRY(replace(workload.answer_tokens, "--answer-tokens", answer_tokens));
    Range prefix{workload.own_prefix.mean_tokens, workload.own_prefix.tokens_max};
    RONDO_TRY(replace(prefix, "--own-prefix", own_prefix));
    workload.own_prefix = {prefix.low, prefix.high};
    RONDO_TRY(validate(workload));
    return workload;
}

Result<Workload> WorkloadOptions::resolve() const {
    RONDO_ASSIGN(Workload workload, unscaled());
    multi_turn::scale(workload, scale);
    RONDO_TRY(validate(workload));
    return workload;
}

std::string WorkloadOptions::flags() const {
    const Result<Workload> resolved = unscaled();
    if (!resolved) return {};
    const Workload& workload = *resolved;
    return "--workload " + workload.name + " --conversations " + std::to_string(workload.conversations) + " --turns " +
           to_text(workload.turns.low, workload.turns.high) + " --shared-prefix " +
           std::to_string(workload.shared_prefix_tokens) + " --own-prefix " +
           to_text(workload.own_prefix.mean_tokens, workload.own_prefix.tokens_max) + " --user-tokens " +
           to_text(workload.user_tokens.low, workload.user_tokens.high) + " --answer-tokens " +
           to_text(workload.answer_tokens.low, workload.answer_tokens.high) + " --active " +
           std::to_string(workload.active) + " --clients " + std::to_string(workload.clients) + " --rate " +
           to_text(workload.rate) + " --gap-s " + to_text(workload.gap_s) + " --scale " + to_text(scale);
}

}  // namespace rondo::cli::multi_turn
