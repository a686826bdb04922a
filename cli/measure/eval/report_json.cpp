#include <set>

#include "cli/measure/eval/report.hpp"

namespace rondo::cli::eval {

using nlohmann::ordered_json;

namespace {

ordered_json pair_of(const Interval& interval) {
    return {interval.low, interval.high};
}

ordered_json value_or_null(const auto& optional) {
    return optional ? ordered_json(*optional) : ordered_json(nullptr);
}

std::string_view history_name(History history) {
    return history_names[static_cast<size_t>(history)];
}

ordered_json figures_of(const Cell& cell) {
    ordered_json out = {{"answers", cell.answers}, {"exact_match", nullptr}};
    if (cell.answers > 0) {
        out["exact_match"] = cell.exact_rate;
        out["exact_match_interval"] = pair_of(cell.exact_interval);
    }
    out["pairs"] = cell.pairs;
    if (cell.pairs > 0) {
        out["less_dense"] = cell.difference;
        out["less_dense_interval"] = pair_of(cell.difference_interval);
    }
    if (cell.rival_pairs > 0) {
        out["less_rival"] = cell.lead;
        out["less_rival_interval"] = pair_of(cell.lead_interval);
    }
    for (size_t i = 0; i < metrics.size(); ++i) out[metrics[i].name] = value_or_null(cell.figures[i]);
    return out;
}

ordered_json table_of(const EvalTable& table) {
    ordered_json out = {{"history", history_name(table.history)}, {"rival", table.rival}, {"title", table.title}};
    ordered_json rows = ordered_json::array();
    for (const EvalTable::Row& row : table.rows) {
        ordered_json cells = ordered_json::array();
        for (size_t i = 0; i < table.columns.size(); ++i) {
            ordered_json cell = {{"column", table.columns[i].name}, {"ranked", table.columns[i].is_ranked()}};
            cell.update(figures_of(row.cells[i]));
            cells.push_back(std::move(cell));
        }
        rows.push_back(
            {{"method", row.method}, {"budget", row.budget}, {"all", figures_of(row.all)}, {"cells", cells}});
    }
    out["rows"] = std::move(rows);
    out["rankings"] = ordered_json::array();
    for (const Ranking& ranking : rank(table)) {
        ordered_json order = ordered_json::array();
        for (const Ranking::Entry& entry : ranking.entries) {
            order.push_back({{"method", entry.method}, {"exact_match", entry.exact_rate}});
        }
        out["rankings"].push_back({{"budget", ranking.budget}, {"column", ranking.column}, {"order", order}});
    }
    return out;
}

ordered_json answer_of(const EvalRecord& record) {
    ordered_json out = {{"method", record.method},
                        {"budget", record.budget},
                        {"history", history_name(record.history)},
                        {"dialogue", record.dialogue},
                        {"round", record.round},
                        {"asked", record.asked ? to_string(*record.asked) : mix_name},
                        {"task", to_string(record.task)},
                        {"place", to_string(record.place)},
                        {"lag", value_or_null(record.lag)},
                        {"exact", record.exact}};
    for (const Metric& metric : metrics) out[metric.name] = value_or_null(record.*metric.value);
    return out;
}

}  // namespace

ordered_json to_json(const EvalFacts& facts, std::span<const EvalRecord> records,
                     const std::vector<EvalTable>& tables) {
    std::set<uint64_t> seeds;
    for (const EvalRecord& record : records) seeds.insert(record.dialogue);
    ordered_json out = {{"eval", facts.suite},
                        {"model", facts.model},
                        {"flags", facts.flags},
                        {"settings", facts.settings},
                        {"dialogue_seeds", seeds},
                        {"bootstrap", {{"resamples", bootstrap_resamples}, {"seed", bootstrap_seed}, {"level", 0.95}}},
                        {"ranked_where_dense_reaches", dense_rate_min},
                        {"tables", ordered_json::array()},
                        {"answers", ordered_json::array()}};
    for (const EvalTable& table : tables) out["tables"].push_back(table_of(table));
    for (const EvalRecord& record : records) out["answers"].push_back(answer_of(record));
    return out;
}

}  // namespace rondo::cli::eval
