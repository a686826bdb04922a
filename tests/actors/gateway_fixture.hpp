#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>

#include "actors/gateway/gateway.hpp"
#include "tests/actors/pipeline_fixture.hpp"
#include "tests/folder.hpp"
#include "transport/http_client.hpp"

namespace rondo::testing {

using nlohmann::json;

/// A gateway before an engine with the demo model, with keys of three tenants and room for three turns; one a suite.
class GatewayFixture : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        const Folder folder;  // they are read at the start
        const std::string keys = folder.path() + "/keys";
        std::ofstream(keys) << "key-of-ann-0123456789 ann\nkey-of-bob-0123456789 bob\nkey-of-cat-0123456789 cat\n";
        std::filesystem::permissions(keys, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
        Settings settings =
            settings_of({demo_pool(341), "server.port=0", "devices.cpu.threads=1", "pipeline.decode.batch_max=2",
                         "server.requests_waiting_max=1", "pipeline.methods=[progressive]",
                         "pipeline.decode.attention.budget_tokens=24", "pipeline.decode.attention.cold_tokens=2",
                         "pipeline.decode.attention.reselect_every=4"});
        settings.server.api_keys_file = keys;
        engine = must(Engine::open(settings));
        Gateway::Options options;
        options.server = settings.server;
        options.log.write = [](const std::string& line) {
            const std::lock_guard lock(log_mutex);
            log += line;
        };
        gateway = must(Gateway::start(*engine, std::move(options)));
    }
    static void TearDownTestSuite() {
        gateway.reset();
        engine.reset();
    }

    static HttpClient client() {
        return HttpClient(must(Url::parse("http://127.0.0.1:" + std::to_string(gateway->port()))));
    }
    static HttpClient::Deadline soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(60); }
    static HttpHeaders headers(const std::string& who) {
        return {{"Authorization", "Bearer key-of-" + who + "-0123456789"}, {"Content-Type", "application/json"}};
    }
    static HttpResponse call(const std::string& method, const std::string& path, const json& body = nullptr,
                             const std::string& who = "ann") {
        HttpClient asking = client();
        return must(asking.request(method, path, headers(who), body.is_null() ? "" : body.dump(), soon()));
    }
    static json chat(const std::string& text, const std::string& conversation = "") {
        json body{{"messages", json::array({{{"role", "user"}, {"content", text}}})}, {"temperature", 0}};
        if (!conversation.empty()) body["conversation"] = conversation;
        return body;
    }
    static json answer(const json& body, const std::string& who = "ann") {
        const HttpResponse response = call("POST", "/v1/chat/completions", body, who);
        EXPECT_EQ(response.status, 200) << response.body;
        return json::parse(response.body);
    }
    static size_t log_size() {
        const std::lock_guard lock(log_mutex);
        return log.size();
    }
    /// What the log, which the whole suite shares, says behind its first `from` bytes of a tenant's request; null if
    /// that does not come. A line may come after its answer.
    static json logged_line(size_t from, const std::string& path, const std::string& tenant) {
        const auto end = soon();
        do {
            std::istringstream lines;
            {
                const std::lock_guard lock(log_mutex);
                lines.str(log.substr(from));
            }
            for (std::string line; std::getline(lines, line);) {
                json said = json::parse(line);
                if (said["path"] == path && said["tenant"] == tenant) return said;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        } while (std::chrono::steady_clock::now() < end);
        return nullptr;
    }
    static std::string text_of(const json& reply) { return reply["choices"][0]["message"]["content"]; }

    static inline std::unique_ptr<Engine> engine;
    static inline std::unique_ptr<Gateway> gateway;
    static inline std::mutex log_mutex;
    static inline std::string log;
};

}  // namespace rondo::testing
