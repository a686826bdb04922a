#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/actors/gateway_fixture.hpp"

namespace rondo::testing {

inline constexpr const char* chats = "/v1/chat/completions";
inline constexpr const char* completions = "/v1/completions";

inline std::string read_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

inline void replace_all(std::string& text, const std::string& what, const std::string& by) {
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
        text.replace(at, what.size(), by);
}

/// The demo model with other words for some of its tokens, and another template; a server of its own.
class ModelServer {
public:
    using Words = std::vector<std::pair<std::string, std::string>>;

    ModelServer(const std::string& name, const Words& words, const std::vector<std::string>& settings = {},
                const std::string& chat_template = "") {
        const std::filesystem::path demo = demo_model_path(), folder = folder_.path() + '/' + name;
        std::filesystem::create_directory(folder);
        for (const auto& file : std::filesystem::directory_iterator(demo)) {
            if (!file.is_regular_file()) continue;
            std::string text = read_file(file.path());
            if (file.path().extension() == ".json")
                for (const auto& [what, by] : words) replace_all(text, what, by);
            std::ofstream(folder / file.path().filename(), std::ios::binary) << text;
        }
        if (!chat_template.empty()) std::ofstream(folder / "chat_template.jinja", std::ios::binary) << chat_template;
        std::vector<std::string> all{demo_pool(170), "devices.cpu.threads=1", "server.port=0",
                                     "model.path=" + folder.string()};
        all.insert(all.end(), settings.begin(), settings.end());
        const Settings made = settings_of(all);
        engine_ = must(Engine::open(made));
        Gateway::Options options;
        options.server = made.server;
        gateway_ = must(Gateway::start(*engine_, std::move(options)));
    }

    HttpResponse call(const std::string& method, const std::string& path, const nlohmann::json& body = nullptr) {
        HttpClient client(must(Url::parse("http://127.0.0.1:" + std::to_string(gateway_->port()))));
        return must(client.request(method, path, {}, body.is_null() ? "" : body.dump(),
                                   std::chrono::steady_clock::now() + std::chrono::seconds(60)));
    }
    nlohmann::json answer(const std::string& path, const nlohmann::json& body) {
        const HttpResponse response = call("POST", path, body);
        EXPECT_EQ(response.status, 200) << response.body;
        return nlohmann::json::parse(response.body);
    }
    nlohmann::json error(const std::string& path, const nlohmann::json& body, int status = 400) {
        const HttpResponse response = call("POST", path, body);
        EXPECT_EQ(response.status, status) << response.body;
        return nlohmann::json::parse(response.body)["error"];
    }
    /// The chunks of a stream.
    std::vector<nlohmann::json> chunks(const std::string& path, nlohmann::json body) {
        body["stream"] = true;
        const HttpResponse response = call("POST", path, body);
        EXPECT_THAT(response.body, ::testing::EndsWith("data: [DONE]\n\n"));
        std::vector<nlohmann::json> all;
        for (size_t at = 0; (at = response.body.find("data: {", at)) != std::string::npos; ++at)
            all.push_back(nlohmann::json::parse(response.body.substr(at + 6, response.body.find("\n\n", at) - at - 6)));
        return all;
    }

private:
    Folder folder_;
    std::unique_ptr<Engine> engine_;
    std::unique_ptr<Gateway> gateway_;
};

}  // namespace rondo::testing
