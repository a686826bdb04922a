#include "cli/measure/eval/variants.hpp"

#include <algorithm>

#include "config/method_rows.hpp"
#include "config/setting_keys.hpp"

namespace rondo::cli::eval {

namespace {

constexpr std::string_view variant_names[] = {"printed", "pooled", "preset"};

}  // namespace

Result<Variant> find_variant(const std::string& method, const std::string& variant, const std::string& label) {
    const auto wrong = [&](const std::string& why) {
        return make_error(ErrorCode::invalid_argument, "--methods " + label + ": " + why);
    };
    if (std::ranges::find(variant_names, variant) == std::end(variant_names))
        return wrong("variant \"" + variant + "\" is not known, must be " + listed(variant_names));
    const MethodRow* const row = find_row(method);
    std::string_view keys;  // a method without any keeps its own settings
    if (row != nullptr && variant == "printed") keys = row->printed;
    if (row != nullptr && variant == "pooled") keys = row->pooled;
    if (variant == "pooled" && keys.empty())
        return wrong(method + " has no scores of keys to pool; the variant must be @printed");
    const std::vector<std::string_view> words = words_in(keys);
    return Variant{.keys = {words.begin(), words.end()}, .scaled = variant != "preset"};
}

}  // namespace rondo::cli::eval
