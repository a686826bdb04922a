#include "actors/gateway/bodies/responses_input.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "actors/gateway/bodies/chat_messages.hpp"
#include "actors/gateway/bodies/json_text.hpp"
#include "config/limits.hpp"

namespace rondo {

namespace {

using Json = nlohmann::json;

constexpr size_t call_levels = 2;  // the input, the item

/// Texts of a list of parts of these types, each on a line of its own.
void read_parts(BodyFields& item, const char* name, std::initializer_list<std::string_view> types, std::string& into) {
    const Json* content = item.find(name);
    if (content == nullptr) return item.missing(name, "a string or a list of text parts");
    if (content->is_string()) return item.text(name, limits::prompt_bytes_max, into);
    const Json* parts = item.array(name, limits::messages_max);
    for (size_t i = 0; parts != nullptr && i < parts->size(); ++i) {
        auto part = item.within(item_name(name, i), (*parts)[i], "a text part");
        if (!part) return;
        std::string type, text;
        part->text("type", limits::name_bytes_max, type);
        if (std::find(types.begin(), types.end(), type) == types.end())
            return part->wrong("type", type.empty() ? "missing" : "not supported", std::string(*types.begin()),
                               "unsupported_value");
        part->text("text", limits::prompt_bytes_max, text);
        for (const char* unused : {"annotations", "logprobs", "parsed"}) (void)part->find(unused);
        part->refuse_others();
        if (i > 0) into += '\n';
        into += text;
    }
}

/// An answer's items on their way to become a message.
class InputReader {
public:
    explicit InputReader(std::vector<ChatMessage>& into) : into_(into) {}

    void read(BodyFields& item) {
        std::string type = "message", unused;
        item.text("type", limits::name_bytes_max, type);
        for (const char* name : {"id", "status"}) item.text(name, limits::name_bytes_max, unused);
        if (type == "message") {
            message(item);
        } else if (type == "function_call") {
            call(item);
        } else if (type == "function_call_output") {
            output(item);
        } else if (type == "reasoning") {
            reasoning(item);
        } else {
            return item.wrong("type", "not supported", "message, function_call, function_call_output or reasoning",
                              "unsupported_value");
        }
        item.refuse_others();
    }
    /// What was gathered of an answer is whole.
    void end_answer() {
        if (!is_answering_) return;
        std::string members;
        if (!reasoning_.empty()) members += "\"reasoning_content\":" + json_text(reasoning_) + ",";
        if (!calls_.empty()) members += "\"tool_calls\":[" + calls_ + "],";
        if (!calls_.empty() && said_.empty()) members += R"("content":null,)";
        into_.push_back({"assistant", std::exchange(said_, {}), further_members(std::move(members))});
        reasoning_.clear();
        calls_.clear();
        calls_count_ = 0;
        is_answering_ = has_said_ = false;
    }

private:
    void message(BodyFields& item) {
        std::string role, text;
        item.text("role", limits::name_bytes_max, role);
        if (role == "developer") role = "system";
        if (role != "system" && role != "user" && role != "assistant")
            return item.wrong("role", role.empty() ? "missing" : "unknown", "system, developer, user or assistant");
        read_parts(item, "content", {"input_text", "output_text", "text"}, text);
        (void)item.find("phase");
        if (role != "assistant") {
            end_answer();
            into_.push_back({std::move(role), std::move(text)});
            return;
        }
        if (has_said_ || !calls_.empty()) end_answer();
        is_answering_ = has_said_ = true;
        said_ = std::move(text);
    }

    void call(BodyFields& item) {
        std::string id, name;
        item.text("call_id", limits::name_bytes_max, id);
        item.text("name", limits::name_bytes_max, name);
        if (name.empty()) return item.missing("name", "a function's name");
        if (id.empty()) return item.missing("call_id", "the call's id");
        if (++calls_count_ > limits::tool_calls_max)
            return item.wrong("type", "a call too many", "of up to " + std::to_string(limits::tool_calls_max));
        (void)item.find("parsed_arguments");  // OpenAI's client puts the arguments there once more
        is_answering_ = true;
        calls_ += (calls_.empty() ? "" : ",") + call_text(id, name, read_arguments(item, call_levels));
    }

    void output(BodyFields& item) {
        std::string id, text;
        item.text("call_id", limits::name_bytes_max, id);
        if (id.empty()) return item.missing("call_id", "the id of the call that this is the output of");
        read_parts(item, "output", {"input_text", "output_text", "text"}, text);
        end_answer();
        into_.push_back({"tool", std::move(text), further_members("\"tool_call_id\":" + json_text(id) + ",")});
    }

    void reasoning(BodyFields& item) {
        for (const char* unused : {"summary", "encrypted_content"}) (void)item.find(unused);
        if (has_said_ || !calls_.empty()) end_answer();
        if (item.find("content") == nullptr) return;
        is_answering_ = true;
        read_parts(item, "content", {"reasoning_text"}, reasoning_);
    }

    std::vector<ChatMessage>& into_;
    std::string said_, reasoning_, calls_;
    size_t calls_count_ = 0;
    bool is_answering_ = false, has_said_ = false;
};

}  // namespace

void read_responses_input(BodyFields& fields, std::vector<ChatMessage>& into) {
    constexpr const char* name = "input";
    const Json* input = fields.find(name);
    if (input == nullptr) return fields.missing(name, "a string or a list of items");
    if (input->is_string()) {
        into.push_back({"user", ""});
        return fields.text(name, limits::prompt_bytes_max, into.back().content);
    }
    const Json* items = fields.array(name, limits::messages_max);
    if (items == nullptr) return;
    if (items->empty()) return fields.wrong(name, "an empty list", "at least one item");
    InputReader reader(into);
    for (size_t i = 0; i < items->size() && !fields.has_problem(); ++i) {
        auto item = fields.within(item_name(name, i), (*items)[i], "an item");
        if (!item) return;
        reader.read(*item);
    }
    reader.end_answer();
}

}  // namespace rondo
