#include "cli/measure/multi_turn/multi_turn.hpp"

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "cli/interrupts.hpp"
#include "cli/measure/multi_turn/plot.hpp"
#include "cli/measure/multi_turn/replay.hpp"
#include "cli/measure/multi_turn/report.hpp"
#include "cli/measure/multi_turn/workload_options.hpp"
#include "cli/model_options.hpp"
#include "cli/number_in.hpp"
#include "cli/progress.hpp"
#include "cli/server_options.hpp"
#include "cli/terminal_text.hpp"

namespace rondo::cli {

namespace {

using namespace multi_turn;

struct Options {
    ServerOptions server;
    WorkloadOptions workload;
    uint64_t seed = 1;
    bool stateful = false, fixed_history = false;
    Goals goals;
    bool json = false;
    std::string plot_file;
};

Result<Endpoint> open_endpoint(const Options& options) {
    Endpoint::Options how;
    RONDO_ASSIGN(how.url, Url::parse(options.server.url));
    how.model = options.server.model_name;
    RONDO_ASSIGN(how.api_key, options.server.key());
    RONDO_ASSIGN(how.trust, options.server.trust());
    if (!(options.server.timeout_s > 0.0)) {  // not a number is neither more nor less
        return make_error(ErrorCode::invalid_argument, "--timeout-s must be a number of seconds above 0");
    }
    how.timeout = std::chrono::milliseconds(static_cast<int64_t>(options.server.timeout_s * 1e3));
    return Endpoint::open(std::move(how));
}

/// One answer before the clock starts: whatever the whole run would stumble over is found here, and the server is warm.
Status try_out(Endpoint& endpoint) {
    Question question;
    question.messages = nlohmann::json::array({{{"role", "user"}, {"content", "Say hello to everybody."}}});
    question.answer_tokens = 4;
    const TurnTimes times = endpoint.ask(question, [] { return true; }).times;
    if (times.error.empty()) return Status::ok();
    return make_error(ErrorCode::io, "a first request failed (" + times.error + "): " + times.message);
}

/// A new name for each run, so that a server that keeps conversations does not go on with those of an earlier one.
std::string conversation_name() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return "bench-" + std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

std::string flags_of(const Options& options) {
    std::string flags = options.workload.flags() + " --seed " + std::to_string(options.seed);
    if (options.fixed_history) flags += " --fixed-history";
    return options.stateful ? flags + " --stateful" : flags;
}

const char* mode_of(const Options& options) {
    if (options.fixed_history) return "stateless with a fixed history";
    return options.stateful ? "stateful" : "stateless";
}

Status bench_multi_turn(const Options& options) {
    RONDO_TRY(check_writable(options.plot_file));
    ReplayOptions how;
    RONDO_ASSIGN(how.workload, options.workload.resolve());
    how.seed = options.seed;
    how.stateful = options.stateful;
    how.fixed_history = options.fixed_history;
    how.conversation = conversation_name();
    RONDO_ASSIGN(Endpoint endpoint, open_endpoint(options));
    RONDO_TRY(try_out(endpoint));
    RONDO_ASSIGN(how.tokens_per_word, endpoint.tokens_per_word(options.seed));

    Progress progress(how.workload.name + " against " + options.server.url);
    const CatchInterrupts catching;
    RONDO_ASSIGN(const Replayed replayed, replay(endpoint, how, [&](double share) {
                     progress.show(share);
                     return !catching.interrupted();
                 }));
    progress.finish();
    if (replayed.stopped) {
        if (!replayed.tidied) return replayed.tidied;
        return make_error(ErrorCode::cancelled, "stopped by Ctrl-C before all turns were over; no figures");
    }
    const Statistics statistics = gather(replayed, options.goals);
    const RunFacts facts = {how.workload.name, options.server.url,  endpoint.options().model, mode_of(options),
                            options.seed,      how.tokens_per_word, flags_of(options),        options.goals};
    if (options.json) {
        constexpr auto replace = nlohmann::ordered_json::error_handler_t::replace;
        std::printf("%s\n", to_json(facts, statistics).dump(-1, ' ', false, replace).c_str());
    } else {
        print_text(to_table(facts, statistics));
    }
    if (!options.plot_file.empty()) RONDO_TRY(write_file(options.plot_file, draw_plot(facts, statistics)));
    if (statistics.answers == statistics.requests) return replayed.tidied;
    return make_error(ErrorCode::io, std::to_string(statistics.requests - statistics.answers) + " of " +
                                         std::to_string(statistics.requests) +
                                         " requests failed; the first: " + statistics.first_error);
}

}  // namespace

void add_multi_turn(CLI::App& bench, Action& run) {
    auto options = std::make_shared<Options>();
    options->server.url = "http://127.0.0.1:8080";
    CLI::App* const command =
        bench.add_subcommand("multi_turn", "how a server does in conversations: latencies, throughput, goodput");
    command->add_option("--url", options->server.url, "server that speaks OpenAI's protocol, with or without /v1")
        ->type_name("URL")
        ->capture_default_str();
    options->server.add_all(*command, "--model");
    options->workload.add_to(*command);
    command->add_option("--seed", options->seed, "of lengths, words and arrivals; a server may still hold an old one's")
        ->capture_default_str();
    CLI::Option* const stateful =
        command->add_flag("--stateful", options->stateful,
                          "send only what is new, with a \"conversation\" (Rondo keeps the rest, others do not); they "
                          "are deleted at the end");
    command
        ->add_flag("--fixed-history", options->fixed_history,
                   "resend words in place of the answers, so that every server is asked the same")
        ->excludes(stateful);
    command->add_option("--slo-ttft-ms", options->goals.ttft_ms_max, "goodput counts answers that begin by then")
        ->check(number_in(0.0, 1e9));
    command->add_option("--slo-tpot-ms", options->goals.tpot_ms_max, "and go on at this pace on average")
        ->check(number_in(0.0, 1e9));
    command->add_option("--plot", options->plot_file, "SVG file: first token by round, spread of the gaps")
        ->type_name("FILE");
    command->add_flag("--json", options->json);
    command->callback([options, &run] { run = [options] { return bench_multi_turn(*options); }; });
}

}  // namespace rondo::cli
