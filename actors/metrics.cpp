#include "actors/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <sstream>
#include <utility>
#include <vector>

namespace rondo {

namespace {

const prometheus::Histogram::BucketBoundaries seconds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                      0.5,   1,      2.5,   5,    10,    30,   60,  300};
const prometheus::Histogram::BucketBoundaries shares{0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 1};
constexpr const char* mass_help = "Share of the attention looked at that was computed, by turn";

std::string name_of(const TurnEnd& end) {
    switch (end.outcome) {
        case TurnOutcome::stop:
            return "stop";
        case TurnOutcome::length:
            return "length";
        case TurnOutcome::cancelled:
            return "abort";
        case TurnOutcome::failed:
            return "error";
    }
    return "error";
}

/// What is counted elsewhere, up to now. A reader that comes late with an older number changes nothing.
void raise(prometheus::Counter& counter, double now) {
    counter.Increment(std::max(now - counter.Value(), 0.0));
}

}  // namespace

struct Metrics::All {
    explicit All(std::string model) : labels{{"model_name", std::move(model)}} {}

    prometheus::Counter& counter(const std::string& name, const std::string& help) {
        return prometheus::BuildCounter().Name("rondo:" + name).Help(help).Register(registry).Add(labels);
    }
    prometheus::Gauge& gauge(const std::string& name, const std::string& help) {
        return prometheus::BuildGauge().Name("rondo:" + name).Help(help).Register(registry).Add(labels);
    }
    prometheus::Histogram& histogram(const std::string& name, const std::string& help,
                                     const prometheus::Histogram::BucketBoundaries& bounds = seconds) {
        return prometheus::BuildHistogram().Name("rondo:" + name).Help(help).Register(registry).Add(labels, bounds);
    }

    std::mutex raising;  // reading a counter and raising it is one step
    prometheus::Labels labels;
    prometheus::Registry registry;
    prometheus::Counter& prompt = counter("prompt_tokens_total", "Tokens of prompts");
    prometheus::Counter& recomputed = counter(
        "prompt_tokens_recomputed_total", "Tokens of prompts that were computed, and again what preempted turns had");
    prometheus::Counter& generated = counter("generation_tokens_total", "Tokens of answers");
    prometheus::Counter& queries = counter("prefix_cache_queries_total", "Tokens of prompts looked up in the cache");
    prometheus::Counter& hits = counter("prefix_cache_hits_total", "Tokens of prompts found in the cache");
    prometheus::Counter& preemptions = counter(
        "num_preemptions_total", "Turns put back for want of KV memory, or because keys did not come from the disk");
    prometheus::Family<prometheus::Counter>& over = prometheus::BuildCounter()
                                                        .Name("rondo:request_success_total")
                                                        .Help("Turns that are over, by how they ended")
                                                        .Register(registry);
    prometheus::Histogram& first_token = histogram("time_to_first_token_seconds", "From arrival to the first token");
    prometheus::Histogram& between = histogram("inter_token_latency_seconds", "From token to token");
    prometheus::Histogram& whole = histogram("e2e_request_latency_seconds", "From arrival to the end");
    prometheus::Histogram& queued = histogram("request_queue_time_seconds", "Waiting to be let in");
    prometheus::Histogram& prefill = histogram("request_prefill_time_seconds", "Computing the prompt");
    prometheus::Histogram& decode = histogram("request_decode_time_seconds", "Computing the answer");
    prometheus::Counter& prompt_causal =
        counter("prompt_attention_entries_total", "Pairs of query and key of prompts by a method, sampled");
    prometheus::Counter& prompt_attended =
        counter("prompt_attention_entries_attended_total", "Those that were computed");
    prometheus::Counter& answer_causal =
        counter("answer_attention_entries_total", "Pairs of query and key of answers that attend to chosen keys");
    prometheus::Counter& answer_attended =
        counter("answer_attention_entries_attended_total", "Those that were computed");
    prometheus::Counter& selections = counter("key_selections_total", "Times that keys were chosen for answers");
    prometheus::Counter& given_up = counter("key_selections_given_up_total", "Of those, given up for want of memory");
    prometheus::Counter& waited =
        counter("key_selections_waited_total", "Of those, not ready when they were due: their answers waited");
    prometheus::Histogram& lag =
        histogram("key_selection_lag_steps", "Decode steps before chosen keys served", {0, 1, 2, 4, 8, 16, 32, 64});
    prometheus::Counter& rounds = counter("rounds_total", "Earlier rounds of turns that chose among them");
    prometheus::Counter& rounds_chosen = counter("rounds_chosen_total", "Those that all layers attended to");
    prometheus::Histogram& rounds_mass =
        histogram("rounds_mass", "Share of the attention to earlier rounds that the chosen ones drew, by turn", shares);
    prometheus::Histogram& prompt_mass = histogram("prompt_attention_mass", mass_help, shares);
    prometheus::Histogram& answer_mass = histogram("answer_attention_mass", mass_help, shares);
    prometheus::Gauge& running = gauge("num_requests_running", "Turns under way");
    prometheus::Gauge& waiting = gauge("num_requests_waiting", "Turns waiting to be let in");
    prometheus::Gauge& kv_usage = gauge("kv_cache_usage_perc", "Share of KV blocks in use or kept for reuse, 0 to 1");
    prometheus::Gauge& blocks_in_turns = gauge("kv_blocks_in_turns", "KV blocks that only turns under way hold");
    prometheus::Gauge& conversations = gauge("conversations", "Conversations kept by id");
    prometheus::Gauge& conversation_bytes = gauge("conversation_bytes", "What kept conversations remember, KV apart");
    prometheus::Counter& left_by_age =
        counter("conversations_left_by_age_total", "Conversations that left, unused for too long");
    prometheus::Counter& left_for_room =
        counter("conversations_left_for_room_total", "Conversations that left to make room");
    prometheus::Gauge& connections = gauge("connections", "Open HTTP connections");
    prometheus::Counter& waited_for_keys =
        counter("store_wait_seconds_total", "Prompts waited for keys from the disk, with nothing to compute meanwhile");
    prometheus::Counter& refused = counter("requests_refused_total", "Turns refused for overload");
};

