#include <algorithm>
#include <set>

#include "cli/measure/eval/markdown_table.hpp"
#include "cli/measure/eval/report.hpp"

namespace rondo::cli::eval {

namespace {

std::string exact_text(const Cell& cell, const EvalTable::Column& column) {
    if (cell.answers == 0) return "-";
    std::string text = number(cell.exact_rate, 3) + interval_text(cell.exact_interval, 3);
    if (cell.answers != column.dense_answers) text += " n=" + std::to_string(cell.answers);
    return column.is_ranked() ? text : text + " n.r.";
}

std::string difference_text(const EvalTable::Row& row, const Cell& cell) {
    if (cell.pairs == 0 || row.method == dense_name) return "-";
    return signed_number(cell.difference) + signed_interval(cell.difference_interval);
}

std::string lead_text(const Cell& cell) {
    if (cell.rival_pairs == 0) return "-";
    return signed_number(cell.lead) + signed_interval(cell.lead_interval);
}

TableLine heading(const EvalTable& table) {
    TableLine line = {"method", "budget"};
    for (const EvalTable::Column& column : table.columns) {
        line.push_back(column.name + " (n=" + std::to_string(column.dense_answers) + ")");
        line.push_back("less dense");
        if (!table.rival.empty()) line.push_back("less " + table.rival);
    }
    for (const Metric& metric : metrics) line.emplace_back(metric.heading);
    return line;
}

TableLine line_of(const EvalTable& table, const EvalTable::Row& row) {
    TableLine line = {row.method, row.budget.empty() ? "-" : row.budget};
    for (size_t i = 0; i < table.columns.size(); ++i) {
        line.push_back(exact_text(row.cells[i], table.columns[i]));
        line.push_back(difference_text(row, row.cells[i]));
        if (!table.rival.empty()) line.push_back(lead_text(row.cells[i]));
    }
    for (size_t i = 0; i < metrics.size(); ++i) {
        const auto& figure = row.all.figures[i];
        line.push_back(figure ? number(*figure * metrics[i].scale, metrics[i].decimals) : "-");
    }
    return line;
}

void add_rankings(std::string& text, const EvalTable& table) {
    for (const Ranking& ranking : rank(table)) {
        text += "- ranked" + (ranking.budget.empty() ? "" : " at " + ranking.budget) + ", " + ranking.column + ": ";
        for (size_t i = 0; i < ranking.entries.size(); ++i) {
            const Ranking::Entry& entry = ranking.entries[i];
            if (i > 0) text += entry.exact_rate < ranking.entries[i - 1].exact_rate ? " > " : " = ";
            text += entry.method + " " + number(entry.exact_rate, 3);
        }
        text += '\n';
    }
    for (const EvalTable::Column& column : table.columns) {
        if (column.is_ranked()) continue;
        text += "- not ranked, " + column.name + ": ";
        text += column.dense_answers > 0 ? "dense is right in " + number(column.dense_rate, 3) : "no answers of dense";
        text += '\n';
    }
}

/// "20 dialogues, seeds 1 to 18, 40, 41"
std::string dialogues_text(std::span<const EvalRecord> records) {
    std::set<uint64_t> seeds;
    for (const EvalRecord& record : records) seeds.insert(record.dialogue);
    std::string text;
    for (auto seed = seeds.begin(); seed != seeds.end();) {
        const uint64_t first = *seed;
        uint64_t last = first;
        while (++seed != seeds.end() && *seed == last + 1) ++last;
        text += (text.empty() ? "" : ", ") + std::to_string(first);
        if (last > first) text += (last == first + 1 ? ", " : " to ") + std::to_string(last);
    }
    return std::to_string(seeds.size()) + " dialogues, seeds " + text;
}

}  // namespace

std::string to_markdown(const EvalFacts& facts, std::span<const EvalRecord> records,
                        const std::vector<EvalTable>& tables) {
    std::string text = "# " + facts.suite + ": " + facts.model + "\n\n";
    if (records.empty()) return text + "No answers.\n";
    text += std::to_string(records.size()) + " answers, " + dialogues_text(records) + "; `" + facts.flags + "`\n\n";
    text += "Exact match [95% interval: " + std::to_string(bootstrap_resamples) +
            " bootstrap resamples of whole dialogues, seed " + std::to_string(bootstrap_seed) +
            "]. \"less dense\" is over the answers that both gave, paired. n counts dense's answers, and stands in a "
            "cell that has another number. Figures on the right are means over the row's answers. Tokens of an answer "
            "before its method's first choice attend to everything and count as mass 1 and density 1: both are higher "
            "than the choices' own for a method that begins cold (cold_tokens), beside one that gives up keys at once. "
            "n.r.: not ranked, "
            "because dense is right in less than " +
            number(100.0 * dense_rate_min, 0) + "%.\n";
    for (size_t i = 0; i < tables.size(); ++i) {
        if (i == 0 || tables[i].history != tables[i - 1].history) {
            const bool is_forced = tables[i].history == History::teacher_forced;
            text += is_forced ? "\n## History of the dialogue's own answers (teacher-forced)\n"
                              : "\n## History of the method's own answers (free-running)\n";
        }
        text += "\n### " + tables[i].title + "\n\n";
        std::vector<TableLine> lines = {heading(tables[i])};
        for (const EvalTable::Row& row : tables[i].rows) lines.push_back(line_of(tables[i], row));
        text += table_text(lines);
        text += '\n';
        add_rankings(text, tables[i]);
    }
    return text;
}

}  // namespace rondo::cli::eval
