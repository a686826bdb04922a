#include "model/text/tokenizer_file.hpp"

#include <exception>
#include <utility>

#include "config/in_quotes.hpp"
#include "config/limits.hpp"

namespace rondo {

namespace {

using Json = nlohmann::json;

constexpr int64_t id_gap_max = 1 << 16;

class Reader final : public nlohmann::json_sax<Json> {
public:
    TokenizerFile& file() { return file_; }
    const Error& error() const { return error_; }

    bool null() override { return value(nullptr); }
    bool boolean(bool v) override { return value(v); }
    bool number_integer(number_integer_t v) override { return part_ == Part::vocab ? token(v) : value(v); }
    bool number_unsigned(number_unsigned_t v) override {
        if (part_ != Part::vocab) return value(v);
        return token(v > uint64_t{INT64_MAX} ? INT64_MAX : static_cast<int64_t>(v));
    }
    bool number_float(number_float_t v, const string_t&) override { return value(v); }
    bool string(string_t& v) override { return part_ == Part::merges ? merge_text(v) : value(std::move(v)); }
    bool binary(binary_t&) override { return fail("a binary value"); }
    bool start_object(size_t) override;
    bool start_array(size_t) override;
    bool end_object() override;
    bool end_array() override;
    bool key(string_t& name) override;
    bool parse_error(size_t position, const std::string&, const Json::exception&) override {
        return fail("not valid JSON at byte " + std::to_string(position));
    }

private:
    enum class Part { tree, vocab, merges };

    bool fail(std::string message, ErrorCode code = ErrorCode::corrupt) {
        error_ = make_error(code, std::move(message));
        return false;
    }
    std::string merge_name() const { return "model.merges[" + std::to_string(file_.merges.pairs.size()) + "]"; }
    /// Whether the value that comes now belongs to the given key of the object at the given key of the file.
    bool is_at(std::string_view outer, std::string_view inner) const {
        return open_.size() == 2 && open_[1]->is_object() && outer_key_ == outer && key_ == inner;
    }

    Json* place(Json v);
    bool value(Json v);
    bool open(Json v);
    bool token(int64_t id);
    bool merge_text(const std::string& text);
    bool add_merge(std::string_view left, std::string_view right);

