#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "actors/gateway/gateway.hpp"
#include "cli/commands.hpp"
#include "cli/model_options.hpp"
#include "cli/progress.hpp"

namespace rondo::cli {

namespace {

struct Options {
    ModelOptions model;
    std::string host;
    int port = -1;
    std::string api_keys_file;
    bool quiet = false;
    int drain_seconds = 30;
};

/// Why the engine will serve nothing any more, if so; told by one of its threads.
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

/// Blocks the signals that end a server, in this thread and those it starts, so that one place can wait for them.
sigset_t block_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM}) sigaddset(&signals, signal);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
    return signals;
}

/// Until something is served there is nothing to end in good order.
void end_if_asked(const sigset_t& signals) {
    constexpr timespec at_once{};
    if (const int signal = sigtimedwait(&signals, nullptr, &at_once); signal > 0) std::_Exit(128 + signal);
}

/// Turns under way go on for so long at most; another signal ends them at once.
void drain(Gateway& gateway, const sigset_t& signals, std::chrono::seconds patience) {
    std::atomic<bool> over{false};
    std::thread listener([&] {
        int signal = 0;
        sigwait(&signals, &signal);
        if (!over) gateway.drain(std::chrono::seconds(0));
    });
    gateway.drain(patience);
    over = true;
    pthread_kill(listener.native_handle(), SIGTERM);  // it may still wait for one
    listener.join();
}

Status serve(const Options& options) {
    const sigset_t signals = block_signals();
    RONDO_ASSIGN(Settings settings, options.model.settings());
    if (!options.host.empty()) settings.server.host = options.host;
    if (options.port >= 0) settings.server.port = options.port;
    if (!options.api_keys_file.empty()) settings.server.api_keys_file = options.api_keys_file;

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
    how.log = [](const std::string& line) { std::fprintf(stderr, "rondo: %s\n", line.c_str()); };
    RONDO_ASSIGN(const auto engine, Engine::open(settings, std::move(how)));
    progress.finish();
    Gateway::Options gateway_options;
    gateway_options.server = settings.server;
    gateway_options.log.write = [](const std::string& line) { std::fputs(line.c_str(), stderr); };
    gateway_options.log.failures_only = options.quiet;
    RONDO_ASSIGN(const auto gateway, Gateway::start(*engine, std::move(gateway_options)));
    std::printf("%s on %s: http://%s:%d/\n", engine->model().name.c_str(), engine->device_names().c_str(),
                settings.server.host.c_str(), gateway->port());
    std::fflush(stdout);
    int signal = 0;
    sigwait(&signals, &signal);
    drain(*gateway, signals, std::chrono::seconds(gave_up->why() ? 0 : options.drain_seconds));
    const std::optional<Error> why = gave_up->why();
    return why ? Status(*why) : Status::ok();
}

}  // namespace

void add_serve(CLI::App& app, Action& run) {
    auto options = std::make_shared<Options>();
    CLI::App* const command =
        app.add_subcommand("serve", "serve a model over HTTP, as OpenAI's API and as a chat page");
    options->model.add_all(*command);
    command->add_option("--host", options->host, "address to listen on (default: server.host)");
    command->add_option("--port", options->port, "0 is any free one (default: server.port)")
        ->check(CLI::Range(0, 65535));
    command->add_option("--api-keys", options->api_keys_file,
                        "file of lines KEY TENANT (default: server.api_keys_file)");
    command->add_flag("--quiet", options->quiet, "log only what fails here, not each request");
    command
        ->add_option("--drain-s", options->drain_seconds,
                     "how long turns under way may go on after SIGTERM; a second one ends them")
        ->check(CLI::Range(0, 3600));
    command->callback([options, &run] { run = [options] { return serve(*options); }; });
}

}  // namespace rondo::cli
