#include "actors/runtime.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>

#include "config/method_rows.hpp"
#include "config/setting_keys.hpp"
#include "config/setting_values.hpp"
#include "config/yaml_tree.hpp"
#include "memory/store/record_header.hpp"

namespace rondo {

Result<size_t> Runtime::method(std::string_view name) const {
    if (name.empty()) return 0;
    const auto found = std::ranges::find(methods, name, &AttentionMethod::name);
    if (found != methods.end()) return static_cast<size_t>(found - methods.begin());
    std::vector<std::string_view> names;
    for (const AttentionMethod& method : methods) names.push_back(method.name);
    return make_error(ErrorCode::unsupported, "method is " + shown(name) + ", must be " + listed(names));
}

Status Runtime::check_budget(size_t method, int64_t budget_tokens) const {
    if (budget_tokens == 0) return {};
    const AttentionMethod& wanted = methods[method];
    if (!has_budget(wanted.decode))
        return make_error(ErrorCode::invalid_argument,
                          "budget_tokens with method " + wanted.name + ", which has no budget; it must be left out");
    const int64_t least = row_of(wanted.decode.method).budget_tokens_min, most = std::max(budget_tokens_max, least);
    if (budget_tokens == wanted.decode.budget_tokens) return {};
    if (budget_tokens >= least && budget_tokens <= most) return {};
    return make_error(ErrorCode::out_of_range, "budget_tokens is " + std::to_string(budget_tokens) + ", must be " +
                                                   std::to_string(least) + " to " + std::to_string(most) +
                                                   " here with method " + wanted.name);
}

std::string method_space(const AttentionMethod& method, const HeadPatterns& patterns,
                         const PipelineSettings& pipeline) {
    if (method.is_dense()) return {};
    Settings settings;
    settings.pipeline = pipeline;
    settings.pipeline.prefill.attention = method.prefill;
    settings.pipeline.decode.attention = method.decode;
    settings.pipeline.rounds = method.rounds;
    settings.pipeline.prefill.attention.patterns_file.clear();  // wherever it lies
    std::string values = std::to_string(patterns.checksum()) + '\n' +
                         setting_values(settings, "pipeline.prefill.attention.") +
                         setting_values(settings, "pipeline.decode.attention.");
    if (method.chooses_rounds()) values += setting_values(settings, "pipeline.rounds.");
    std::array<char, 20> digest{};
    std::snprintf(digest.data(), digest.size(), "%016llx",
                  static_cast<unsigned long long>(checksum_of(std::as_bytes(std::span(values)))));
    return method.name + '\n' + digest.data();
}

}  // namespace rondo
