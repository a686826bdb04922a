#pragma once

#include <limits>
#include <memory>
#include <string>

#include "tests/actors/gateway_fixture.hpp"

namespace rondo::testing {

/// Whatever a stranger sends, the next good request is answered as ever.
class GatewayAbuse : public GatewayFixture {
protected:
    void TearDown() override { EXPECT_EQ(text_of(answer(chat(question))), "The code of the red box is 4817."); }

    static HttpResponse post(const std::string& path, const std::string& body) {
        HttpClient asking = client();
        return must(asking.request("POST", path, headers("ann"), body, soon()));
    }
    /// Another gateway before the same engine, for a test that needs limits of its own.
    static std::unique_ptr<Gateway> gateway_with(const HttpLimits& limits) {
        Gateway::Options options;
        options.server.port = 0;
        options.limits = limits;
        return must(Gateway::start(*engine, std::move(options)));
    }
    /// A figure of /metrics: the value of the line that begins so and holds `label`; NaN, which equals nothing, when
    /// there is no such line.
    static double metric(const std::string& name, const std::string& label = "", const Gateway& of = *gateway) {
        HttpClient asking(must(Url::parse("http://127.0.0.1:" + std::to_string(of.port()))));
        const std::string text = must(asking.request("GET", "/metrics", {}, "", soon())).body;
        for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
            const std::string line = text.substr(at, text.find('\n', at) - at);
            if (line.starts_with("rondo:" + name + "{") && line.find(label) != std::string::npos)
                return std::stod(line.substr(line.rfind(' ')));
        }
        return std::numeric_limits<double>::quiet_NaN();
    }
    static json endless() {
        json body = chat("Hello!");
        body["max_tokens"] = 3500;
        body["ignore_eos"] = true;
        return body;
    }
};

}  // namespace rondo::testing
