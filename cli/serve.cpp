#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "actors/gateway/browsers.hpp"
#include "actors/gateway/gateway.hpp"
#include "cli/commands.hpp"
#include "cli/line_writer.hpp"
#include "cli/model_options.hpp"
#include "cli/progress.hpp"
#include "cli/server_end.hpp"
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
    const ServerEnd end;
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

    Progress progress("loading " + model_path(settings.model.path).filename().string());
    Engine::Options how;
    how.progress = [&](double share) {
        progress.show(share);
        end.leave_if_asked();
    };
    how.gave_up = end.gave_up();
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
    return end.wait(*engine, *gateway, std::chrono::seconds(options.drain_seconds), log);
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
