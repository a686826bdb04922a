#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "config/settings.hpp"

namespace rondo {

/// When a method for answers chooses: once behind the prompt, again every `reselect_every` steps, or at every step.
enum class ChoosesWhen { once, again, every_step };

/// Keys that an answer's token attends to at the least, whatever the method.
inline constexpr int least_budget_tokens = 8;

/// A method: its name and what is true of it. Its row, in prefill_methods.inc, decode_methods.inc or round_methods.inc,
/// is the one place that says so. The enum of settings, the names in errors and help, the keys and variants of
/// `rondo eval` and the maker (make_NAME, in the method's file) follow from the row. Tests run over all rows: they hold
/// the methods to their claims, and reference.yaml, the READMEs and docs/methods.md to the rows. Lists are words parted
/// by spaces.
struct MethodRow {
    std::string_view name;
    std::string_view keys = {};     ///< of its phase's attention that have an effect, beside budget_tokens
    std::string_view printed = {};  ///< NAME@printed in `rondo eval`, as KEY=VALUE: as its authors print it, or run it
    std::string_view pooled = {};   ///< NAME@pooled: scores pooled over the keys that follow; none: it has no scores
    std::string_view code = {};     ///< its authors' published code, beside which it was read
    std::string_view differs = {};  ///< how its choices differ from that code's

    // What it claims.
    bool scores = false;       ///< it asks for attention weights, of a prompt's rows or of an answer's queries
    bool all_is_dense = true;  ///< a budget, density or alpha of all makes it dense attention
    // Of methods for answers alone.
    ChoosesWhen when = ChoosesWhen::once;
    bool gives_up = false;     ///< keys that are not chosen are given up for good, and their memory with them
    bool ragged = false;       ///< the heads of a layer share its budget out among them
    bool keeps_newest = true;  ///< the newest key is always in
    bool pages = false;        ///< it chooses pages of keys within the step: no DecodeSelection
    int budget_tokens_min = least_budget_tokens;
    bool for_pipelines = true;  ///< settings and requests may name it
};

/// In the order of PrefillAttention::Method.
inline constexpr MethodRow prefill_method_rows[] = {
    {.name = "dense"},
#define RONDO_METHOD(method, ...) {.name = #method, __VA_ARGS__},
#include "config/prefill_methods.inc"
};

/// In the order of DecodeAttention::Method.
inline constexpr MethodRow decode_method_rows[] = {
    {.name = "dense"},
#define RONDO_METHOD(method, ...) {.name = #method, __VA_ARGS__},
#include "config/decode_methods.inc"
};

/// In the order of RoundSettings::Method.
inline constexpr MethodRow round_method_rows[] = {
    {.name = "none"},
#define RONDO_METHOD(method, ...) {.name = #method, __VA_ARGS__},
#include "config/round_methods.inc"
};

inline constexpr std::array<std::span<const MethodRow>, 3> method_rows = {prefill_method_rows, decode_method_rows,
                                                                          round_method_rows};

constexpr const MethodRow& row_of(PrefillAttention::Method method) {
    return prefill_method_rows[static_cast<size_t>(method)];
}
constexpr const MethodRow& row_of(DecodeAttention::Method method) {
    return decode_method_rows[static_cast<size_t>(method)];
}
constexpr const MethodRow& row_of(RoundSettings::Method method) {
    return round_method_rows[static_cast<size_t>(method)];
}

/// Of any phase; nullptr when there is none of that name.
constexpr const MethodRow* find_row(std::string_view name) {
    for (const std::span<const MethodRow> rows : method_rows)
        for (const MethodRow& row : rows)
            if (row.name == name) return &row;
    return nullptr;
}

/// The words of a row's list.
inline std::vector<std::string_view> words_in(std::string_view list) {
    std::vector<std::string_view> words;
    while (!list.empty()) {
        words.push_back(list.substr(0, list.find(' ')));
        list.remove_prefix(std::min(list.size(), words.back().size() + 1));
    }
    return words;
}

/// Whether a key of its phase's attention has an effect on a method.
inline bool heeds(const MethodRow& row, std::string_view key) {
    const std::vector<std::string_view> keys = words_in(row.keys);
    return std::ranges::find(keys, key) != keys.end();
}

}  // namespace rondo
