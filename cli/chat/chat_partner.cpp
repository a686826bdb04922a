#include "cli/chat/chat_partner.hpp"

#include <cstdio>

namespace rondo::cli {

namespace {

/// "density 0.31, mass 0.97"; no mass where a method does not look at what it leaves out.
std::string shares(const TurnAttention::Phase& phase) {
    char text[64];
    std::snprintf(text, sizeof text, phase.masses > 0 ? "density %.2f, mass %.2f" : "density %.2f", phase.density(),
                  phase.mass_held());
    return text;
}

template <class... Values>
void print_to(std::string& into, const char* format, Values... values) {
    char text[256];
    std::snprintf(text, sizeof text, format, values...);
    into += text;
}

}  // namespace

std::string ChatPartner::stats(const TurnEnd& turn) const {
    const bool stopped = turn.outcome == TurnOutcome::cancelled;
    const TurnUsage& usage = turn.usage;
    const TurnTimings& times = turn.timings;
    if (stopped && usage.prompt_tokens == 0)
        return "stopped before the server told its figures; /rounds shows what it kept\n";
    std::string text;
    print_to(text, "prompt %ld tokens: %ld cached, %ld restored, %ld computed; answer %ld tokens\n",
             static_cast<long>(usage.prompt_tokens), static_cast<long>(usage.cached_tokens),
             static_cast<long>(usage.restored_tokens), static_cast<long>(usage.recomputed_tokens),
             static_cast<long>(usage.completion_tokens));
    print_to(text, "queued %.1f ms, restore %.1f ms, prefill %.1f ms, decode %.1f ms; first token after %.1f ms\n",
             times.queued * 1e3, times.restore * 1e3, times.prefill * 1e3, times.decode * 1e3, times.first_token * 1e3);
    print_to(text, "%d preemptions%s\n", times.preemptions, stopped ? "; stopped" : "");
    const TurnAttention& how = turn.attention;
    if (how.method == "dense") return text;
    text += how.method + ": prompt " + shares(how.prompt) + "; answer " + shares(how.answer);
    if (how.rounds.earlier > 0)
        print_to(text, "; rounds: %ld of %ld", static_cast<long>(how.rounds.chosen),
                 static_cast<long>(how.rounds.earlier));
    print_to(text, "; choices of keys: %ld\n", static_cast<long>(how.selections));
    return text;
}

SamplingParams ChatOptions::sampling() const {
    SamplingParams params;
    params.temperature = temperature.value_or(params.temperature);
    params.top_p = top_p.value_or(params.top_p);
    params.seed = seed.value_or(params.seed);
    return params;
}

}  // namespace rondo::cli
