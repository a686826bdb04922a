#include "cli/measure/eval/methods_page.hpp"

#include <algorithm>
#include <set>

#include "cli/measure/eval/faults.hpp"
#include "cli/measure/eval/markdown_table.hpp"
#include "cli/measure/eval/wrapped_markdown.hpp"
#include "config/method_names.hpp"

namespace rondo::cli::eval {

namespace {

/// Figures that any row of the table has.
std::vector<size_t> figures_in(const EvalTable& table) {
    std::vector<size_t> out;
    for (size_t i = 0; i < metrics.size(); ++i) {
        if (std::ranges::any_of(table.rows, [&](const EvalTable::Row& row) { return row.all.figures[i].has_value(); }))
            out.push_back(i);
    }
    return out;
}

/// Rates by place, intervals over all of them.
std::vector<TableLine> rates_of(const EvalTable& table) {
    const std::vector<size_t> figures = figures_in(table);
    TableLine heading = {"method", "B"};
    for (const EvalTable::Column& column : table.columns) heading.push_back(column.name);
    heading.insert(heading.end(), {"all [95%]", "less dense [95%]"});
    for (const size_t i : figures) heading.emplace_back(metrics[i].heading);
    std::vector<TableLine> lines = {heading};
    for (const EvalTable::Row& row : table.rows) {
        TableLine line = {row.method, row.budget.empty() ? "–" : row.budget};
        for (const Cell& cell : row.cells) line.push_back(cell.answers > 0 ? number(cell.exact_rate, 3) : "–");
        line.push_back(number(row.all.exact_rate, 3) + interval_text(row.all.exact_interval, 3));
        line.push_back(row.method == dense_name
                           ? "–"
                           : signed_number(row.all.difference) + signed_interval(row.all.difference_interval));
        for (const size_t i : figures) {
            const auto& figure = row.all.figures[i];
            line.push_back(figure ? number(*figure * metrics[i].scale, metrics[i].decimals) : "–");
        }
        lines.push_back(line);
    }
    return lines;
}

/// Every row beside the rival with the same budget, place by place. Empty where there is none.
std::vector<TableLine> leads_of(const EvalTable& table) {
    TableLine heading = {"less " + table.rival, "B"};
    for (const EvalTable::Column& column : table.columns) heading.push_back(column.name);
    heading.emplace_back("all");
    std::vector<TableLine> lines = {heading};
    for (const EvalTable::Row& row : table.rows) {
        if (row.all.rival_pairs == 0) continue;
        TableLine line = {row.method, row.budget};
        for (const Cell& cell : row.cells)
            line.push_back(signed_number(cell.lead) + signed_interval(cell.lead_interval));
        line.push_back(signed_number(row.all.lead) + signed_interval(row.all.lead_interval));
        lines.push_back(line);
    }
    if (lines.size() == 1) lines.clear();
    return lines;
}

/// What the intervals say, in words: where a row is told apart from the rival and where not.
std::string words_of(const EvalTable& table) {
    std::string text;
    for (const EvalTable::Row& row : table.rows) {
        if (row.all.rival_pairs == 0) continue;
        std::string above, below, neither;
        for (size_t i = 0; i < row.cells.size(); ++i) {
            const Interval& lead = row.cells[i].lead_interval;
            std::string& where = lead.low > 0.0 ? above : lead.high < 0.0 ? below : neither;
            where += (where.empty() ? "" : ", ") + table.columns[i].name;
        }
        text += "- " + row.method + (row.budget.empty() ? "" : " at " + row.budget) + ":";
        if (!below.empty()) text += " below " + table.rival + " at the " + below + ";";
        if (!above.empty()) text += " above it at the " + above + ";";
        if (!neither.empty()) text += " not told apart at the " + neither + ";";
        text.back() = '.';
        text += '\n';
    }
    return text;
}

std::string deviations_of(const std::vector<PageAnswers>& answers) {
    std::set<std::string> told;
    std::string text;
    for (const PageAnswers& section : answers) {
        for (const EvalRecord& record : section.records) {
            const std::string method = record.method.substr(0, record.method.find_first_of("@:"));
            const MethodRow* const row = find_row(method);
            if (row == nullptr || row->differs.empty() || !told.insert(method).second) continue;
            text += "- " + method + ": " + std::string(row->differs) + ".\n";
        }
    }
    return text;
}

std::string seeds_of_records(const std::vector<PageAnswers>& answers) {
    std::set<uint64_t> seeds;
    for (const PageAnswers& section : answers) {
        for (const EvalRecord& record : section.records) seeds.insert(record.dialogue);
    }
    return std::to_string(seeds.size()) + " dialogues a place, seeds " + std::to_string(*seeds.begin()) + " to " +
           std::to_string(*seeds.rbegin());
}

}  // namespace

std::vector<std::string_view> methods_beside(std::span<const PageSection> sections) {
    std::vector<std::string_view> beside;
    for (const std::string_view method : names_of_methods(MethodSlot::any)) {
        const auto compares = [method](const PageSection& section) {
            const std::string list = ',' + section.methods + ',';
            return std::ranges::any_of(std::string_view(",@:"), [&](char end) {
                return list.find(',' + std::string(method) + end) != std::string::npos;
            });
        };
        if (std::ranges::none_of(sections, compares)) beside.push_back(method);
    }
    return beside;
}

std::string methods_page(const EvalFacts& facts, const std::vector<PageAnswers>& answers) {
    std::string text = "# What methods keep of a model's answers\n\n";
    text +=
        "`" + facts.flags + "` prints this page. Model: " + facts.model + "; " + facts.suite +
        ", recall of a fact of an earlier round; " + seeds_of_records(answers) + ". " + facts.preamble + "\n\n" +
        "A number is the share of last answers that are right to the token, history teacher-forced. Intervals are 95% "
        "bootstrap intervals over whole dialogues (" +
        std::to_string(bootstrap_resamples) +
        " resamples); differences are paired, dialogue by dialogue. `chosen mass` is the attention that the chosen "
        "keys hold, `mass` counts the cold first steps too, which attend to everything; `KV KiB` is the conversation's "
        "KV at the end, `read KiB` what a step of the answer reads of it, choosing included. NAME@printed is the "
        "method as its authors print it, NAME@pooled has its scores pooled over the 7 keys that end at each key, "
        "NAME@preset is what a pipeline file has without further settings.\n";
    for (size_t i = 0; i < answers.size(); ++i) {
        const PageSection& section = page_sections()[i];
        text += "\n## " + section.title + "\n\n" + section.text + "\n";
        for (const EvalTable& table : answers[i].tables) {
            if (table.title.find("question place") == std::string::npos) continue;
            text += '\n' + table_text(rates_of(table));
            if (const auto leads = leads_of(table); !leads.empty())
                text += '\n' + table_text(leads) + '\n' + words_of(table);
        }
        for (const std::string& fault : find_faults(answers[i].records, answers[i].tables))
            text += "\n**Fault:** " + fault + ".\n";
    }
    text += "\n## Where a method here differs from its authors' code\n\n" + deviations_of(answers);
    return wrapped_markdown(text);
}

}  // namespace rondo::cli::eval
