#include "cli/line_writer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

namespace rondo::cli {
namespace {

class LineWriterTest : public ::testing::Test {
protected:
    LineWriterTest() {
        EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0);
        EXPECT_GT(fcntl(ends_[1], F_SETPIPE_SZ, 4096), 0);
    }
    ~LineWriterTest() override {
        close(ends_[0]);
        close_end();
    }
    void close_end() {
        if (ends_[1] >= 0) close(ends_[1]);
        ends_[1] = -1;
    }
    std::string read_until(const std::string& last) const {
        std::string text;
        char piece[4096];
        while (text.find(last) == std::string::npos) {
            const ssize_t count = read(ends_[0], piece, sizeof(piece));
            if (count <= 0) break;
            text.append(piece, static_cast<size_t>(count));
        }
        return text;
    }

    int ends_[2] = {-1, -1};
};

TEST_F(LineWriterTest, WritesLinesInTheirOrder) {
    std::string expected;
    {
        LineWriter writer(ends_[1]);
        for (int i = 0; i < 100; ++i) {
            expected += std::to_string(i) + '\n';
            writer.write(std::to_string(i) + '\n');
        }
    }
    EXPECT_EQ(read_until("99\n"), expected);
}

/// Whoever writes goes on, and whoever reads again hears how much he missed.
TEST_F(LineWriterTest, WaitsForNobodyWhoDoesNotRead) {
    LineWriter writer(ends_[1], 10'000);
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 100'000; ++i) writer.write(std::string(99, 'x') + '\n');
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
    std::string text;
    std::thread reader([&] { text = read_until("nobody read them\n"); });
    reader.join();
    const size_t lines = text.find("rondo: ") / 100;
    EXPECT_GE(lines, 100U);
    EXPECT_LT(lines, 200U);
    EXPECT_NE(text.find(" lines were not written, for nobody read them\n"), std::string::npos);
    writer.write("again\n");
    EXPECT_NE(read_until("again\n").find("again\n"), std::string::npos);
}

TEST_F(LineWriterTest, EndsThoughNobodyReads) {
    const auto begin = std::chrono::steady_clock::now();
    {
        LineWriter writer(ends_[1]);
        for (int i = 0; i < 1000; ++i) writer.write(std::string(99, 'x') + '\n');
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
    std::thread([reading = ends_[0]] {  // so that the writer's thread ends before its pipe is closed
        char piece[4096];
        size_t all = 0;
        while (all < 100'000) {
            const ssize_t count = read(reading, piece, sizeof(piece));
            if (count <= 0) break;
            all += static_cast<size_t>(count);
        }
    })
        .join();
}

}  // namespace
}  // namespace rondo::cli
