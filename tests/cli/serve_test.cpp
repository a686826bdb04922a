#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/cli/rondo_process.hpp"
#include "tests/cli/rondo_terminal.hpp"
#include "tests/folder.hpp"
#include "transport/http_client.hpp"

namespace rondo {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::RondoTerminal;

/// Whether a signal is in a process's set of that name (proc_pid_status(5)); not when the process is gone.
bool has_signal(pid_t process, const std::string& set, int signal) {
    std::ifstream status("/proc/" + std::to_string(process) + "/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("State:\tZ")) return false;
        if (line.starts_with(set)) return (std::stoull(line.substr(set.size()), nullptr, 16) >> (signal - 1) & 1) != 0;
    }
    return false;
}

/// A server that talks without end, and one stream of it.
class Streaming : public ::testing::Test {
protected:
    explicit Streaming(const std::vector<std::string>& more = {}) : server_(started_with(more)) {
        server_.until("http://");
        url_ = "http://" + server_.until("/");
    }

    /// The stream of an answer of so many tokens, as far as it comes; `begun` is called when it has begun.
    std::string stream(int tokens, const std::function<void()>& begun) {
        HttpClient client(Url::parse(url_).value());
        std::string out;
        const auto on_piece = [&](std::string_view piece) {
            if (out.empty() && !piece.empty()) begun();
            out += piece;
            return true;
        };
        static_cast<void>(client.stream(
            "POST", "/v1/completions", {{"Content-Type", "application/json"}},
            R"({"prompt":"Hello","temperature":0,"stream":true,"max_tokens":)" + std::to_string(tokens) + "}",
            std::chrono::steady_clock::now() + std::chrono::seconds(20), on_piece));
        return out;
    }

    static std::vector<std::string> started_with(std::vector<std::string> more) {
        more.insert(more.begin(), {"serve", "--port", "0", "--weights", "random:1"});
        return more;
    }

    RondoTerminal server_;
    std::string url_;
};

TEST(Serve, RunsOnTheDeviceOfTheCommandLine) {
    RondoTerminal server({"serve", "--port", "0", "--device", "cpu", "--threads", "3"});
    server.until("cpu (3 threads");
    server.until("http://");
    ::kill(server.process(), SIGTERM);
    EXPECT_EQ(server.end(), 0);
}

bool has_ipv6() {
    const int descriptor = ::socket(AF_INET6, SOCK_STREAM, 0);
    sockaddr_in6 here{};
    here.sin6_family = AF_INET6;
    here.sin6_addr = in6addr_loopback;
    const bool bound = ::bind(descriptor, reinterpret_cast<const sockaddr*>(&here), sizeof here) == 0;
    if (descriptor >= 0) ::close(descriptor);
    return bound;
}

TEST(Serve, NamesAnAddressOfIPv6AsAUrlHasIt) {
    if (!has_ipv6()) GTEST_SKIP() << "no IPv6 here";
    RondoTerminal server({"serve", "--port", "0", "--host", "::1"});
    server.until("http://");
    const std::string url = "http://" + server.until("/");
    EXPECT_TRUE(url.starts_with("http://[::1]:")) << url;
    const auto parsed = Url::parse(url);
    ASSERT_TRUE(parsed.is_ok()) << parsed.error().message;
    const auto health = HttpClient(*parsed).request("GET", "/health", {}, "",
                                                    std::chrono::steady_clock::now() + std::chrono::seconds(20));
    EXPECT_TRUE(health.is_ok() && health->status == 200);
    ::kill(server.process(), SIGTERM);
    EXPECT_EQ(server.end(), 0);
}

/// A file or a socket of the server in its place would be read or written by mistake.
TEST(Serve, NothingTakesThePlaceOfAStandardStreamThatIsClosed) {
    const std::string program = std::string(RONDO_BINARY_DIR) + "/bin/rondo";
    RondoTerminal server("/bin/sh", {"-c", "exec \"$0\" serve --port 0 <&-", program});
    server.until("http://");
    std::error_code error;
    const std::string stream = "/proc/" + std::to_string(server.process()) + "/fd/0";
    EXPECT_EQ(std::filesystem::read_symlink(stream, error).string(), "/dev/null") << error.message();
    ::kill(server.process(), SIGTERM);
    EXPECT_EQ(server.end(), 0);
}

/// A file of one key, of this mode.
std::string key_file(mode_t mode) {
    static const testing::Folder folder;
    std::string path = folder.path() + "/keys";
    std::ofstream(path) << "key-of-ann-0123456789 ann\n";
    ::chmod(path.c_str(), mode);
    return path;
}

TEST(Serve, SaysThatEverybodyMayAskWhereMoreThanThisMachineReachesIt) {
    const std::string keys = key_file(0600);
    const auto said = [](std::vector<std::string> more) {
        more.insert(more.begin(), {"serve", "--port", "0"});
        RondoTerminal server(more);
        std::string text = server.until("http://");
        ::kill(server.process(), SIGTERM);
        EXPECT_EQ(server.end(), 0);
        return text;
    };
    EXPECT_THAT(said({"--host", "0.0.0.0"}), HasSubstr("rondo: whoever reaches 0.0.0.0 may ask here"));
    EXPECT_THAT(said({}), Not(HasSubstr("whoever reaches")));
    EXPECT_THAT(said({"--host", "0.0.0.0", "--api-keys", keys}), Not(HasSubstr("whoever reaches")));
}

TEST(Serve, RefusesAFileOfKeysThatOthersCanRead) {
    const std::string keys = key_file(0644);
    const auto refused = testing::run_rondo({"serve", "--port", "0", "--api-keys", keys});
    testing::expect_failure(refused, "run: chmod 600 " + keys);
}

/// A port of this machine that somebody listens on.
class TakenPort {
public:
    TakenPort() {
        sockaddr_in here{};
        here.sin_family = AF_INET;
        here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof here;
        auto* const address = reinterpret_cast<sockaddr*>(&here);
        EXPECT_EQ(::bind(descriptor_, address, size), 0);
        EXPECT_EQ(::listen(descriptor_, 1), 0);
        EXPECT_EQ(::getsockname(descriptor_, address, &size), 0);
        number_ = std::to_string(ntohs(here.sin_port));
    }
    ~TakenPort() { ::close(descriptor_); }
    TakenPort(const TakenPort&) = delete;
    TakenPort& operator=(const TakenPort&) = delete;

