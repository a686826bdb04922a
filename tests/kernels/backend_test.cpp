#include "kernels/backend.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace rondo::test {
namespace {

TEST(ParseDevice, ReadsKindThreadsAndOrdinal) {
    const auto cpu = parse_device("cpu");
    ASSERT_TRUE(cpu.is_ok());
    EXPECT_EQ(cpu->kind, DeviceKind::cpu);
    EXPECT_EQ(cpu->threads, 0);
    const auto two_threads = parse_device("cpu:2");
    ASSERT_TRUE(two_threads.is_ok());
    EXPECT_EQ(two_threads->threads, 2);
    const auto cuda = parse_device("cuda");
    ASSERT_TRUE(cuda.is_ok());
    EXPECT_EQ(cuda->kind, DeviceKind::cuda);
    EXPECT_EQ(cuda->ordinal, 0);
    const auto second = parse_device("cuda:1");
    ASSERT_TRUE(second.is_ok());
    EXPECT_EQ(second->ordinal, 1);
}

TEST(ParseDevice, RefusesEverythingElseInOneLine) {
    for (const char* text : {"", "gpu", "CPU", "cpu:", "cpu:0", "cpu:-1", "cpu:2x", "cpu: 2", "cpu:1025", "cpu:2:3",
                             "cpu:99999999999999999999", "cuda:", "cuda:-1", "cuda:64", "cuda:0.5", ":", ":1"}) {
        const auto parsed = parse_device(text);
        ASSERT_FALSE(parsed.is_ok()) << text;
        EXPECT_EQ(parsed.error().code, ErrorCode::invalid_argument);
        EXPECT_NE(parsed.error().message.find(std::string("\"") + text + "\", must be cpu, cpu:THREADS (1 to 1024)"),
                  std::string::npos)
            << parsed.error().message;
    }
}

/// A tier that was misspelt would be measured as another.
TEST(OpenDevice, RefusesATierThatIsNone) {
    const char* const before = std::getenv("RONDO_CPU");
    const std::string kept = before != nullptr ? before : "";
    setenv("RONDO_CPU", "avx51", 1);
    const auto refused = open_device({.threads = 1});
    before != nullptr ? setenv("RONDO_CPU", kept.c_str(), 1) : unsetenv("RONDO_CPU");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message,
              "the environment variable RONDO_CPU is \"avx51\", must be portable, avx2, avx512 or amx");
    EXPECT_TRUE(open_device({.threads = 1}));
}

TEST(OpenDevice, OpensACpu) {
    const auto opened = open_device({.kind = DeviceKind::cpu, .threads = 1});
    ASSERT_TRUE(opened.is_ok()) << opened.error().message;
    EXPECT_EQ((*opened)->space(), MemorySpace{});
}

}  // namespace
}  // namespace rondo::test
