// What `rondo serve` makes of each setting of its store: where it lies, its key file, its limits, what is put away.

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "memory/store/refusal.hpp"
#include "memory/store/store_survey.hpp"
#include "tests/cli/rondo_process.hpp"
#include "tests/cli/rondo_terminal.hpp"
#include "tests/folder.hpp"
#include "transport/http_client.hpp"

namespace rondo {
namespace {

namespace fs = std::filesystem;

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::RondoTerminal;
using ::testing::StartsWith;
using Texts = std::vector<std::string>;

class ServeStoreSettings : public ::testing::Test {
protected:
    /// Starts a server in the folder `run`, with these settings and further arguments. What it says of itself before it
    /// serves, line by line.
    Texts start(const Texts& sets, const Texts& more = {}) {
        fs::create_directories(at("run"));
        Texts arguments{"-c", "cd \"$0\" && exec \"$@\"", at("run"), RONDO_BINARY_DIR "/bin/rondo", "serve"};
        arguments.insert(arguments.end(), {"--port", "0", "--threads", "1", "--quiet"});
        for (const char* set : {"memory.device_kv_mib=16", "memory.disk.free_mib=0"})
            arguments.insert(arguments.end(), {"--set", set});
        for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
        arguments.insert(arguments.end(), more.begin(), more.end());
        server_.emplace("/bin/sh", arguments);
        std::istringstream said(server_->until("http://"));
        url_ = "http://" + server_->until("/");
        Texts lines;
        for (std::string line; std::getline(said, line);)
            if (const size_t own = line.find("rondo: "); own != std::string::npos) lines.push_back(line.substr(own));
        return lines;
    }
    /// It has put away what it was to put away.
    void stop() {
        ::kill(server_->process(), SIGTERM);
        EXPECT_EQ(server_->end(), 0);
        server_.reset();
    }
    std::string call(const std::string& method, const std::string& path, const std::string& body = "") const {
        HttpClient client(Url::parse(url_).value());
        const auto answer = client.request(method, path, {{"Content-Type", "application/json"}}, body,
                                           std::chrono::steady_clock::now() + std::chrono::seconds(60));
        return answer ? answer->body : answer.error().message;
    }
    /// "ok", "off", or "" where nobody asked for a store.
    std::string ready() const {
        const json told = json::parse(call("GET", "/ready"));
        EXPECT_EQ(told.value("status", ""), "ok");
        return told.value("store", "");
    }
    /// So many tokens of a prompt, and of its answer.
    void complete(int prompt, int answer) const {
        json body{{"prompt", json::array()}, {"max_tokens", answer}, {"ignore_eos", true}};
        for (int i = 0; i < prompt; ++i) body["prompt"].push_back(100 + i % 7);
        const json told = json::parse(call("POST", "/v1/completions", body.dump()));
        EXPECT_EQ(told["usage"].value("prompt_tokens", 0), prompt);
        EXPECT_EQ(told["usage"].value("completion_tokens", 0), answer);
    }
    /// A figure of /metrics.
    double figure(const std::string& name, const std::string& label = "") const {
        std::istringstream lines(call("GET", "/metrics"));
        for (std::string line; std::getline(lines, line);)
            if (line.starts_with("rondo:" + name + "{") && line.find(label) != std::string::npos)
                return std::stod(line.substr(line.rfind(' ')));
        ADD_FAILURE() << "no " << name << ' ' << label;
        return 0.0;
    }
    /// Waits until it is so.
    static bool comes_to(const std::function<bool()>& so) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (!so() && std::chrono::steady_clock::now() < end)
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        return so();
    }
    /// One record was refused, for this reason.
    void expect_refused(const std::string& reason) const {
        const auto refused = [this](std::string_view why) {
            return figure("store_records_refused_total", "reason=\"" + std::string(why) + "\"");
        };
        EXPECT_TRUE(comes_to([&] { return refused(reason) > 0.0; })) << reason;
        for (size_t i = 1; i < store_refusals; ++i)
            EXPECT_EQ(refused(names_of_refusals[i]), names_of_refusals[i] == reason ? 1.0 : 0.0)
                << names_of_refusals[i];
    }
    StoreSurvey survey(const std::string& folder) const {
        const auto found = survey_store({at(folder)});
        EXPECT_TRUE(found) << found.error().message;
        return found ? *found : StoreSurvey();
    }
    std::string at(const std::string& name) const { return folder_.path() + "/" + name; }
    void write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
        fs::create_directories(fs::path(at(name)).parent_path());
        std::ofstream(at(name)) << text;
        ::chmod(at(name).c_str(), mode);
    }
    static std::string path_is(const std::string& folder) { return "memory.disk.path=" + folder; }