    const std::string& number() const { return number_; }

private:
    const int descriptor_ = ::socket(AF_INET, SOCK_STREAM, 0);
    std::string number_;
};

TEST(Serve, SaysThatItsPortIsTakenBeforeItLoadsAModel) {
    const TakenPort taken;
    testing::expect_failure(testing::run_rondo({"serve", "--port", taken.number(), "--model", "/no/such/model"}),
                            "cannot listen on 127.0.0.1:" + taken.number());
}

#ifndef __SANITIZE_ADDRESS__  // whose allocator keeps what is freed for a while
double resident_mib(pid_t process) {
    std::ifstream statm("/proc/" + std::to_string(process) + "/statm");
    double size = 0, pages = 0;
    statm >> size >> pages;
    return pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

/// Texts of words, of one very long word, and of digits, each of which takes memory of another size.
TEST_F(Streaming, KeepsNoMemoryOfLargeTexts) {
    HttpClient client(Url::parse(url_).value());
    const auto tokenize = [&](const std::string& text) {
        const auto answer = client.request("POST", "/tokenize", {}, "{\"text\":\"" + text + "\"}",
                                           std::chrono::steady_clock::now() + std::chrono::seconds(60));
        EXPECT_TRUE(answer.is_ok() && answer->status == 200);
    };
    std::string words;
    while (words.size() < 1'000'000) words += "It was a slow afternoon. ";
    tokenize("a");
    const double before = resident_mib(server_.process());
    for (int round = 0; round < 3; ++round)
        for (const std::string& text : {words, std::string(1'000'000, 'x'), std::string(1'000'000, '7')})
            tokenize(text);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (resident_mib(server_.process()) > before + 16 && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_LE(resident_mib(server_.process()), before + 16) << "it was " << before;
}
#endif

TEST_F(Streaming, GoesOnToItsEndAfterSigterm) {
    const std::string heard = stream(500, [&] { ::kill(server_.process(), SIGTERM); });
    EXPECT_THAT(heard, HasSubstr(R"("finish_reason":"length")"));
    EXPECT_THAT(heard, HasSubstr("[DONE]"));
    EXPECT_EQ(server_.end(), 0);
}

/// As where its terminal closes, of which the shell and the kernel may tell it.
TEST_F(Streaming, GoesOnToItsEndAfterSighups) {
    const std::string heard = stream(500, [&] {
        ::kill(server_.process(), SIGHUP);
        while (has_signal(server_.process(), "ShdPnd:", SIGHUP)) std::this_thread::yield();  // two at once would be one
        ::kill(server_.process(), SIGHUP);
    });
    EXPECT_THAT(heard, HasSubstr(R"("finish_reason":"length")"));
    EXPECT_THAT(heard, HasSubstr("[DONE]"));
    EXPECT_EQ(server_.end(), 0);
}

TEST(Serve, GoesOnWithoutItsTerminalUnderNohup) {
    const std::string program = std::string(RONDO_BINARY_DIR) + "/bin/rondo";
    RondoTerminal server("/bin/sh", {"-c", "trap '' HUP; exec \"$0\" serve --port 0", program});
    server.until("http://");
    EXPECT_TRUE(has_signal(server.process(), "SigIgn:", SIGHUP));
    EXPECT_FALSE(has_signal(server.process(), "SigBlk:", SIGHUP)) << "it would be taken for the order to end";
    ::kill(server.process(), SIGTERM);
    EXPECT_EQ(server.end(), 0);
}

/// The end of a FIFO that is written to, once somebody reads it; none where nobody does.
int open_for_reader(const std::string& fifo) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    int descriptor = -1;
    while ((descriptor = ::open(fifo.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0 &&
           std::chrono::steady_clock::now() < end)
        std::this_thread::yield();
    return descriptor;
}

/// It waits for the end of its pipeline file, so no machine has loaded the model when the signal comes.
TEST(Serve, EndsAtOnceByASignalThatComesBeforeItsModelIsThere) {
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
        const testing::Folder folder;
        const std::string file = folder.path() + "/pipeline.yaml";
        ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
        RondoTerminal server({"serve", "--port", "0", "--config", file});
        const int writing = open_for_reader(file);
        ASSERT_GE(writing, 0);
        ::kill(server.process(), signal);
        ::close(writing);
        EXPECT_EQ(server.end(), 128 + signal);
    }
}

TEST_F(Streaming, EndsAtASecondCtrlC) {
    std::chrono::steady_clock::time_point second;
    const std::string heard = stream(4000, [&] {
        server_.type(RondoTerminal::ctrl('C'));
        server_.until("^C");
        // Two at once would be one.
        while (has_signal(server_.process(), "ShdPnd:", SIGINT)) std::this_thread::yield();
        server_.type(RondoTerminal::ctrl('C'));
        second = std::chrono::steady_clock::now();
    });
    EXPECT_THAT(heard, HasSubstr(R"("code":"shutting_down")"));
    EXPECT_THAT(heard, Not(HasSubstr("[DONE]")));
    EXPECT_EQ(server_.end(), 0);
    EXPECT_LT(std::chrono::steady_clock::now() - second, std::chrono::seconds(15))
        << "and not by this client's patience of 20";
}

/// By Ctrl-S: its log goes nowhere, and whoever writes to the terminal waits.
TEST_F(Streaming, EndsThoughItsTerminalTakesNothing) {
    server_.type(RondoTerminal::ctrl('S'));
    HttpClient client(Url::parse(url_).value());
    for (int i = 0; i < 500; ++i) {
        const auto answer =
            client.request("GET", "/v1/models", {}, "", std::chrono::steady_clock::now() + std::chrono::seconds(20));
        ASSERT_TRUE(answer.is_ok() && answer->status == 200);
    }
    ::kill(server_.process(), SIGTERM);
    EXPECT_EQ(server_.end(), 0);
}

class Impatient : public Streaming {
protected:
    Impatient() : Streaming({"--drain-s", "1"}) {}
};

TEST_F(Impatient, TellsItsClientsAndIsGoneWithinASecondMore) {
    std::chrono::steady_clock::time_point asked;
    std::jthread slows;
    const std::string heard = stream(4000, [&] {
        asked = std::chrono::steady_clock::now();
        ::kill(server_.process(), SIGTERM);
        slows = std::jthread([process = server_.process()](const std::stop_token& stop) {
            while (!stop.stop_requested()) {  // else a fast processor is done with its answer in a second
                ::kill(process, SIGSTOP);
                std::this_thread::sleep_for(std::chrono::milliseconds(30));
                ::kill(process, SIGCONT);
                std::this_thread::sleep_for(std::chrono::milliseconds(10));
            }
        });
    });
    slows = {};
    EXPECT_GE(std::chrono::steady_clock::now() - asked, std::chrono::milliseconds(900));  // two clocks are read
    EXPECT_THAT(heard, ::testing::EndsWith("\"code\":\"shutting_down\"}}\n\n"));
    EXPECT_EQ(heard.find("shutting_down"), heard.rfind("shutting_down"));
    EXPECT_EQ(server_.end(), 0);
    EXPECT_LT(std::chrono::steady_clock::now() - asked, std::chrono::seconds(15)) << "most of which is noise";
}

}  // namespace
}  // namespace rondo
