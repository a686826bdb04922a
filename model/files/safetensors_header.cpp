#include "model/files/safetensors_header.hpp"

#include <exception>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "config/in_quotes.hpp"
#include "config/limits.hpp"

namespace rondo {
namespace {

using Json = nlohmann::json;

class HeaderReader final : public nlohmann::json_sax<Json> {
public:
    std::vector<SafetensorsEntry>& entries() { return entries_; }
    const std::string& problem() const { return problem_; }

    bool null() override { return unexpected("null"); }
    bool boolean(bool) override { return unexpected("a boolean"); }
    bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
    bool number_float(number_float_t, const string_t&) override { return unexpected("a fraction or a huge number"); }
    bool binary(binary_t&) override { return unexpected("a binary value"); }

    bool number_unsigned(number_unsigned_t value) override {
        if (at_ == At::shape) {
            auto& shape = entries_.back().shape;
            if (shape.size() == limits::tensor_dimensions_max) {
                return fail("more than " + std::to_string(limits::tensor_dimensions_max) + " dimensions");
            }
            if (value > uint64_t{INT64_MAX}) return fail("a dimension beyond 2^63");
            shape.push_back(static_cast<int64_t>(value));
            return true;
        }
        if (at_ == At::offsets && offsets_read_ < 2) {
            (offsets_read_++ == 0 ? entries_.back().begin : entries_.back().end) = value;
            return true;
        }
        return unexpected("a number");
    }

    bool string(string_t& value) override {
        if (at_ == At::metadata) return true;  // notes for people; nothing here reads them
        if (at_ != At::tensor || field_ != Field::dtype) return unexpected("a string");
        entries_.back().dtype = std::move(value);
        return true;
    }

    bool start_object(size_t) override {
        if (at_ == At::start) return go(At::top);
        if (at_ == At::top) return go(in_metadata_ ? At::metadata : At::tensor);
        return unexpected("an object");
    }

    bool key(string_t& name) override {
        if (at_ == At::metadata) {
            if (metadata_keys_.size() == limits::metadata_entries_max) return fail("too many entries");
            return metadata_keys_.insert(name).second || fail("key " + in_quotes(name) + " is there twice");
        }
        if (at_ == At::top) return start_entry(name);
        constexpr std::string_view names[] = {"dtype", "shape", "data_offsets"};
        for (int i = 0; i < 3; ++i) {
            if (name != names[i]) continue;
            field_ = static_cast<Field>(1 << i);
            if (fields_read_ & (1 << i)) return fail("key " + in_quotes(name) + " is there twice");
            fields_read_ |= 1 << i;
            return true;
        }
        return fail("unknown key " + in_quotes(name) + "; dtype, shape and data_offsets are known");
    }

    bool start_array(size_t) override {
        if (at_ == At::tensor && field_ == Field::shape) return go(At::shape);
        if (at_ == At::tensor && field_ == Field::offsets) return go(At::offsets);
        return unexpected("an array");
    }

    bool end_array() override {
        if (at_ == At::offsets && offsets_read_ != 2) return fail("data_offsets needs two numbers");
        return go(At::tensor);
    }

    bool end_object() override {
        if (at_ == At::tensor && fields_read_ != 7) return fail("needs dtype, shape and data_offsets");
        return go(at_ == At::top ? At::done : At::top);
    }

    bool parse_error(size_t position, const std::string&, const Json::exception&) override {
        problem_ = "header is not valid JSON at byte " + std::to_string(position);
        return false;
    }

private:
    enum class At { start, top, metadata, tensor, shape, offsets, done };
    enum class Field { dtype = 1, shape = 2, offsets = 4 };

    bool go(At next) {
        at_ = next;
        return true;
    }

    bool start_entry(const std::string& name) {
        in_metadata_ = name == "__metadata__";
        if (in_metadata_) return !std::exchange(metadata_seen_, true) || fail("is there twice");
        if (name.size() > limits::name_bytes_max) return fail("name " + in_quotes(name) + " is too long");
        if (entries_.size() == static_cast<size_t>(limits::tensors_max)) {
            return fail("more than " + std::to_string(limits::tensors_max) + " tensors");
        }
        entries_.emplace_back().name = name;
        fields_read_ = 0;
        offsets_read_ = 0;
        return true;
    }

    bool unexpected(const char* what) { return fail(std::string("unexpected ") + what); }

    bool fail(const std::string& problem) {
        problem_ = "header";
        if (in_metadata_) {
            problem_ += ", __metadata__";
        } else if (!entries_.empty()) {
            problem_ += ", tensor " + in_quotes(entries_.back().name);
        }
        problem_ += ": " + problem;
        return false;
    }

    At at_ = At::start;
    Field field_ = Field::dtype;
    int fields_read_ = 0;  // bits of Field, of the current entry
    int offsets_read_ = 0;
    bool in_metadata_ = false;
    bool metadata_seen_ = false;
    std::unordered_set<std::string> metadata_keys_;
    std::vector<SafetensorsEntry> entries_;
    std::string problem_;
};

}  // namespace

Result<std::vector<SafetensorsEntry>> read_safetensors_header(std::string_view json, const std::string& where) {
    // The library takes a zero byte for the end of the text and would ignore what follows.
    if (json.find('\0') != std::string_view::npos) {
        return make_error(ErrorCode::corrupt, where + ": zero byte in the header");
    }
    try {
        HeaderReader reader;
        if (!Json::sax_parse(json, &reader)) {
            return make_error(ErrorCode::corrupt, where + ": " + reader.problem());
        }
        return std::move(reader.entries());
    } catch (const std::exception& e) {
        return make_error(ErrorCode::internal, where + ": reading the header failed: " + in_quotes(e.what()));
    }
}

}  // namespace rondo
