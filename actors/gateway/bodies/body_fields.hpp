#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/gateway/bodies/api_error.hpp"
#include "config/sampling_ranges.hpp"

namespace rondo {

/// The body of a request as a tree: a JSON object, valid UTF-8, nothing twice and nothing after it, within bounds.
ApiResult<nlohmann::json> parse_body(std::string_view body);

/// "messages[3]"
std::string item_name(std::string_view list, size_t index);

/// Reads one JSON object of a request member by member, each into a variable that keeps its value when the member is
/// absent. A member that is null is absent, as OpenAI has it, whatever its name. The first thing wrong goes to
/// `problem`, which objects within objects share; what is read after that is of no account. Borrows the object.
class BodyFields {
public:
    using Json = nlohmann::json;

    /// `path` stands before each name in errors ("stream_options.").
    BodyFields(const Json& object, std::string path, std::optional<ApiError>& problem)
        : object_(&object), path_(std::move(path)), problem_(&problem) {}

    void number(std::string_view name, const NumberRange& range, double& into);
    void number(std::string_view name, const NumberRange& range, float& into);
    /// A fraction is refused; 2.0 is 2.
    void whole(std::string_view name, int64_t low, int64_t high, int64_t& into);
    void whole(std::string_view name, int64_t low, int64_t high, int& into);
    void flag(std::string_view name, bool& into);
    void text(std::string_view name, size_t bytes_max, std::string& into);
    /// A name of something of ours: letters, digits, '_' and '-', 1 to 64 of them.
    void word(std::string_view name, std::string& into);
    /// An id as is_conversation_id allows it.
    void conversation_id(std::string_view name, std::string& into);
    /// A list of whole numbers from `low` to `high`.
    void wholes(std::string_view name, int64_t low, int64_t high, std::vector<int64_t>& into);
    void token_ids(std::string_view name, int64_t vocabulary, std::vector<int32_t>& into);
    /// Of a list that is there, whatever it is called.
    std::vector<int32_t> checked_token_ids(std::string_view name, const Json& list, int64_t vocabulary);

    /// nullptr when absent or null.
    const Json* find(std::string_view name);
    /// nullptr when absent, null or (a problem) of another type or longer.
    const Json* array(std::string_view name, size_t items_max);
    /// To read a member or an item of one, which must be an object; `name` says where it stands in this one.
    std::optional<BodyFields> within(std::string_view name, const Json& value, std::string_view right);
    /// A field that is refused unless it asks for nothing: what `harmless` is.
    void refuse_unless(std::string_view name, const Json& harmless);
    /// Members that nothing above has asked for are a problem, but for null. Comes last.
    void refuse_others();

    /// Notes that a member is `is` and must be `right`.
    void wrong(std::string_view name, std::string_view is, std::string_view right,
               std::string_view code = "invalid_value");
    void missing(std::string_view name, std::string_view right);
    /// Notes what is wrong with a member in these words.
    void refuse(std::string_view name, std::string code, std::string message);
    bool has_problem() const { return problem_->has_value(); }

    std::optional<double> checked_number(std::string_view name, const Json& value, const NumberRange& range);

private:
    void checked_wholes(std::string_view name, const Json& list, int64_t low, int64_t high, std::vector<int64_t>& into);
    std::optional<int64_t> checked_whole(std::string_view name, const Json& value, int64_t low, int64_t high);
    void wrong_type(std::string_view name, const Json& value, std::string_view right);

    const Json* object_;
    std::string path_;
    std::optional<ApiError>* problem_;
    std::vector<std::string_view> known_;  // names asked for: literals of the callers
};

/// Parses a body and reads it by `read(fields, request)`; members that `read` does not ask for are refused.
template <class Request, class Read>
ApiResult<Request> read_body(std::string_view body, const Read& read) {
    RONDO_ASSIGN(const nlohmann::json json, parse_body(body));
    std::optional<ApiError> problem;
    BodyFields fields(json, "", problem);
    Request request;
    read(fields, request);
    fields.refuse_others();
    if (problem) return *std::move(problem);
    return request;
}

}  // namespace rondo
