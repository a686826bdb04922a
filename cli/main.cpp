#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "cli/commands.hpp"

/// Exit status: 0 done, 1 failed, 2 wrong use. An error is one line on standard error.
int main(int argc, char** argv) {
    CLI::App app{"rondo: multi-turn chat with large language models"};
    app.require_subcommand(1);
    rondo::cli::Action run;
    rondo::cli::add_generate(app, run);
    rondo::cli::add_chat(app, run);
    rondo::cli::add_score(app, run);
    rondo::cli::add_tokenize(app, run);
    rondo::cli::add_inspect(app, run);
    rondo::cli::add_bench(app, run);
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& help) {
        return app.exit(help);
    } catch (const CLI::ParseError& error) {
        std::fprintf(stderr, "rondo: %s; see rondo --help\n", error.what());
        return 2;
    }
    try {
        const rondo::Status status = run();
        if (status.is_ok()) return 0;
        std::fprintf(stderr, "rondo: %s\n", status.error().message.c_str());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "rondo: %s\n", error.what());
    }
    return 1;
}