    TokenizerFile file_;
    Error error_;
    Part part_ = Part::tree;
    std::vector<Json*> open_;  // the containers around the current value; stay put while a child is open
    std::string outer_key_, key_;
    size_t values_ = 0;
    std::string token_;     // vocab: the key whose id comes next
    bool in_pair_ = false;  // merges: inside ["a", "b"]
    std::vector<std::string> pair_;
};

Json* Reader::place(Json v) {
    if (open_.empty()) return &(file_.tree = std::move(v));
    if (open_.back()->is_object()) return &((*open_.back())[key_] = std::move(v));
    auto& items = open_.back()->get_ref<Json::array_t&>();
    items.push_back(std::move(v));
    return &items.back();
}

bool Reader::value(Json v) {
    if (part_ == Part::vocab) return fail("model.vocab: the id of " + in_quotes(token_) + " must be an integer");
    if (part_ == Part::merges) return fail(merge_name() + " must be \"a b\" or [\"a\", \"b\"]");
    if (++values_ > limits::tokenizer_values_max)
        return fail("more than " + std::to_string(limits::tokenizer_values_max) +
                        " JSON values beside model.vocab and model.merges",
                    ErrorCode::out_of_range);
    place(std::move(v));
    return true;
}

bool Reader::open(Json v) {
    if (open_.size() >= limits::json_depth_max)
        return fail("JSON nested deeper than " + std::to_string(limits::json_depth_max), ErrorCode::out_of_range);
    if (++values_ > limits::tokenizer_values_max)
        return fail("more than " + std::to_string(limits::tokenizer_values_max) +
                        " JSON values beside model.vocab and model.merges",
                    ErrorCode::out_of_range);
    open_.push_back(place(std::move(v)));
    return true;
}

bool Reader::start_object(size_t) {
    if (part_ != Part::tree) return value(nullptr);
    if (!is_at("model", "vocab")) return open(Json::object());
    part_ = Part::vocab;
    return true;
}

bool Reader::end_object() {
    if (part_ == Part::vocab) {
        part_ = Part::tree;
    } else {
        open_.pop_back();
    }
    return true;
}

bool Reader::start_array(size_t) {
    if (part_ == Part::merges && !in_pair_) {
        in_pair_ = true;
        pair_.clear();
        return true;
    }
    if (part_ != Part::tree) return value(nullptr);
    if (!is_at("model", "merges")) return open(Json::array());
    part_ = Part::merges;
    return true;
}

bool Reader::end_array() {
    if (in_pair_) {
        in_pair_ = false;
        return pair_.size() == 2 ? add_merge(pair_[0], pair_[1]) : value(nullptr);
    }
    if (part_ == Part::merges) {
        part_ = Part::tree;
    } else {
        open_.pop_back();
    }
    return true;
}

bool Reader::key(string_t& name) {
    if (part_ == Part::vocab) {
        token_ = name;
        return true;
    }
    key_ = name;
    if (open_.size() == 1) outer_key_ = name;
    const bool again = open_.back()->contains(name) || (is_at("model", "vocab") && file_.vocabulary.size() > 0) ||
                       (is_at("model", "merges") && !file_.merges.pairs.empty());
    return !again || fail("key " + in_quotes(name) + " is there twice in one object");
}

bool Reader::token(int64_t id) {
    if (file_.vocabulary.find(token_) >= 0) return fail("model.vocab: token " + in_quotes(token_) + " is there twice");
    const Status added = file_.vocabulary.add(id, token_, Vocabulary::Kind::normal);
    return added ? true : fail("model.vocab: " + added.error().message, added.error().code);
}

bool Reader::merge_text(const std::string& text) {
    if (in_pair_) {
        if (pair_.size() == 2) return value(nullptr);
        pair_.push_back(text);
        return true;
    }
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) return value(nullptr);
    return add_merge(std::string_view(text).substr(0, space), std::string_view(text).substr(space + 1));
}

bool Reader::add_merge(std::string_view left, std::string_view right) {
    auto& merges = file_.merges;
    if (merges.pairs.size() >= limits::merges_max)
        return fail("more than " + std::to_string(limits::merges_max) + " merges, must be at most " +
                        std::to_string(limits::merges_max),
                    ErrorCode::out_of_range);
    const size_t begin = merges.text.size(), cut = begin + left.size(), end = cut + right.size();
    merges.text.append(left).append(right);
    merges.pairs.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(cut), static_cast<uint32_t>(end)});
    return true;
}

}  // namespace

Result<TokenizerFile> read_tokenizer_file(std::string_view json, const std::string& where) {
    if (json.size() > limits::json_bytes_max)
        return make_error(ErrorCode::out_of_range, where + ": " + std::to_string(json.size()) +
                                                       " bytes, must be at most " +
                                                       std::to_string(limits::json_bytes_max));
    // The library takes a zero byte for the end of the text and would ignore what follows.
    if (json.find('\0') != std::string_view::npos) return make_error(ErrorCode::corrupt, where + ": zero byte in JSON");
    try {
        Reader reader;
        // Ids may have gaps, and come in any order; a token takes some twenty bytes of the file, never fewer than five.
        reader.file().vocabulary.bound_ids(id_gap_max + static_cast<int64_t>(json.size() / 2));
        if (!Json::sax_parse(json, &reader))
            return make_error(reader.error().code, where + ": " + reader.error().message);
        if (!reader.file().tree.is_object()) return make_error(ErrorCode::corrupt, where + ": not a JSON object");
        return std::move(reader.file());
    } catch (const std::exception& e) {
        return make_error(ErrorCode::internal, where + ": reading JSON failed: " + in_quotes(e.what()));
    }
}

}  // namespace rondo
