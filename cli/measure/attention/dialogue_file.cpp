#include "cli/measure/attention/dialogue_file.hpp"

#include <algorithm>
#include <array>

#include "config/did_you_mean.hpp"
#include "config/in_quotes.hpp"
#include "model/files/strict_json.hpp"

namespace rondo::cli::attention {

namespace {

constexpr std::array<std::string_view, 2> members = {"messages", "evidence"};

/// One line of the file.
class Line {
public:
    Line(const std::string& file, size_t number) : name_(file + ":" + std::to_string(number)) {}

    Result<Dialogue> parse(std::string_view text) const {
        RONDO_ASSIGN(const nlohmann::json json, parse_json_object(text, name_, {.bytes_max = dialogue_file_bytes_max}));
        for (const auto& [key, value] : json.items()) {
            if (std::ranges::find(members, key) != members.end()) continue;
            const std::string meant = did_you_mean(key, members);
            return wrong("the member " + in_quotes(key) + " is not known" +
                         (meant.empty() ? "; it must be messages or evidence" : meant));
        }
        Dialogue dialogue;
        dialogue.name = name_;
        RONDO_TRY(read_messages(json, dialogue));
        RONDO_TRY(read_evidence(json, dialogue));
        return dialogue;
    }

private:
    Error wrong(const std::string& what) const { return make_error(ErrorCode::invalid_argument, name_ + ": " + what); }

    Status read_messages(const nlohmann::json& json, Dialogue& dialogue) const {
        const auto list = json.find("messages");
        if (list == json.end() || !list->is_array())
            return wrong("\"messages\" must be a list of {\"role\": …, \"content\": …}");
        for (const auto& item : *list) {
            const std::string which = "message " + std::to_string(dialogue.messages.size() + 1);
            const auto text_of = [&](const char* key) -> const std::string* {
                const auto at = item.is_object() ? item.find(key) : item.end();
                return at == item.end() || !at->is_string() ? nullptr : at->get_ptr<const std::string*>();
            };
            const std::string *const role = text_of("role"), *const content = text_of("content");
            if (role == nullptr || content == nullptr)
                return wrong(which + " must have a \"role\" and a \"content\" that are text");
            const std::string next = next_role(dialogue);
            const bool opens = dialogue.messages.empty() && *role == "system";
            if (*role != next && !opens)
                return wrong("the role of " + which + " must be " + next +
                             (dialogue.messages.empty() ? " or system" : ""));
            if (content->find_first_not_of(" \t\r\n") == std::string::npos)
                return wrong("the content of " + which + " must hold more than blanks");
            dialogue.messages.push_back({*role, *content});
        }
        if (dialogue.rounds() == 0) return wrong("\"messages\" must hold a question");
        return Status::ok();
    }

    static std::string next_role(const Dialogue& dialogue) {
        return dialogue.messages.empty() || dialogue.messages.back().role != "user" ? "user" : "assistant";
    }

    Status read_evidence(const nlohmann::json& json, Dialogue& dialogue) const {
        const auto list = json.find("evidence");
        if (list == json.end()) return Status::ok();
        const size_t past = dialogue.rounds() - 1;
        const auto must = [&] {
            return wrong("\"evidence\" must be a list of rounds before the last one" +
                         (past == 0 ? ", and there is only one round" : ": numbers from 1 to " + std::to_string(past)));
        };
        if (!list->is_array() || list->size() > past) return must();
        for (const auto& item : *list) {
            if (!item.is_number_unsigned() || item.get<uint64_t>() < 1 || item.get<uint64_t>() > past) return must();
            dialogue.evidence.push_back(static_cast<size_t>(item.get<uint64_t>()) - 1);
        }
        std::ranges::sort(dialogue.evidence);
        if (std::ranges::adjacent_find(dialogue.evidence) != dialogue.evidence.end())
            return wrong("\"evidence\" must hold each round only once");
        return Status::ok();
    }

    std::string name_;
};

}  // namespace

Result<std::vector<Dialogue>> parse_dialogues(std::string_view text, const std::string& file) {
    std::vector<Dialogue> dialogues;
    for (size_t number = 1; !text.empty(); ++number) {
        const size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
        if (dialogues.size() == file_dialogues_max)
            return make_error(ErrorCode::out_of_range, file + ": more than " + std::to_string(file_dialogues_max) +
                                                           " dialogues, must be at most " +
                                                           std::to_string(file_dialogues_max));
        RONDO_ASSIGN(Dialogue dialogue, Line(file, number).parse(line));
        dialogues.push_back(std::move(dialogue));
    }
    if (dialogues.empty())
        return make_error(ErrorCode::invalid_argument, file + " holds no dialogue; each line must be one");
    return dialogues;
}

}  // namespace rondo::cli::attention
