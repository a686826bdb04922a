#include "actors/gateway/bodies/responses_request.hpp"

#include <cstdint>

#include "actors/gateway/bodies/responses_answer.hpp"

/// Any bytes as a request for a response, and what it repeats in an answer: both end with JSON or an error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view body(reinterpret_cast<const char*>(data), size);
    const auto request = rondo::parse_responses_request(body, 1000);
    if (!request) return 0;
    rondo::ResponsesAnswer answer({"resp_1", 1, "fuzz"}, request->told_back);
    rondo::TurnDelta delta;
    delta.text = body.substr(0, 100);
    delta.thought = body.substr(size / 2);
    delta.calls.push_back({0, "c", "f", std::string(body.substr(size / 3))});
    (void)answer.begin();
    (void)answer.add(delta);
    (void)answer.finish({.outcome = rondo::TurnOutcome::stop});
    if (!nlohmann::json::accept(answer.body())) __builtin_trap();
    return 0;
}
