#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "actors/engine_inside.hpp"
#include "actors/gateway/browsers.hpp"
#include "actors/gateway/gateway.hpp"
#include "cli/commands.hpp"
#include "cli/line_writer.hpp"
#include "cli/model_options.hpp"
#include "cli/progress.hpp"
#include "transport/http_server.hpp"
#include "transport/http_url.hpp"

namespace rondo::cli {

namespace {

struct ServeOptions {
    ModelOptions model;
    std::string host;
    int port = -1;
    std::string api_keys_file;
    bool quiet = false;
    int drain_seconds = 30;
};

/// The reason why the engine gave up serving, if it did; one of its threads tells it.
class GaveUp {
public:
    void tell(Error why) {
        const std::lock_guard lock(mutex_);
        why_ = std::move(why);
    }
    std::optional<Error> why() const {
        const std::lock_guard lock(mutex_);
        return why_;
    }

private:
    mutable std::mutex mutex_;
    std::optional<Error> why_;
};

/// Under nohup nothing happens when the terminal closes.
bool hangup_is_ignored() {
    struct sigaction action {};
    return sigaction(SIGHUP, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// Blocks the signals that end a server, in this thread and those it starts, so that one place can wait for them.
sigset_t block_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM}) sigaddset(&signals, signal);
    if (!hangup_is_ignored()) sigaddset(&signals, SIGHUP);  // while it is blocked it would come all the same
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
    return signals;
}

/// Before anything is served, a signal ends the process at once: nothing has to end in good order.
void end_if_asked(const sigset_t& signals) {
    constexpr timespec at_once{};
    if (const int signal = sigtimedwait(&signals, nullptr, &at_once); signal > 0) std::_Exit(128 + signal);
}

using Clock = std::chrono::steady_clock;
/// The time between the end of patience and the end of the process; clients are told in its first half.
constexpr std::chrono::milliseconds end_time{900};

/// Turns under way go on for so long at most, and what they have computed is put away; another signal ends them at
/// once, but for SIGHUP: a terminal that closes may send it twice. Returns when the process must be gone.
Clock::time_point drain(Engine& engine, Gateway& gateway, sigset_t signals, std::chrono::seconds patience,
                        LineWriter& log) {
    sigdelset(&signals, SIGHUP);
    std::atomic<Clock::time_point> over = Clock::now() + patience;
    std::atomic<bool> drained{false};
    std::thread listener([&] {
        int signal = 0;
        sigwait(&signals, &signal);
        if (drained) return;
        over = Clock::now();
        gateway.drain(std::chrono::seconds(0));
    });
    if (const size_t turns = inside(engine).load().turns; turns > 0 && patience.count() > 0)
        log.write("rondo: turns under way: " + std::to_string(turns) + "; they may go on for " +
                  std::to_string(patience.count()) + " s, and another signal ends them at once\n");
    gateway.drain(patience);
    const auto is_under_way = [&] {
        const Status put_away = inside(engine).put_away(std::chrono::milliseconds(100));
        return !put_away && put_away.error().code == ErrorCode::timeout;
    };
    while (is_under_way() && Clock::now() < over.load()) {
    }
    drained = true;
    pthread_kill(listener.native_handle(), SIGTERM);  // it may still wait for one
    listener.join();
    return std::min(over.load(), Clock::now()) + end_time;
}

/// Ends the process at this time, even if the engine's end still waits, such as for a long step of a device, or if
/// nobody reads what the process has to say.
void end_at_the_latest(Clock::time_point end, const std::optional<Error>& why, std::weak_ptr<LineWriter> log_of) {
    std::thread([end, why, log_of = std::move(log_of)] {
        std::this_thread::sleep_until(end);
        if (const auto log = log_of.lock(); log && why) {  // else whoever called says it
            log->write("rondo: " + why->message + '\n');
            log->settle();
        }
        std::_Exit(why ? EXIT_FAILURE : EXIT_SUCCESS);
    }).detach();
}

/// Sets malloc's thresholds. Left alone, malloc learns from the first large text to keep as much in each thread's
/// arena, up to 64 MiB.
void let_malloc_give_back() {
    ::mallopt(M_MMAP_THRESHOLD, 4 << 20);
    ::mallopt(M_TRIM_THRESHOLD, 8 << 20);
}

/// That others listen there is said before a large model is loaded. Whoever comes meanwhile is met after that.
Status check_address(const ServerSettings& server) {
    HttpServer::Options there;
    there.host = server.host;
    there.port = static_cast<uint16_t>(server.port);
    return HttpServer::open(std::move(there), {}).status();
}

Status serve(const ServeOptions& options) {
    let_malloc_give_back();
    const sigset_t signals = block_signals();
    const std::vector<std::string>& overrides = options.model.overrides;
    RONDO_TRY(check_single("--host", options.host, "server.host=", overrides));
    RONDO_TRY(check_single("--port", options.port < 0 ? "" : std::to_string(options.port), "server.port=", overrides));
    RONDO_TRY(check_single("--api-keys", options.api_keys_file, "server.api_keys_file=", overrides));
    RONDO_ASSIGN(Settings settings, options.model.settings());
    if (!options.host.empty()) settings.server.host = options.host;
    if (options.port >= 0) settings.server.port = options.port;
    if (!options.api_keys_file.empty()) settings.server.api_keys_file = options.api_keys_file;

    const ServerSettings& server = settings.server;
    if (!server.api_keys_file.empty())  // before a large model is loaded
        RONDO_TRY(ApiKeys::read(server.api_keys_file, server.api_keys_shared).status());
    RONDO_TRY(check_address(server));

    auto gave_up = std::make_shared<GaveUp>();
    Progress progress("loading " + model_path(settings.model.path).filename().string());
    Engine::Options how;
    how.progress = [&](double share) {
        progress.show(share);
        end_if_asked(signals);
    };
    how.gave_up = [gave_up](Error why) {
        gave_up->tell(std::move(why));
        ::kill(::getpid(), SIGTERM);
    };
    const auto log = std::make_shared<LineWriter>(STDERR_FILENO);
    how.log = [log](const std::string& line) { log->write("rondo: " + line + '\n'); };
    RONDO_ASSIGN(const auto engine, Engine::open(settings, std::move(how)));
    progress.finish();
    Gateway::Options gateway_options;
    gateway_options.server = server;
    gateway_options.log.write = [log](const std::string& line) { log->write(line); };
    gateway_options.log.failures_only = options.quiet;
    RONDO_ASSIGN(const auto gateway, Gateway::start(*engine, std::move(gateway_options)));
    for (const std::string& note : gateway->notes()) log->write("rondo: " + note + '\n');
    if (server.api_keys_file.empty() && !is_loopback(server.host)) {
        log->write("rondo: whoever reaches " + server.host +
                   " may ask here, for there are no API keys; server.api_keys_file must name a file of them to let in "
                   "nobody else\n");
    }
    log->settle();  // what was said comes before the line that it serves
    const Url url{.host = server.host, .port = gateway->port(), .path = {}};
    std::printf("%s on %s: %s/\n", engine->model_name().c_str(), engine->device_names().c_str(), url.origin().c_str());
    std::fflush(stdout);
    int signal = 0;
    sigwait(&signals, &signal);
    const Clock::time_point end =
        drain(*engine, *gateway, signals, std::chrono::seconds(gave_up->why() ? 0 : options.drain_seconds), *log);
    const std::optional<Error> why = gave_up->why();
    end_at_the_latest(end, why, log);
    return why ? Status(*why) : Status::ok();
}

}  // namespace

void add_serve(CLI::App& app, Action& run) {
    auto options = std::make_shared<ServeOptions>();
    CLI::App* const command =
        app.add_subcommand("serve", "serve a model over HTTP, as OpenAI's API and as a chat page");
    options->model.add_all(*command);
    command->add_option("--host", options->host, "address to listen on (default: server.host)");
    command->add_option("--port", options->port, "0 is any free one (default: server.port)")
        ->check(CLI::Range(0, 65535));
    command
        ->add_option("--api-keys", options->api_keys_file, "file of lines KEY TENANT (default: server.api_keys_file)")
        ->type_name("FILE");
    command->add_flag("--quiet", options->quiet, "log only what fails here, not each request");
    command
        ->add_option("--drain-s", options->drain_seconds,
                     "how long turns under way may go on after SIGTERM or SIGHUP; a second SIGTERM ends them")
        ->check(CLI::Range(0, 3600));
    command->callback([options, &run] { run = [options] { return serve(*options); }; });
}

}  // namespace rondo::cli
