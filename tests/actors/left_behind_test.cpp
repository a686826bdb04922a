// What the store has of tenants to whom no API key leads any more is said at the start.

#include "actors/gateway/left_behind.hpp"

#include <fstream>

#include "tests/actors/gateway_fixture.hpp"
#include "tests/memory/store/store_fixture.hpp"

namespace rondo {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::must;
using testing::settings_of;
using ::testing::SizeIs;

/// Servers that come one after the other over one store.
class LeftBehind : public ::testing::Test {
protected:
    /// The lines that it says at its start, where keys lead to these tenants; without any there are no keys.
    std::vector<std::string> start(const std::vector<std::string>& tenants) {
        stop();
        Settings settings =
            settings_of({testing::demo_pool(170), "devices.cpu.threads=1", "memory.disk.free_mib=0", "server.port=0",
                         "memory.disk.min_tokens=16", "memory.disk.path=" + folder_.path() + "/kv"});
        if (!tenants.empty()) {
            settings.server.api_keys_file = folder_.path() + "/api-keys";
            std::ofstream keys(settings.server.api_keys_file);
            for (const std::string& tenant : tenants) keys << "key-of-" << tenant << "-0123456789 " << tenant << '\n';
            keys.close();
            std::filesystem::permissions(settings.server.api_keys_file, std::filesystem::perms::owner_read);
        }
        settings.memory.disk.key_file = key_file_;
        engine_ = must(Engine::open(settings));
        Gateway::Options options;
        options.server = settings.server;
        gateway_ = must(Gateway::start(*engine_, std::move(options)));
        return gateway_->notes();
    }
    void stop() {
        gateway_.reset();
        engine_.reset();
        std::filesystem::remove(folder_.path() + "/api-keys");
    }
    int call(const std::string& who, const std::string& method, const std::string& path, const json& body = nullptr) {
        HttpClient client(must(Url::parse("http://127.0.0.1:" + std::to_string(gateway_->port()))));
        last_ = must(client.request(
            method, path,
            {{"Authorization", "Bearer key-of-" + who + "-0123456789"}, {"Content-Type", "application/json"}},
            body.is_null() ? "" : body.dump(), std::chrono::steady_clock::now() + std::chrono::seconds(60)));
        return last_.status;
    }
    void ask(const std::string& who, const std::string& conversation) {
        json body{{"messages",
                   json::array({{{"role", "user"}, {"content", "The code of the red box is 4817. " + conversation}}})},
                  {"max_tokens", 24}};
        if (!conversation.empty()) body["conversation"] = conversation;
        EXPECT_EQ(call(who, "POST", "/v1/chat/completions", body), 200) << last_.body;
    }
    uint64_t bytes_of(const std::string& who) {
        bool away = engine_->put_away(std::chrono::seconds(10));
        for (int i = 0; i < 500 && !away; ++i) {  // right behind a start there are no stages to ask yet
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
            away = engine_->put_away(std::chrono::seconds(10));
        }
        EXPECT_TRUE(away);
        EXPECT_EQ(call(who, "GET", "/v1/store"), 200);
        return json::parse(last_.body).at("bytes");
    }
    static std::string line_of(const std::string& tenant, int conversations, uint64_t bytes) {
        return "the store has what no API key leads to, of tenant " + tenant +
               " (conversations: " + std::to_string(conversations) + ", bytes: " + std::to_string(bytes) +
               "); it stays until it leaves by age or DELETE; a line KEY " + tenant +
               " in server.api_keys_file gives it back";
    }