    testing::Folder folder_;
    std::optional<RondoTerminal> server_;
    std::string url_;
};

TEST_F(ServeStoreSettings, AFolderOfThePipelineFileIsRelativeToTheFile) {
    const std::string named = "memory: {disk: {path: kv, key_file: key}}";
    write("conf/rondo.yaml", named);
    write("conf/key", std::string(64, 'a') + "\n");
    EXPECT_THAT(start({}, {"--config", at("conf/rondo.yaml")}), IsEmpty());
    EXPECT_EQ(ready(), "ok");
    EXPECT_TRUE(json::parse(call("GET", "/v1/store")).value("encrypted", false)) << "the key lies there, too";
    stop();
    EXPECT_TRUE(fs::exists(at("conf/kv/manifest")));

    fs::remove_all(at("conf/kv"));
    EXPECT_THAT(start({"memory.disk.kv_mib=64"}, {"--config", "../conf/rondo.yaml"}), IsEmpty());
    stop();
    EXPECT_TRUE(fs::exists(at("conf/kv/manifest"))) << "not where rondo is run, nor what another --set changes";

    write("conf/rondo.yaml", "memory: {disk: {path: ../run/kv}}");
    EXPECT_THAT(start({}, {"--config", at("conf/rondo.yaml")}), IsEmpty());
    stop();
    EXPECT_TRUE(fs::exists(at("run/kv/manifest")));
}

TEST_F(ServeStoreSettings, AFolderOfTheCommandLineIsRelativeToWhereRondoIsRun) {
    write("conf/rondo.yaml", "memory: {disk: {path: kv}}");
    int count = 0;
    for (const char* set : {"memory.disk.path=%", "memory.disk={path: %}", "memory={disk: {path: %}}"}) {
        const std::string folder = "kv" + std::to_string(++count);
        std::string text = set;
        text.replace(text.find('%'), 1, folder);
        EXPECT_THAT(start({text}, {"--config", at("conf/rondo.yaml")}), IsEmpty()) << set;
        EXPECT_EQ(ready(), "ok") << set;
        stop();
        EXPECT_TRUE(fs::exists(at("run/" + folder + "/manifest"))) << set;
        EXPECT_FALSE(fs::exists(at("conf/kv"))) << set;
    }
}

TEST_F(ServeStoreSettings, WithoutAFolderNothingIsSaid) {
    for (const char* none : {"~", "''", "null"}) {
        write("conf/rondo.yaml", "memory: {disk: {path: " + std::string(none) + "}}");
        EXPECT_THAT(start({}, {"--config", at("conf/rondo.yaml")}), IsEmpty()) << none;
        EXPECT_EQ(ready(), "") << none;
        EXPECT_FALSE(json::parse(call("GET", "/v1/store")).value("enabled", true)) << none;
        stop();
    }
    write("conf/rondo.yaml", "memory: {disk: {path: kv}}");
    EXPECT_THAT(start({path_is("")}, {"--config", at("conf/rondo.yaml")}), IsEmpty());
    EXPECT_EQ(ready(), "") << "a flag turns it off";
    stop();
    EXPECT_FALSE(fs::exists(at("conf/kv")));
    EXPECT_TRUE(fs::is_empty(at("run")));
}

TEST_F(ServeStoreSettings, AFolderThatCannotBeUsedIsOneLineAndServingGoesOn) {
    for (const char* folder : {"real", "open"}) fs::create_directory(at(folder));
    fs::permissions(at("real"), fs::perms::owner_all);
    fs::permissions(at("open"), fs::perms(0755));
    fs::create_directory_symlink(at("real"), at("link"));
    write("file", "");
    ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
    struct Case {
        std::string folder, why;
    };
    std::vector<Case> cases = {{at("link"), "must be a folder, and not a link"},
                               {at("link/"), "must be a folder, and not a link"},
                               {at("file"), "must be a folder, and not a link"},
                               {at("pipe"), "must be a folder, and not a link"},
                               {at("file/kv"), "cannot be made: Not a directory"},
                               {at("none/kv"), "cannot be made: No such file or directory"},
                               {"~/kv", "cannot be made: No such file or directory"},
                               {at("open"), "must be closed to others (chmod 700)"},
                               {at(std::string(300, 'x')), "cannot be made: File name too long"}};
    if (::geteuid() == 0) {
        fs::create_directory(at("theirs"));
        fs::permissions(at("theirs"), fs::perms::owner_all);
        ASSERT_EQ(::chown(at("theirs").c_str(), 65534, 65534), 0);
        cases.push_back({at("theirs"), "must belong to the user who runs this"});
    } else {
        cases.push_back({"/usr", "must belong to the user who runs this"});
    }
    for (const auto& [folder, why] : cases) {
        EXPECT_THAT(start({path_is(folder)}),
                    ElementsAre(AllOf(StartsWith("rondo: conversations are not put away: memory.disk.path "),
                                      HasSubstr(folder.substr(0, folder.find_last_not_of('/') + 1) + ": "),
                                      HasSubstr(": " + why))))
            << folder;
        EXPECT_EQ(ready(), "off") << folder;
        complete(20, 2);
        EXPECT_FALSE(json::parse(call("GET", "/v1/store")).value("enabled", true)) << folder;
        stop();
    }
    for (const char* folder : {"real", "open"}) EXPECT_TRUE(fs::is_empty(at(folder))) << folder;
    EXPECT_EQ(fs::status(at("open")).permissions(), fs::perms(0755)) << "it is refused, and not closed";
    EXPECT_TRUE(fs::is_empty(at("run")));
}

