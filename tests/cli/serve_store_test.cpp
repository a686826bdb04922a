// What `rondo serve` says at its start of a store whose keys have changed: those of its file, and those of its clients.

#include <signal.h>
#include <sys/stat.h>

#include <fstream>
#include <optional>

#include "tests/cli/rondo_process.hpp"
#include "tests/cli/rondo_terminal.hpp"
#include "tests/memory/store/store_fixture.hpp"
#include "transport/http_client.hpp"

namespace rondo {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::RondoTerminal;

class ServeStore : public ::testing::Test {
protected:
    /// Starts a server whose key file has these keys, and to which the API keys of these tenants lead. Returns what it
    /// says before it serves.
    std::string start(const std::vector<char>& keys, const std::vector<std::string>& tenants) {
        stop();
        std::string lines, clients;
        for (const char key : keys) lines.append(64, key).append("\n");
        for (const std::string& tenant : tenants) clients += "key-of-" + tenant + "-0123456789 " + tenant + "\n";
        write("key", lines);
        write("clients", clients);
        std::vector<std::string> arguments{"serve", "--port", "0", "--threads", "1", "--quiet"};
        for (const char* set : {"memory.device_kv_mib=16", "memory.disk.free_mib=0", "memory.disk.min_tokens=16"})
            arguments.insert(arguments.end(), {"--set", set});
        arguments.insert(arguments.end(), {"--set", "memory.disk.path=" + folder_.path() + "/kv", "--set",
                                           "memory.disk.key_file=" + folder_.path() + "/key"});
        if (!tenants.empty()) arguments.insert(arguments.end(), {"--api-keys", folder_.path() + "/clients"});
        server_.emplace(arguments);
        std::string said = server_->until("http://");
        url_ = "http://" + server_->until("/");
        return said;
    }
    void stop() {
        if (!server_) return;
        ::kill(server_->process(), SIGTERM);
        EXPECT_EQ(server_->end(), 0);
        server_.reset();
    }
    void write(const std::string& name, const std::string& text) const {
        const std::string path = folder_.path() + "/" + name;
        std::ofstream(path) << text;
        ::chmod(path.c_str(), 0600);
    }
    std::string call(const std::string& method, const std::string& path, const std::string& body = "") {
        HttpClient client(Url::parse(url_).value());
        const auto answer = client.request(
            method, path, {{"Authorization", "Bearer key-of-ann-0123456789"}, {"Content-Type", "application/json"}},
            body, std::chrono::steady_clock::now() + std::chrono::seconds(60));
        return answer ? answer->body : answer.error().message;
    }

    testing::Folder folder_;
    std::optional<RondoTerminal> server_;
    std::string url_;
};

TEST_F(ServeStore, SaysThatItsKeyIsAnotherAndWhoseKeysAreGone) {
    EXPECT_THAT(start({'a'}, {"ann"}), Not(HasSubstr("rondo: ")));
    const std::string asked =
        R"({"messages":[{"role":"user","content":"The code of the red box is 4817."}],"conversation":"c"})";
    EXPECT_THAT(call("POST", "/v1/chat/completions", asked), HasSubstr("\"choices\""));

    EXPECT_THAT(start({'b', 'a'}, {"ann"}), HasSubstr("/kv/sealed-key: the key is sealed anew, by the first line of "));
    EXPECT_THAT(call("GET", "/v1/sessions/c"), HasSubstr("The code of the red box"));

    EXPECT_THAT(start({'a'}, {"ann"}), HasSubstr("rondo: conversations are not put away: " + folder_.path() +
                                                 "/kv/sealed-key: sealed by another key than those of "));
    EXPECT_THAT(call("GET", "/ready"), HasSubstr("\"store\":\"off\""));
    EXPECT_THAT(call("GET", "/v1/sessions/c"), HasSubstr("not_found"));

    const std::string gone = start({'b'}, {});
    EXPECT_THAT(gone,
                HasSubstr("rondo: the store has what no API key leads to, of tenant ann (conversations: 1, bytes: "));
    EXPECT_EQ(gone.find("no API key"), gone.rfind("no API key"));
    EXPECT_THAT(start({'b'}, {"ann", "bob"}), Not(HasSubstr("rondo: ")));
    EXPECT_THAT(call("GET", "/v1/sessions/c"), HasSubstr("The code of the red box"));
    stop();
}

}  // namespace
}  // namespace rondo
