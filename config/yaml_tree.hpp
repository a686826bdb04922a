#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"

namespace rondo {

/// A YAML document as plain data, each value with the place it came from. No anchors, aliases, tags or merge keys: what
/// is written is what there is, so a small file cannot become a large tree.
struct YamlNode {
    enum class Kind { nothing, scalar, list, map };

    Kind kind = Kind::nothing;
    std::string key;                 ///< in the map it stands in
    std::string text;                ///< of a scalar
    bool quoted = false;             ///< a scalar in quotes or a block: text, never a number
    std::string place;               ///< "settings.yaml:12" (its key's line), or "--set a.b"
    std::vector<YamlNode> children;  ///< of a list or map, in order; keys of a map are distinct

    const YamlNode* find(std::string_view child) const;
    YamlNode* find(std::string_view child);
};

/// Reads one document within the bounds of limits.hpp. `where` names the file in errors; lines count from `first_line`,
/// and with 0 a value on the first line has no line number.
Result<YamlNode> parse_yaml(std::string_view text, const std::string& where, int first_line = 1);

/// Text from outside as an error may show it: in quotes, printable ASCII, cut where it is long.
std::string shown(std::string_view text);

}  // namespace rondo
