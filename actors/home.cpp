#include "actors/home.hpp"

#include <algorithm>

#include "config/setting_keys.hpp"
#include "config/yaml_tree.hpp"

namespace rondo {

Result<size_t> Home::method(std::string_view name) const {
    if (name.empty()) return 0;
    const auto found = std::ranges::find(methods, name, &AttentionMethod::name);
    if (found != methods.end()) return static_cast<size_t>(found - methods.begin());
    std::vector<std::string_view> names;
    for (const AttentionMethod& method : methods) names.push_back(method.name);
    return make_error(ErrorCode::unsupported, "method is " + shown(name) + "; " + listed(names) + " would be right");
}

}  // namespace rondo