    testing::Folder folder_;
    std::string key_file_;
    HttpResponse last_;
    std::unique_ptr<Engine> engine_;
    std::unique_ptr<Gateway> gateway_;
};

TEST_F(LeftBehind, IsSaidForEachTenantWhoseKeyIsGoneUntilItComesBack) {
    EXPECT_THAT(start({"ann", "bob", "cat"}), IsEmpty());
    ask("ann", "a1");
    ask("ann", "a2");
    ask("bob", "b1");
    const uint64_t ann = bytes_of("ann"), bob = bytes_of("bob");
    EXPECT_GT(ann, bob);
    EXPECT_GT(bob, 0U);
    EXPECT_THAT(start({"ann", "bob", "cat"}), IsEmpty());
    EXPECT_THAT(start({"cat", "ann"}), ElementsAre(line_of("bob", 1, bob)));
    EXPECT_THAT(start({"cat"}), ElementsAre(line_of("ann", 2, ann), line_of("bob", 1, bob)));
    EXPECT_THAT(start({}), ElementsAre(line_of("ann", 2, ann), line_of("bob", 1, bob))) << "everybody is default now";

    EXPECT_THAT(start({"bob"}), ElementsAre(line_of("ann", 2, ann)));
    EXPECT_EQ(call("bob", "DELETE", "/v1/sessions/b1"), 200) << "it stayed";
    EXPECT_EQ(bytes_of("bob"), 0U);
    EXPECT_THAT(start({"cat", "ann"}), IsEmpty());
}

TEST_F(LeftBehind, IsTheDefaultTenantsWhereKeysCome) {
    EXPECT_THAT(start({}), IsEmpty());
    ask("", "d1");
    const uint64_t bytes = bytes_of("");
    EXPECT_THAT(start({"ann"}), ElementsAre(line_of("default", 1, bytes)));
    EXPECT_THAT(start({"ann", "default"}), IsEmpty());
    EXPECT_EQ(call("default", "GET", "/v1/sessions/d1"), 200);
    EXPECT_THAT(start({}), IsEmpty());
}

/// Of a client who sends his history himself there is KV, and nothing that tells whose.
TEST_F(LeftBehind, IsCountedWhereNothingTellsTheName) {
    key_file_ = folder_.path() + "/key";
    std::ofstream(key_file_) << std::string(64, '7') << '\n';
    std::filesystem::permissions(key_file_, std::filesystem::perms::owner_read);
    start({"ann", "bob"});
    ask("bob", "");
    const uint64_t bytes = bytes_of("bob");
    ASSERT_GT(bytes, 0U);
    EXPECT_THAT(start({"ann", "bob"}), IsEmpty());
    EXPECT_THAT(start({"ann"}),
                ElementsAre("the store has what no API key leads to, of further tenants: 1, without a known name: 1 "
                            "(conversations: 0, bytes: " +
                            std::to_string(bytes) +
                            "); it stays until it leaves by age or DELETE; a line KEY TENANT for each in "
                            "server.api_keys_file gives it back"));
}

TEST(LeftBehindLines, AreBounded) {
    std::vector<StoreOwner> owners;
    for (int i = 0; i < 8; ++i) owners.push_back({"t" + std::to_string(i), 1, 1000});
    EXPECT_THAT(left_behind(owners), SizeIs(8));
    for (int i = 0; i < 5000; ++i) owners.push_back({"u" + std::to_string(i), 2, 10});
    owners.push_back({std::nullopt, 0, 7});
    const std::vector<std::string> lines = left_behind(owners);
    ASSERT_THAT(lines, SizeIs(9));
    EXPECT_THAT(lines[7], HasSubstr("of tenant t7 (conversations: 1, bytes: 1000)"));
    EXPECT_THAT(lines[8], HasSubstr("of further tenants: 5001, without a known name: 1 (conversations: 10000, bytes: "
                                    "50007)"));
}

/// Bytes of a disk are not printed as they are.
TEST(LeftBehindLines, NameOnlyWhomAKeyCouldLeadTo) {
    const std::vector<StoreOwner> owners = {
        {"two words", 1, 3}, {"\x1b[2J", 1, 2}, {std::string(65, 'a'), 1, 1}, {"", 1, 1}};
    EXPECT_THAT(left_behind(owners), ElementsAre(HasSubstr("of further tenants: 4, without a known name: 4 "
                                                           "(conversations: 4, bytes: 7)")));
    EXPECT_THAT(left_behind({}), IsEmpty());
}

}  // namespace
}  // namespace rondo
