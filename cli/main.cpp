#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "cli/commands.hpp"

namespace {

/// One line whatever a file's name or contents put into it: control characters are shown, not sent to the terminal.
void print_error(const std::string& message) {
    std::string line;
    for (const char byte : message) {
        char shown[5];
        const auto code = static_cast<unsigned char>(byte);
        std::snprintf(shown, sizeof shown, "\\x%02x", code);
        line += code < 0x20 || code == 0x7f ? std::string(shown) : std::string(1, byte);
    }
    std::fprintf(stderr, "rondo: %s\n", line.c_str());
}

/// A full disk or a closed pipe behind standard output must not look like success.
rondo::Status finish_output() {
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return rondo::Status::ok();
    return rondo::make_error(rondo::ErrorCode::io, "standard output could not be written whole");
}

}  // namespace

/// Exit status: 0 done, 1 failed, 2 wrong use. An error is one line on standard error.
int main(int argc, char** argv) {
    CLI::App app{"rondo: multi-turn chat with large language models"};
    app.require_subcommand(1);
    rondo::cli::Action run;
    rondo::cli::add_generate(app, run);
    rondo::cli::add_chat(app, run);
    rondo::cli::add_serve(app, run);
    rondo::cli::add_score(app, run);
    rondo::cli::add_tokenize(app, run);
    rondo::cli::add_inspect(app, run);
    rondo::cli::add_bench(app, run);
    rondo::cli::add_eval(app, run);
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& help) {
        return app.exit(help);
    } catch (const CLI::ParseError& error) {
        print_error(std::string(error.what()) + "; see rondo --help");
        return 2;
    }
    try {
        rondo::Status status = run();
        if (status.is_ok()) status = finish_output();
        if (status.is_ok()) return 0;
        print_error(status.error().message);
    } catch (const std::exception& error) {
        print_error(error.what());
    }
    return 1;
}
