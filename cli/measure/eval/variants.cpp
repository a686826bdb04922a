#include "cli/measure/eval/variants.hpp"

#include <algorithm>

#include "config/setting_keys.hpp"

namespace rondo::cli::eval {

namespace {

struct VariantRow {
    std::string_view method, variant;
    std::vector<std::string> keys;
};

/// A method without a row keeps its own settings.
const std::vector<VariantRow>& variant_rows() {
    const std::vector<std::string> lines = {"alpha=0.955",  "alpha_of=sum", "sample_rows=64",
                                            "first_keys=0", "near_keys=0",  "blocks=0"};
    std::vector<std::string> printed = lines;
    printed.push_back("pool=1");
    const std::vector<std::string> forward = {"pool=7", "pool_side=after"};
    static const std::vector<VariantRow> table = {{"loopserve", "printed", printed},
                                                  {"progressive", "printed", {"pool=1"}},
                                                  {"snapkv", "printed", {"pool=7", "pool_side=around"}},
                                                  {"adakv", "printed", {"pool=7", "pool_side=around"}},
                                                  {"h2o", "printed", {"pool=1", "window=4096"}},
                                                  {"streaming_llm", "printed", {"shift=true"}},
                                                  {"loopserve", "pooled", forward},
                                                  {"progressive", "pooled", forward},
                                                  {"snapkv", "pooled", forward},
                                                  {"adakv", "pooled", forward},
                                                  {"h2o", "pooled", {"pool=7", "pool_side=after", "window=4096"}}};
    return table;
}

constexpr std::string_view variant_names[] = {"printed", "pooled", "preset"};

}  // namespace

Result<Variant> find_variant(const std::string& method, const std::string& variant, const std::string& label) {
    const auto wrong = [&](const std::string& why) {
        return make_error(ErrorCode::invalid_argument, "--methods " + label + ": " + why);
    };
    if (std::ranges::find(variant_names, variant) == std::end(variant_names))
        return wrong("variant \"" + variant + "\" is not known, must be " + listed(variant_names));
    for (const VariantRow& row : variant_rows()) {
        if (row.method == method && row.variant == variant) return Variant{.keys = row.keys};
    }
    if (variant == "pooled") return wrong(method + " has no scores of keys to pool; the variant must be @printed");
    return Variant{.scaled = variant != "preset"};
}

}  // namespace rondo::cli::eval