/// What a store does, told of a store alone.
struct Metrics::OfStore {
    OfStore(All& all, std::shared_ptr<const StoreFigures> told) : figures(std::move(told)) {
        const auto counted = [&](const char* name, const char* help, const auto& number) {
            counters.emplace_back(&all.counter(name, help), [&number] { return static_cast<double>(number); });
        };
        const auto measured = [&](const char* name, const char* help, const auto& number) {
            gauges.emplace_back(&all.gauge(name, help), [&number] { return static_cast<double>(number); });
        };
        const StoreFigures& of = *figures;
        measured("store_up", "1 while conversations are put away", of.serves);
        measured("store_bytes", "KV on the disk", of.bytes);
        measured("store_records", "Rounds on the disk, each layer group counted", of.records);
        measured("store_records_foreign", "Rounds of other models and versions, at the start: first to go", of.foreign);
        measured("store_conversations", "Conversations that outlive the process", of.conversations);
        measured("store_queue", "Turns whose KV waits to be copied", of.queue_sequences);
        measured("store_queue_bytes", "KV of those, and what waits for the disk to write it", of.queue_bytes);
        counted("store_unwritten_total", "Turns whose KV had to leave memory before it was written", of.unwritten);
        counted("store_written_bytes_total", "Written to the disk", of.bytes_written);
        counted("store_read_bytes_total", "Read from the disk", of.bytes_read);
        counted("store_write_seconds_total", "The disk was writing", of.seconds_writing);
        counted("store_read_seconds_total", "The disk was reading", of.seconds_reading);
        counted("store_restore_seconds_total", "Reading KV back took", of.restore_seconds);
        counted("store_prompt_tokens_asked_total", "Tokens of prompts that the pool did not have", of.tokens_asked);
        counted("store_prompt_tokens_found_total", "Of them, those that the disk had", of.tokens_found);
        counted("store_prompt_tokens_restored_total", "Of them, those that came back", of.tokens_restored);
        counted("store_prompt_tokens_not_worth_total", "Of them, computed because that is sooner", of.tokens_not_worth);
        counted("store_prompt_tokens_ahead_total", "Of them, computed while those behind them were read",
                of.tokens_ahead);
        counted("store_ahead_seconds_total", "Keys that had been read waited for those computed ahead of them",
                of.ahead_seconds);
        counted("store_prompt_tokens_failed_total", "Of them, damaged or not to be read", of.tokens_failed);
        counted("store_records_read_total", "Rounds read from the disk, each layer group counted", of.read);
        counted("store_records_evicted_total", "Rounds that made room", of.evicted);
        counted("store_records_expired_total", "Rounds that nobody used for too long", of.expired);
        counted("store_records_damaged_total", "Rounds that were not what was written", of.damaged);
        counted("store_records_never_read_total", "Of those that went, never read", of.never_read);
        counted("store_never_read_bytes_total", "Bytes of these", of.bytes_never_read);
        counted("store_conversations_failed_total", "Changes of conversations that could not be written",
                of.conversations_failed);
        if (of.host_bytes_max > 0) {
            measured("store_host_bytes", "Of the KV on the disk, what lies in host memory as well", of.host_bytes);
            measured("store_host_records", "Rounds in host memory, each layer group counted", of.host_records);
            counted("store_host_read_bytes_total", "Copied from host memory in place of being read",
                    of.host_bytes_copied);
            counted("store_host_read_seconds_total", "That copying took", of.host_seconds_copying);
            counted("store_host_written_bytes_total", "Copied into host memory beside being written",
                    of.host_bytes_filled);
            counted("store_host_write_seconds_total", "That copying took", of.host_seconds_filling);
            counted("store_host_records_read_total", "Rounds found in host memory", of.host_found);
            counted("store_host_records_evicted_total", "Rounds that left host memory to make room", of.host_evicted);
        }
        auto& refused = prometheus::BuildCounter()
                            .Name("rondo:store_records_refused_total")
                            .Help("Rounds that were not written, by why")
                            .Register(all.registry);
        for (size_t i = 1; i < store_refusals; ++i) {
            prometheus::Labels labels = all.labels;
            labels["reason"] = names_of_refusals[i];
            counters.emplace_back(&refused.Add(labels), [&of, i] { return static_cast<double>(of.refused[i]); });
        }
    }

