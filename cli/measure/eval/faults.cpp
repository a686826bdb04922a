#include "cli/measure/eval/faults.hpp"

#include <cstdio>
#include <map>
#include <set>
#include <tuple>

namespace rondo::cli::eval {

namespace {

std::string named(const std::string& method, const std::string& budget) {
    return method + (budget.empty() ? "" : " at " + budget);
}

std::string figure(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3f", value);
    return text;
}

void find_repeats(std::span<const EvalRecord> records, std::vector<std::string>& faults) {
    using Key = std::tuple<std::string, std::string, History, uint64_t, size_t, std::optional<Task>, Place>;
    std::set<Key> seen;
    std::set<std::string> told;
    for (const EvalRecord& record : records) {
        const bool is_new = seen.insert({record.method, record.budget, record.history, record.dialogue, record.round,
                                         record.asked, record.place})
                                .second;
        if (is_new || !told.insert(named(record.method, record.budget)).second) continue;
        faults.push_back(named(record.method, record.budget) + ": dialogue " + std::to_string(record.dialogue) +
                         " counts twice");
    }
}

/// What all answers of one method and budget have in common.
struct Claims {
    size_t answers = 0, as_dense = 0;  // of them, how many have dense's logits to the bit
    double density = 0.0;
    bool has_budget = false;
};

void find_false_densities(std::span<const EvalRecord> records, std::vector<std::string>& faults) {
    std::map<std::string, Claims> methods;
    for (const EvalRecord& record : records) {
        if (record.method == dense_name || !record.density || !record.kl_to_dense) continue;
        Claims& claims = methods[named(record.method, record.budget)];
        ++claims.answers;
        claims.as_dense += *record.kl_to_dense == 0.0 ? 1 : 0;
        claims.density += *record.density * record.prompt_density.value_or(1.0);
        claims.has_budget = !record.budget.empty();
    }
    for (const auto& [name, claims] : methods) {
        const double density = claims.density / static_cast<double>(claims.answers);
        if (claims.has_budget && density > 0.999)
            faults.push_back(name + ": attends to everything, so it is dense and no comparison");
        if (density < 0.95 && claims.as_dense == claims.answers)
            faults.push_back(name + ": gives dense's logits to the bit at a density of " + figure(density));
    }
}

}  // namespace

std::vector<std::string> find_faults(std::span<const EvalRecord> records, std::span<const EvalTable> tables) {
    std::vector<std::string> faults;
    find_repeats(records, faults);
    find_false_densities(records, faults);
    std::set<std::string> told;
    for (const EvalTable& table : tables) {
        for (const EvalTable::Row& row : table.rows) {
            // The oracle is told where the evidence stands.
            if (row.method == "oracle" || row.all.pairs == 0 || row.all.difference_interval.low <= 0.0) continue;
            if (!told.insert(named(row.method, row.budget)).second) continue;
            faults.push_back(named(row.method, row.budget) + ": right more often than dense, by " +
                             figure(row.all.difference) + "; does it see the answer?");
        }
    }
    return faults;
}

}  // namespace rondo::cli::eval
