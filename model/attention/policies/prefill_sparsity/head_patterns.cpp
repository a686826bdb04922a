#include "model/attention/policies/prefill_sparsity/head_patterns.hpp"

#include <algorithm>
#include <span>

#include "config/in_quotes.hpp"
#include "memory/store/record_header.hpp"
#include "model/files/strict_json.hpp"

namespace rondo {
namespace {

using Json = nlohmann::json;

constexpr int64_t count_max = int64_t{1} << 24;

Result<HeadPattern> pattern_from(const Json& item, const std::string& where) {
    const auto is_count = [&](size_t i) { return item[i].is_number_integer() && item[i] >= 0 && item[i] <= count_max; };
    if (!item.is_array() || item.size() < 3 || !item[0].is_string() || !is_count(1) || !is_count(2)) {
        return make_error(
            ErrorCode::invalid_argument,
            where + " must be [\"vertical_and_slash\", \"stream_llm\" or \"block_sparse\", two counts of 0 to " +
                std::to_string(count_max) + ", and any score]");
    }
    HeadPattern pattern{.first = item[1].get<int64_t>(), .second = item[2].get<int64_t>()};
    const auto& name = item[0].get_ref<const std::string&>();
    if (name == "vertical_and_slash") {
        pattern.kind = HeadPattern::Kind::lines;
    } else if (name == "stream_llm") {
        pattern.kind = HeadPattern::Kind::window;
    } else if (name == "block_sparse") {
        pattern.kind = HeadPattern::Kind::blocks;
    } else {
        return make_error(ErrorCode::unsupported,
                          where + ": " + in_quotes(name) + " must be vertical_and_slash, stream_llm or block_sparse");
    }
    return pattern;
}

}  // namespace

Result<HeadPatterns> HeadPatterns::parse(std::string_view json, const std::string& where, int layers, int heads) {
    RONDO_ASSIGN(const Json root, parse_json(json, where));
    const std::string wanted = "must be a list of " + std::to_string(layers) +
                               " layers, each an object of heads \"0\" to \"" + std::to_string(heads - 1) +
                               "\", as the model has";
    if (!root.is_array() || root.size() != static_cast<size_t>(layers)) {
        const std::string found = root.is_array() ? " holds " + std::to_string(root.size()) + " layers;" : "";
        return make_error(ErrorCode::invalid_argument, where + ":" + found + " it " + wanted);
    }
    HeadPatterns made;
    made.heads_ = heads;
    made.checksum_ = checksum_of(std::as_bytes(std::span(json)));
    for (int layer = 0; layer < layers; ++layer) {
        const Json& of_layer = root[static_cast<size_t>(layer)];
        const std::string at = where + ": layer " + std::to_string(layer);
        if (!of_layer.is_object() || of_layer.size() != static_cast<size_t>(heads))
            return make_error(ErrorCode::invalid_argument, at + ": the file " + wanted);
        for (int head = 0; head < heads; ++head) {
            const std::string name = std::to_string(head);
            const auto found = of_layer.find(name);
            if (found == of_layer.end())
                return make_error(ErrorCode::invalid_argument, at + " has no head " + name + ": the file " + wanted);
            RONDO_ASSIGN(made.patterns_.emplace_back(), pattern_from(*found, at + ", head " + name));
        }
    }
    return made;
}

bool HeadPatterns::any(HeadPattern::Kind kind) const {
    return std::ranges::any_of(patterns_, [&](const HeadPattern& pattern) { return pattern.kind == kind; });
}

}  // namespace rondo