TEST_F(ServeStoreSettings, AKeyFileThatCannotBeUsedIsOneLineAndNothingIsWritten) {
    const std::string digits(64, 'b');
    fs::create_directory(at("folder"));
    ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
    write("key", digits);
    fs::create_symlink(at("key"), at("link"));
    write("shown", digits, 0644);
    write("empty", "");
    write("short", digits.substr(1));
    write("long", digits + "b\n");
    write("words", "this is not a key\n");
    write("blank", digits + " \n");
    const std::string no_key = "line 1 must be 64 hexadecimal digits, as 'openssl rand -hex 32' prints them";
    for (const auto& [file, why] : std::vector<std::pair<std::string, std::string>>{
             {"none", "No such file or directory"},
             {"folder", "must be a file"},
             {"pipe", "must be a file"},
             {"link", "must be a file, and not a link"},
             {"shown", "must belong to the user who runs this and be closed to others (chmod 600)"},
             {"empty", no_key},
             {"short", no_key},
             {"long", no_key},
             {"words", no_key},
             {"blank", no_key}}) {
        EXPECT_THAT(start({path_is(at("kv")), "memory.disk.key_file=" + at(file)}),
                    ElementsAre(AllOf(StartsWith("rondo: conversations are not put away: memory.disk.key_file " +
                                                 at(file) + ": " + why),
                                      Not(HasSubstr("bbbb")))))
            << file;
        EXPECT_EQ(ready(), "off") << file;
        stop();
        EXPECT_FALSE(fs::exists(at("kv"))) << file;
    }
}

TEST_F(ServeStoreSettings, AKeyIsTheSameHoweverItsLineEnds) {
    write("key", std::string(64, 'b') + "\n");
    const Texts sets = {path_is(at("kv")), "memory.disk.key_file=" + at("key")};
    start(sets);
    call("POST", "/v1/chat/completions",
         R"({"messages":[{"role":"user","content":"The box is red."}],"conversation":"c","max_tokens":4})");
    stop();
    for (const std::string& text :
         {std::string(64, 'B'), std::string(64, 'b') + "\r\n", std::string(64, 'b') + "\n\n"}) {
        write("key", text);
        EXPECT_THAT(start(sets), IsEmpty()) << text;
        EXPECT_TRUE(json::parse(call("GET", "/v1/store")).value("encrypted", false)) << text;
        EXPECT_THAT(call("GET", "/v1/sessions/c"), HasSubstr("The box is red.")) << text;
        stop();
    }
}

TEST_F(ServeStoreSettings, ALimitOutOfItsRangeIsOneLineAndNothingIsServed) {
    const auto serve = [this](const std::string& set) {
        return testing::run_rondo({"serve", "--port", "0", "--set", path_is(at("kv")), "--set", set});
    };
    for (const auto& [key, value] :
         std::vector<std::pair<std::string, std::string>>{{"memory.disk.kv_mib", "0"},
                                                          {"memory.disk.kv_mib", "-1"},
                                                          {"memory.disk.kv_mib", "9223372036854775808"},
                                                          {"memory.disk.free_mib", "-1"},
                                                          {"memory.disk.tenant_mib", "1073741825"},
                                                          {"memory.disk.written_a_day_mib", "-1"},
                                                          {"memory.disk.min_tokens", "0"},
                                                          {"memory.disk.unused_s", "0"},
                                                          {"memory.disk.unused_s", "99999999999999999999"},
                                                          {"memory.host_kv_mib", "-1"}})
        testing::expect_failure(serve(key + "=" + value), key + ": is \"" + value + "\", must be a whole number ");
    testing::expect_failure(serve("memory.host_kv_mib=16777216"),
                            "memory.host_kv_mib is 16777216; it must be 0 on CPUs");
    EXPECT_FALSE(fs::exists(at("kv")));
}

