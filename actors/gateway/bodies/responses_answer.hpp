#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/gateway/bodies/answer_parts.hpp"
#include "actors/gateway/bodies/api_error.hpp"

namespace rondo {

/// A response of OpenAI's Responses API as it grows: items of what was thought, said and called. Each function gives
/// the events that a stream tells; `body` is what a whole answer tells. Not shared between threads.
class ResponsesAnswer {
public:
    /// `told_back` are members that repeat the request.
    ResponsesAnswer(AnswerHead head, OrderedJson told_back);

    std::string begin();
    std::string add(const TurnDelta& delta);
    std::string finish(const TurnEnd& end);
    /// In place of `finish`; begun or not.
    std::string fail(const ApiError& error);
    /// Behind `finish`.
    std::string body() const;

private:
    enum class Kind : uint8_t { reasoning, message, call };
    struct Item {
        Kind kind;
        std::string id, call_id, name;
        std::string text;  ///< thought, said, or arguments
        bool is_cut = false;
    };

    OrderedJson item_json(const Item& item, const char* status) const;
    OrderedJson part_json(const Item& item) const;
    OrderedJson response_json(const char* status) const;
    std::string event(const char* type, OrderedJson members);
    /// Events of the last item: they name it.
    std::string item_event(const char* type, OrderedJson members);
    std::string open(Kind kind, std::string call_id = {}, std::string name = {});
    std::string more(Kind kind, const std::string& text);
    std::string close(bool is_cut);
    bool is_open(Kind kind) const { return is_open_ && items_.back().kind == kind; }

    const AnswerHead head_;
    const OrderedJson told_back_;
    std::vector<Item> items_;
    bool is_open_ = false;  // the last item may still grow
    int64_t events_ = 0;
    TurnEnd end_;
    OrderedJson error_;
};

std::string response_deleted_body(const std::string& id);

}  // namespace rondo
