#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/measure/multi_turn/turn_times.hpp"
#include "config/result.hpp"
#include "transport/http_client.hpp"

namespace rondo::cli::multi_turn {

/// What is asked of a server in one turn.
struct Question {
    nlohmann::json messages;
    int64_t answer_tokens = 1;
    std::string conversation;  ///< of a server that keeps conversations; "" sends no such field
};

/// A server of OpenAI's chat completions, and a connection to it. One thread at a time.
class Endpoint {
public:
    struct Options {
        Url url;            ///< with or without /v1 at its end
        std::string model;  ///< "" takes the first that the server lists
        std::string api_key;
        std::shared_ptr<const TlsTrust> trust = nullptr;  ///< for https; null: the system's certificates
        std::chrono::milliseconds timeout{600'000};       ///< of one request
    };

    /// Asks for the model's name where none is given.
    static Result<Endpoint> open(Options options);

    /// Streams one answer of exactly the wanted length and times it, as long as `goes_on` (asked every 100 ms at
    /// least). Whatever goes wrong is in the answer's `times`.
    Answer ask(const Question& question, const std::function<bool()>& goes_on);
    /// Has the server delete a conversation; one it does not know is as good as deleted.
    Status forget(const std::string& conversation);
    /// How many tokens a word of draw_words is, on average, to this server's tokenizer.
    Result<double> tokens_per_word(uint64_t seed);

    const Options& options() const { return options_; }
    /// Another connection to the same server.
    Endpoint again() const { return Endpoint(options_); }

private:
    explicit Endpoint(Options options);

    Result<nlohmann::json> fetch(const std::string& method, const std::string& target, const nlohmann::json& body);
    Result<int64_t> prompt_tokens(const std::string& text);
    HttpClient::Deadline deadline() const { return std::chrono::steady_clock::now() + options_.timeout; }

    Options options_;
    HttpHeaders headers_;
    HttpClient http_;
};

}  // namespace rondo::cli::multi_turn
