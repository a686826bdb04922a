#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/usage.hpp"

namespace {

/// A file or a socket that is opened later takes the number of a standard stream that is closed: what is printed would
/// go into it. What takes the number here can only be used the other way, so using the stream still fails.
void occupy_closed_streams() {
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (::fcntl(stream, F_GETFD) == -1) ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
}

/// A full disk or a closed pipe behind standard output must not look like success.
rondo::Status finish_output() {
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return rondo::Status::ok();
    return rondo::make_error(rondo::ErrorCode::io, "standard output could not be written whole");
}

}  // namespace

/// Exit status: 0 done, 1 failed, 2 wrong use. An error is one line on standard error.
int main(int argc, char** argv) {
    occupy_closed_streams();
    CLI::App app{"rondo: multi-turn chat with large language models", "rondo"};
    app.require_subcommand(1);
    app.set_version_flag("--version", "rondo " RONDO_VERSION);
    app.footer("rondo help COMMAND tells a command's options; rondo help completion, how a shell completes them.");
    rondo::cli::Action run;
    rondo::cli::add_generate(app, run);
    rondo::cli::add_chat(app, run);
    rondo::cli::add_serve(app, run);
    rondo::cli::add_score(app, run);
    rondo::cli::add_tokenize(app, run);
    rondo::cli::add_inspect(app, run);
    rondo::cli::add_bench(app, run);
    rondo::cli::add_eval(app, run);
    rondo::cli::add_completion(app, run);
    rondo::cli::refuse_empty_names(app);
    rondo::cli::take_plain_numbers(app);
    std::vector<std::string> words = rondo::cli::words_of(argc, argv);
    if (const std::string unknown = rondo::cli::unknown_command(app, words); !unknown.empty()) {
        rondo::cli::print_error(unknown);
        return 2;
    }
    rondo::cli::split_empty_values(app, words);
    try {
        app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 takes them from the end
    } catch (const CLI::Success& help) {
        app.exit(help);
        if (finish_output()) return 0;
        rondo::cli::print_error("standard output could not be written whole");
        return 1;
    } catch (const CLI::ParseError& error) {
        rondo::cli::print_error(rondo::cli::wrong_use(app, error));
        return 2;
    }
    try {
        rondo::Status status = run();
        if (status.is_ok()) status = finish_output();
        if (status.is_ok()) return 0;
        rondo::cli::print_error(status.error().message);
    } catch (const std::exception& error) {
        rondo::cli::print_error(error.what());
    }
    return 1;
}
