#include "actors/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <sstream>

namespace rondo {

namespace {

const prometheus::Histogram::BucketBoundaries seconds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                      0.5,   1,      2.5,   5,    10,    30,   60,  300};

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

}  // namespace

struct Metrics::All {
    explicit All(std::string model) : labels{{"model_name", std::move(model)}} {}

    prometheus::Counter& counter(const std::string& name, const std::string& help) {
        return prometheus::BuildCounter().Name("rondo:" + name).Help(help).Register(registry).Add(labels);
    }
    prometheus::Gauge& gauge(const std::string& name, const std::string& help) {
        return prometheus::BuildGauge().Name("rondo:" + name).Help(help).Register(registry).Add(labels);
    }
    prometheus::Histogram& histogram(const std::string& name, const std::string& help) {
        return prometheus::BuildHistogram().Name("rondo:" + name).Help(help).Register(registry).Add(labels, seconds);
    }

    prometheus::Labels labels;
    prometheus::Registry registry;
    prometheus::Counter& prompt = counter("prompt_tokens_total", "Tokens of prompts");
    prometheus::Counter& recomputed = counter("prompt_tokens_recomputed_total", "Tokens of prompts that were computed");
    prometheus::Counter& generated = counter("generation_tokens_total", "Tokens of answers");
    prometheus::Counter& queries = counter("prefix_cache_queries_total", "Tokens of prompts looked up in the cache");
    prometheus::Counter& hits = counter("prefix_cache_hits_total", "Tokens of prompts found in the cache");
    prometheus::Counter& preemptions = counter("num_preemptions_total", "Turns put back for want of KV memory");
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
    prometheus::Gauge& running = gauge("num_requests_running", "Turns under way");
    prometheus::Gauge& waiting = gauge("num_requests_waiting", "Turns waiting to be let in");
    prometheus::Gauge& kv_usage = gauge("kv_cache_usage_perc", "Share of KV blocks in use or kept for reuse, 0 to 1");
    prometheus::Gauge& blocks_in_turns = gauge("kv_blocks_in_turns", "KV blocks that only turns under way hold");
    prometheus::Gauge& conversations = gauge("conversations", "Conversations kept by id");
    prometheus::Gauge& connections = gauge("connections", "Open HTTP connections");
    prometheus::Gauge& refused = gauge("requests_refused", "Turns refused for overload since the start");
};

Metrics::Metrics(const std::string& model) : all_(std::make_unique<All>(model)) {}
Metrics::~Metrics() = default;

void Metrics::turn_over(const TurnEnd& end, double total) {
    All& m = *all_;
    m.prompt.Increment(static_cast<double>(end.usage.prompt_tokens));
    m.queries.Increment(static_cast<double>(end.usage.prompt_tokens));
    m.hits.Increment(static_cast<double>(end.usage.cached_tokens));
    m.recomputed.Increment(static_cast<double>(end.usage.recomputed_tokens));
    m.generated.Increment(static_cast<double>(end.usage.completion_tokens));
    m.preemptions.Increment(end.timings.preemptions);
    prometheus::Labels labels = m.labels;
    labels["finished_reason"] = name_of(end);
    m.over.Add(labels).Increment();
    if (end.usage.completion_tokens > 0) m.first_token.Observe(end.timings.first_token);
    m.whole.Observe(total);
    m.queued.Observe(end.timings.queued);
    m.prefill.Observe(end.timings.prefill);
    m.decode.Observe(end.timings.decode);
}

void Metrics::between_tokens(double elapsed) {
    all_->between.Observe(elapsed);
}

std::string Metrics::text(const Now& now) {
    all_->running.Set(now.running);
    all_->waiting.Set(now.waiting);
    all_->kv_usage.Set(now.kv_usage);
    all_->blocks_in_turns.Set(now.blocks_in_turns);
    all_->conversations.Set(now.conversations);
    all_->connections.Set(now.connections);
    all_->refused.Set(now.refused);
    std::ostringstream out;
    prometheus::TextSerializer().Serialize(out, all_->registry.Collect());
    return out.str();
}

}  // namespace rondo
