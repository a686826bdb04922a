// A server whose pipeline gives up, each in a process of its own.

#include "cli/server_end.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <iostream>

#include "tests/actors/pipeline_fixture.hpp"

namespace rondo::cli {
namespace {

using testing::must;

constexpr int told = 3;  // a status of its own, so that no other way to end looks like this one

/// As `rondo serve` does it, but that its stages die as soon as they are there. It ends here, or its end hangs.
[[noreturn]] void serve_until_it_gives_up(bool hangs) {
    const ServerEnd end;
    Engine::Options how;
    how.gave_up = end.gave_up();
    EngineInside::Hooks hooks;
    hooks.started = [](const Supervisor::Pipeline& pipeline) {
        caf::anon_send_exit(pipeline.stages.decode, caf::exit_reason::kill);
    };
    const auto engine = must(EngineInside::open(testing::small_settings(), std::move(how), std::move(hooks)));
    Gateway::Options options;
    options.server.port = 0;
    options.log.write = [](const std::string&) {};
    const auto gateway = must(Gateway::start(*engine, std::move(options)));
    const auto log = std::make_shared<LineWriter>(STDERR_FILENO);
    const Status ended = end.wait(*engine, *gateway, std::chrono::hours(1), log);
    while (hangs) ::pause();
    if (!ended) std::cerr << ended.error().message << std::endl;
    std::_Exit(ended ? EXIT_SUCCESS : told);
}

class ServerEndTest : public ::testing::TestWithParam<bool> {};

TEST_P(ServerEndTest, IsAFailureWhenThePipelineGaveUp) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // an engine is threads
    const bool hangs = GetParam();
    EXPECT_EXIT(serve_until_it_gives_up(hangs), ::testing::ExitedWithCode(hangs ? EXIT_FAILURE : told),
                hangs ? "^rondo: the pipeline's stages died 6 times" : "^the pipeline's stages died 6 times");
}

INSTANTIATE_TEST_SUITE_P(Each, ServerEndTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "AndItsEndHangs" : "AndItsEndDoesNot"; });

}  // namespace
}  // namespace rondo::cli