    std::shared_ptr<const StoreFigures> figures;
    std::vector<std::pair<prometheus::Counter*, std::function<double()>>> counters;
    std::vector<std::pair<prometheus::Gauge*, std::function<double()>>> gauges;
};

void Metrics::store(std::shared_ptr<const StoreFigures> figures) {
    store_ = std::make_unique<OfStore>(*all_, std::move(figures));
}

Metrics::Metrics(const std::string& model) : all_(std::make_unique<All>(model)) {}
Metrics::~Metrics() = default;

void Metrics::device(const std::string& name, const std::string& what) {
    prometheus::Labels labels = all_->labels;
    labels["device"] = name;
    labels["what"] = what;
    prometheus::BuildGauge()
        .Name("rondo:device_info")
        .Help("1 for each device: its kind, threads and products")
        .Register(all_->registry)
        .Add(labels)
        .Set(1.0);
}

void Metrics::turn_over(const TurnEnd& end, double total) {
    All& m = *all_;
    const TurnUsage& usage = end.usage;
    const int64_t let_in = usage.cached_tokens + usage.restored_tokens + usage.recomputed_tokens;
    m.prompt.Increment(static_cast<double>(let_in));
    m.queries.Increment(static_cast<double>(let_in));
    m.hits.Increment(static_cast<double>(usage.cached_tokens));
    m.recomputed.Increment(static_cast<double>(usage.recomputed_tokens));
    m.generated.Increment(static_cast<double>(usage.completion_tokens));
    m.preemptions.Increment(end.timings.preemptions);
    prometheus::Labels labels = m.labels;
    labels["finished_reason"] = name_of(end);
    m.over.Add(labels).Increment();
    if (usage.completion_tokens > 0) m.first_token.Observe(end.timings.first_token);
    m.whole.Observe(total);
    m.queued.Observe(end.timings.queued);
    m.prefill.Observe(end.timings.prefill);
    m.decode.Observe(end.timings.decode);
}

void Metrics::attended(const TurnAttention& how) {
    All& m = *all_;
    m.prompt_causal.Increment(static_cast<double>(how.prompt.causal));
    m.prompt_attended.Increment(static_cast<double>(how.prompt.attended));
    m.answer_causal.Increment(static_cast<double>(how.answer.causal));
    m.answer_attended.Increment(static_cast<double>(how.answer.attended));
    m.selections.Increment(static_cast<double>(how.selections));
    m.given_up.Increment(static_cast<double>(how.given_up));
    m.waited.Increment(static_cast<double>(how.waited));
    if (how.selections > 0) m.lag.Observe(how.lag_steps);
    m.rounds.Increment(static_cast<double>(how.rounds.earlier));
    m.rounds_chosen.Increment(static_cast<double>(how.rounds.chosen));
    if (how.rounds.earlier > 0) m.rounds_mass.Observe(how.rounds.mass);
    if (how.prompt.masses > 0) m.prompt_mass.Observe(how.prompt.mass_held());
    if (how.answer.masses > 0) m.answer_mass.Observe(how.answer.mass_held());
}

void Metrics::computed_again(int64_t tokens) {
    all_->recomputed.Increment(static_cast<double>(tokens));
}

void Metrics::between_tokens(double elapsed) {
    all_->between.Observe(elapsed);
}

void Metrics::Now::tell_blocks(size_t all, size_t free, int64_t cached) {
    const auto held = static_cast<double>(all) - static_cast<double>(free);
    blocks_in_turns = held - static_cast<double>(cached);
    kv_usage = all == 0 ? 0.0 : held / static_cast<double>(all);
}

std::string Metrics::text(const Now& now) {
    all_->running.Set(now.running);
    all_->waiting.Set(now.waiting);
    all_->kv_usage.Set(now.kv_usage);
    all_->blocks_in_turns.Set(now.blocks_in_turns);
    all_->conversations.Set(now.conversations);
    all_->conversation_bytes.Set(now.conversation_bytes);
    all_->connections.Set(now.connections);
    {
        const std::lock_guard lock(all_->raising);
        raise(all_->left_by_age, now.left_by_age);
        raise(all_->left_for_room, now.left_for_room);
        raise(all_->refused, now.refused);
        raise(all_->waited_for_keys, now.waited_for_keys);
        if (store_)
            for (const auto& [counter, number] : store_->counters) raise(*counter, number());
    }
    if (store_)
        for (const auto& [gauge, number] : store_->gauges) gauge->Set(number());
    std::ostringstream out;
    prometheus::TextSerializer().Serialize(out, all_->registry.Collect());
    return out.str();
}

}  // namespace rondo
