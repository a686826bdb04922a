#include "actors/gateway/bodies/responses_answer.hpp"

#include <utility>

namespace rondo {

namespace {

OrderedJson response_usage_json(const TurnUsage& usage) {
    return {{"input_tokens", usage.prompt_tokens},
            {"input_tokens_details",
             {{"cached_tokens", usage.cached_tokens},
              {"restored_tokens", usage.restored_tokens},
              {"recomputed_tokens", usage.recomputed_tokens}}},
            {"output_tokens", usage.completion_tokens},
            {"output_tokens_details", {{"reasoning_tokens", usage.thought_tokens}}},
            {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

}  // namespace

ResponsesAnswer::ResponsesAnswer(AnswerHead head, OrderedJson told_back)
    : head_(std::move(head)), told_back_(std::move(told_back)) {}

std::string ResponsesAnswer::begin() {
    std::string events = event("response.created", {{"response", response_json("in_progress")}});
    return events += event("response.in_progress", {{"response", response_json("in_progress")}});
}

std::string ResponsesAnswer::add(const TurnDelta& delta) {
    std::string events;
    if (!delta.thought.empty()) events += more(Kind::reasoning, delta.thought);
    if (!delta.text.empty()) events += more(Kind::message, delta.text);
    for (const ToolCallPiece& piece : delta.calls) {
        if (!piece.id.empty()) events += open(Kind::call, piece.id, piece.name);
        if (!piece.arguments.empty()) events += more(Kind::call, piece.arguments);
    }
    return events;
}

std::string ResponsesAnswer::finish(const TurnEnd& end) {
    end_ = end;
    const bool is_cut = end.outcome == TurnOutcome::length;
    std::string events;
    if (items_.empty()) events += open(Kind::message);
    events += close(is_cut);
    const char* const status = is_cut ? "incomplete" : "completed";
    return events +=
           event(is_cut ? "response.incomplete" : "response.completed", {{"response", response_json(status)}});
}

std::string ResponsesAnswer::fail(const ApiError& error) {
    std::string events = events_ == 0 ? begin() : close(true);
    end_.outcome = TurnOutcome::failed;
    error_ = {{"code", error.code}, {"message", error.message}};
    return events += event("response.failed", {{"response", response_json("failed")}});
}

std::string ResponsesAnswer::body() const {
    return json_text(response_json(end_.outcome == TurnOutcome::length ? "incomplete" : "completed"));
}

OrderedJson ResponsesAnswer::part_json(const Item& item) const {
    if (item.kind == Kind::reasoning) return {{"type", "reasoning_text"}, {"text", item.text}};
    return {{"type", "output_text"},
            {"text", item.text},
            {"annotations", OrderedJson::array()},
            {"logprobs", OrderedJson::array()}};
}

OrderedJson ResponsesAnswer::item_json(const Item& item, const char* status) const {
    OrderedJson json{{"id", item.id}};
    // An item has no parts before the first was told.
    const OrderedJson parts = item.text.empty() && is_open_ ? OrderedJson::array() : OrderedJson{part_json(item)};
    switch (item.kind) {
        case Kind::reasoning:
            json.update({{"type", "reasoning"}, {"status", status}, {"summary", OrderedJson::array()}});
            json["content"] = parts;
            break;
        case Kind::message:
            json.update({{"type", "message"}, {"status", status}, {"role", "assistant"}});
            json["content"] = parts;
            break;
        case Kind::call:
            json.update({{"type", "function_call"},
                         {"status", status},
                         {"call_id", item.call_id},
                         {"name", item.name},
                         {"arguments", item.text}});
            break;
    }
    return json;
}

OrderedJson ResponsesAnswer::response_json(const char* status) const {
    const bool is_over = status != std::string_view("in_progress");
    OrderedJson json{{"id", head_.id}, {"object", "response"}, {"created_at", head_.created_s}, {"status", status}};
    json["background"] = false;
    json["error"] = error_;
    json["incomplete_details"] = nullptr;
    if (end_.outcome == TurnOutcome::length && is_over) json["incomplete_details"] = {{"reason", "max_output_tokens"}};
    json["model"] = head_.model;
    json["output"] = OrderedJson::array();
    for (const Item& item : items_) json["output"].push_back(item_json(item, item.is_cut ? "incomplete" : "completed"));
    json.update(told_back_);
    const bool is_answered = is_over && error_.is_null();
    json["usage"] = is_answered ? response_usage_json(end_.usage) : OrderedJson();
    if (!is_answered) return json;
    json["timings"] = timings_json(end_.timings);
    json["attention"] = attention_json(end_.attention);
    return json;
}

std::string ResponsesAnswer::event(const char* type, OrderedJson members) {
    OrderedJson json{{"type", type}, {"sequence_number", events_++}};
    json.update(members);
    return std::string("event: ") + type + "\ndata: " + json_text(json) + "\n\n";
}

std::string ResponsesAnswer::item_event(const char* type, OrderedJson members) {
    OrderedJson json{{"item_id", items_.back().id}, {"output_index", items_.size() - 1}};
    if (items_.back().kind != Kind::call) json["content_index"] = 0;
    json.update(members);
    return event(type, std::move(json));
}

std::string ResponsesAnswer::open(Kind kind, std::string call_id, std::string name) {
    std::string events = close(false);
    const char* const prefix = kind == Kind::reasoning ? "rs_" : kind == Kind::message ? "msg_" : "fc_";
    const std::string id = prefix + head_.id.substr(head_.id.find('_') + 1) + "-" + std::to_string(items_.size());
    items_.push_back({kind, id, std::move(call_id), std::move(name), {}});
    is_open_ = true;
    events += event("response.output_item.added",
                    {{"output_index", items_.size() - 1}, {"item", item_json(items_.back(), "in_progress")}});
    if (kind != Kind::call) events += item_event("response.content_part.added", {{"part", part_json(items_.back())}});
    return events;
}

std::string ResponsesAnswer::more(Kind kind, const std::string& text) {
    std::string events;
    if (!is_open(kind)) events += open(kind);
    items_.back().text += text;
    OrderedJson members{{"delta", text}};
    if (kind == Kind::message) members["logprobs"] = OrderedJson::array();
    const char* const type = kind == Kind::reasoning ? "response.reasoning_text.delta"
                             : kind == Kind::message ? "response.output_text.delta"
                                                     : "response.function_call_arguments.delta";
    return events += item_event(type, std::move(members));
}

std::string ResponsesAnswer::close(bool is_cut) {
    if (!std::exchange(is_open_, false)) return {};
    Item& item = items_.back();
    item.is_cut = is_cut;
    std::string events;
    if (item.kind == Kind::call) {
        events += item_event("response.function_call_arguments.done", {{"name", item.name}, {"arguments", item.text}});
    } else {
        OrderedJson members{{"text", item.text}};
        if (item.kind == Kind::message) members["logprobs"] = OrderedJson::array();
        const bool is_thought = item.kind == Kind::reasoning;
        events +=
            item_event(is_thought ? "response.reasoning_text.done" : "response.output_text.done", std::move(members));
        events += item_event("response.content_part.done", {{"part", part_json(item)}});
    }
    const char* const status = is_cut ? "incomplete" : "completed";
    return events +=
           event("response.output_item.done", {{"output_index", items_.size() - 1}, {"item", item_json(item, status)}});
}

std::string response_deleted_body(const std::string& id) {
    return json_text({{"id", id}, {"object", "response"}, {"deleted", true}});
}

}  // namespace rondo