TEST_F(ServeStoreSettings, ALimitThatIsReachedIsCountedByItsReason) {
    for (const auto& [set, reason] :
         std::vector<std::pair<std::string, std::string>>{{"memory.disk.kv_mib=1", "too_large"},
                                                          {"memory.disk.tenant_mib=1", "quota"},
                                                          {"memory.disk.written_a_day_mib=1", "written_enough"},
                                                          {"memory.disk.free_mib=1073741824", "no_room"}}) {
        EXPECT_THAT(start({path_is(at("kv")), set}), IsEmpty()) << set;
        complete(400, 1);  // more than a MiB
        expect_refused(reason);
        stop();
        EXPECT_EQ(survey("kv").all.records, 0) << set;
    }
    start({path_is(at("kv"))});
    complete(100, 1);
    EXPECT_TRUE(comes_to([this] { return figure("store_records") == 1.0; }));
    complete(100, 1);
    expect_refused("stored_already");
    stop();
    EXPECT_EQ(survey("kv").all.records, 1);
}

TEST_F(ServeStoreSettings, LimitsAtTheirEndsDoNoHarm) {
    const Texts most = {"kv_mib=1073741824", "tenant_mib=1073741824", "written_a_day_mib=1073741824",
                        "unused_s=315360000"},
                least = {"kv_mib=1", "tenant_mib=1", "written_a_day_mib=1", "unused_s=60", "min_tokens=1"},
                quota_beyond_limit = {"kv_mib=1", "tenant_mib=1073741824"};
    for (const auto& [limits, mib] : {std::pair(most, int64_t{1} << 30), {least, 1}, {quota_beyond_limit, 1}}) {
        fs::remove_all(at("kv"));
        Texts sets = {path_is(at("kv"))};
        for (const std::string& limit : limits) sets.push_back("memory.disk." + limit);
        for (int i = 0; i < 2; ++i) {
            EXPECT_THAT(start(sets), IsEmpty());
            EXPECT_EQ(json::parse(call("GET", "/v1/store")).value("bytes_max", int64_t{0}), mib << 20);
            complete(100, 1);
            stop();
            EXPECT_EQ(survey("kv").all.records, 1) << i;
        }
    }
}

/// What counts are tokens whose keys were computed: all but the last one of an answer.
TEST_F(ServeStoreSettings, FewerTokensThanMinTokensAreNotPutAway) {
    const auto records = [this](int min_tokens, int prompt, int answer) {
        fs::remove_all(at("kv"));
        EXPECT_THAT(start({path_is(at("kv")), "memory.disk.min_tokens=" + std::to_string(min_tokens)}), IsEmpty());
        complete(prompt, answer);
        stop();
        return survey("kv").all.records;
    };
    EXPECT_EQ(records(20, 20, 1), 1);
    EXPECT_EQ(records(21, 20, 1), 0);
    EXPECT_EQ(records(21, 20, 2), 1);
    EXPECT_EQ(records(22, 20, 2), 0);
    EXPECT_EQ(records(16'777'216, 400, 2), 0);
}

/// Rounds do not count, but all of a conversation: when it is long enough its short rounds go with it. Texts always do.
TEST_F(ServeStoreSettings, AConversationThatBecomesLongEnoughIsPutAwayFromItsFirstRoundOn) {
    const auto talk = [this](int min_tokens, int64_t records) {
        fs::remove_all(at("kv"));
        start({path_is(at("kv")), "memory.disk.min_tokens=" + std::to_string(min_tokens)});
        int tokens = 0;
        for (const char* text : {"Hello!", "Thanks."}) {
            const json message{{"role", "user"}, {"content", text}};
            const json body{{"messages", json::array({message})},
                            {"conversation", "c"},
                            {"max_tokens", 12},
                            {"ignore_eos", true},
                            {"temperature", 0}};
            tokens = json::parse(call("POST", "/v1/chat/completions", body.dump()))["usage"].value("total_tokens", 0);
        }
        stop();
        EXPECT_EQ(survey("kv").all.records, records) << min_tokens;
        EXPECT_EQ(survey("kv").conversations, 1) << min_tokens;
        return tokens - 1;
    };
    const int all = talk(1, 2);
    ASSERT_GT(all, 24);
    EXPECT_EQ(talk(all, 2), all);
    EXPECT_EQ(talk(all + 1, 0), all);
}

}  // namespace
}  // namespace rondo
