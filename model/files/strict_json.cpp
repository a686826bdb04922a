#include "model/files/strict_json.hpp"

#include <exception>
#include <sstream>
#include <utility>
#include <vector>

#include "config/in_quotes.hpp"

namespace rondo {
namespace {

using Json = nlohmann::json;

/// Builds the tree while the text is read, so that a bound stops the parser as soon as it is passed.
class TreeBuilder final : public nlohmann::json_sax<Json> {
public:
    explicit TreeBuilder(const JsonBounds& bounds) : bounds_(bounds) {}

    Json& root() { return root_; }
    const std::string& problem() const { return problem_; }

    bool null() override { return add(nullptr); }
    bool boolean(bool value) override { return add(value); }
    bool number_integer(number_integer_t value) override { return add(value); }
    bool number_unsigned(number_unsigned_t value) override { return add(value); }
    bool number_float(number_float_t value, const string_t&) override { return add(value); }
    bool string(string_t& value) override { return add(std::move(value)); }
    bool binary(binary_t&) override { return fail("binary value"); }
    bool start_object(size_t) override { return open(Json::object()); }
    bool start_array(size_t) override { return open(Json::array()); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }

    bool key(string_t& name) override {
        auto [place, added] = open_.back()->get_ref<Json::object_t&>().emplace(name, nullptr);
        member_ = &place->second;
        return added || fail("key " + in_quotes(name) + " is there twice in one object");
    }

    bool parse_error(size_t position, const std::string&, const Json::exception&) override {
        return fail("not valid JSON at byte " + std::to_string(position));
    }

private:
    bool fail(std::string problem) {
        problem_ = std::move(problem);
        return false;
    }

    Json* place(Json value) {
        if (open_.empty()) return &(root_ = std::move(value));
        if (open_.back()->is_object()) return &(*member_ = std::move(value));
        auto& items = open_.back()->get_ref<Json::array_t&>();
        items.push_back(std::move(value));
        return &items.back();
    }

    bool add(Json value) {
        if (++values_ > bounds_.values_max) {
            return fail("more than " + std::to_string(bounds_.values_max) + " JSON values");
        }
        place(std::move(value));
        return true;
    }

    bool open(Json value) {
        if (open_.size() >= bounds_.depth_max) {
            return fail("JSON nested deeper than " + std::to_string(bounds_.depth_max));
        }
        if (++values_ > bounds_.values_max) {
            return fail("more than " + std::to_string(bounds_.values_max) + " JSON values");
        }
        open_.push_back(place(std::move(value)));
        return true;
    }

    bool close() {
        open_.pop_back();
        return true;
    }

    JsonBounds bounds_;
    Json root_;
    std::vector<Json*> open_;  // the containers around the current value; stay put while a child is open
    Json* member_ = nullptr;   // where the value of the last key goes
    size_t values_ = 0;
    std::string problem_;
};

std::string shown(double value) {
    std::ostringstream out;
    out << value;
    return out.str();
}

}  // namespace

Result<Json> parse_json(std::string_view text, const std::string& where, JsonBounds bounds) {
    if (text.size() > bounds.bytes_max) {
        return make_error(ErrorCode::out_of_range, where + ": JSON of " + std::to_string(text.size()) +
                                                       " bytes, must be at most " + std::to_string(bounds.bytes_max));
    }
    // The library takes a zero byte for the end of the text and would ignore what follows.
    if (text.find('\0') != std::string_view::npos) return make_error(ErrorCode::corrupt, where + ": zero byte in JSON");
    try {
        TreeBuilder builder(bounds);
        if (!Json::sax_parse(text, &builder)) return make_error(ErrorCode::corrupt, where + ": " + builder.problem());
        return std::move(builder.root());
    } catch (const std::exception& e) {
        return make_error(ErrorCode::internal, where + ": reading JSON failed: " + in_quotes(e.what()));
    }
}

Result<Json> parse_json_object(std::string_view text, const std::string& where, JsonBounds bounds) {
    RONDO_ASSIGN(Json root, parse_json(text, where, bounds));
    if (!root.is_object()) return make_error(ErrorCode::corrupt, where + ": not a JSON object");
    return root;
}

const Json* JsonFields::find(std::string_view key) const {
    const auto found = object_->find(key);
    return found == object_->end() || found->is_null() ? nullptr : &*found;
}

const Json* JsonFields::member(std::string_view key) const {
    const auto found = object_->find(key);
    if (found == object_->end()) return nullptr;
    return found->is_null() && nulls_ == Nulls::absent ? nullptr : &*found;
}

Error JsonFields::wrong(std::string_view key, std::string_view right) const {
    return make_error(ErrorCode::invalid_argument,
                      where_ + ": " + path_ + std::string(key) + " must be " + std::string(right));
}

Error JsonFields::missing(std::string_view key) const {
    return make_error(ErrorCode::invalid_argument, where_ + ": " + path_ + std::string(key) + " is missing");
}

Result<int64_t> JsonFields::integer(std::string_view key, int64_t least, int64_t most,
                                    std::optional<int64_t> fallback) const {
    const Json* value = member(key);
    if (value == nullptr) return fallback ? Result<int64_t>(*fallback) : missing(key);
    const auto range = "an integer from " + std::to_string(least) + " to " + std::to_string(most);
    if (!value->is_number_integer()) return wrong(key, range);
    if (value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{INT64_MAX}) return wrong(key, range);
    const auto number = value->get<int64_t>();
    if (number < least || number > most) return wrong(key, range);
    return number;
}

Result<double> JsonFields::real(std::string_view key, double least, double most, std::optional<double> fallback) const {
    const Json* value = member(key);
    if (value == nullptr) return fallback ? Result<double>(*fallback) : missing(key);
    const double number = value->is_number() ? value->get<double>() : least - 1;
    if (!value->is_number() || !(number >= least && number <= most)) {
        return wrong(key, "a number from " + shown(least) + " to " + shown(most));
    }
    return number;
}

Result<bool> JsonFields::boolean(std::string_view key, bool fallback) const {
    const Json* value = member(key);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) return wrong(key, "true or false");
    return value->get<bool>();
}

Result<std::string> JsonFields::text(std::string_view key, std::string fallback) const {
    const Json* value = member(key);
    if (value == nullptr) return fallback;
    if (!value->is_string()) return wrong(key, "a string");
    return value->get<std::string>();
}

}  // namespace rondo
