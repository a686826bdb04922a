#include "cli/measure/eval/eval_tables.hpp"

#include <algorithm>

namespace rondo::cli::eval {

namespace {

using Records = std::vector<const EvalRecord*>;

template <class Condition>
Records select(const Records& records, Condition condition) {
    Records out;
    std::ranges::copy_if(records, std::back_inserter(out), condition);
    return out;
}

Records select(const Records& records, const Slice& slice) {
    return select(records, [&](const EvalRecord* record) { return slice.holds(*record); });
}

/// One seed makes a dialogue of its own for each wanted task and each place. The task that was asked in the end cannot
/// tell them apart, since two dialogues may end with the same task.
size_t variant_of(const EvalRecord& record) {
    const size_t asked = record.asked ? static_cast<size_t>(*record.asked) : task_names.size();
    return asked * place_names.size() + static_cast<size_t>(record.place);
}

std::vector<Observation> exactness(const Records& records) {
    std::vector<Observation> out;
    for (const EvalRecord* record : records) {
        out.push_back({record->dialogue, record->round, record->exact ? 1.0 : 0.0, variant_of(*record)});
    }
    return out;
}

std::optional<double> mean_of(const Records& records, const Metric& metric) {
    double sum = 0.0, count = 0.0;
    for (const EvalRecord* record : records) {
        if (const auto& value = record->*metric.value) {
            sum += *value;
            count += 1.0;
        }
    }
    if (count == 0.0) return std::nullopt;
    return sum / count;
}

Cell make_cell(const Records& records, const Records& dense, const Records& rival) {
    Cell cell;
    const std::vector<Observation> exact = exactness(records);
    cell.answers = exact.size();
    cell.exact_rate = mean(exact);
    cell.exact_interval = mean_interval(exact, bootstrap_seed);
    const std::vector<Observation> paired = differences(exact, exactness(dense));
    cell.pairs = paired.size();
    cell.difference = mean(paired);
    cell.difference_interval = mean_interval(paired, bootstrap_seed);
    const std::vector<Observation> leads = differences(exact, exactness(rival));
    cell.rival_pairs = leads.size();
    cell.lead = mean(leads);
    cell.lead_interval = mean_interval(leads, bootstrap_seed);
    for (size_t i = 0; i < metrics.size(); ++i) cell.figures[i] = mean_of(records, metrics[i]);
    return cell;
}

/// The slices of which there are answers, with dense's rate in each.
std::vector<EvalTable::Column> filled(std::vector<EvalTable::Column> columns, const Records& records,
                                      const Records& dense) {
    std::erase_if(columns, [&](const EvalTable::Column& column) {
        return std::ranges::none_of(records, [&](const EvalRecord* record) { return column.slice.holds(*record); });
    });
    for (EvalTable::Column& column : columns) {
        const std::vector<Observation> exact = exactness(select(dense, column.slice));
        column.dense_answers = exact.size();
        column.dense_rate = mean(exact);
    }
    return columns;
}

std::vector<EvalTable::Column> by_place(std::optional<Task> task) {
    std::vector<EvalTable::Column> columns;
    for (const Place place : {Place::begin, Place::middle, Place::end}) {
        columns.push_back({std::string(to_string(place)), {task, place, {}}, 0, 0.0});
    }
    return columns;
}

std::vector<EvalTable::Column> by_lag(std::optional<Task> task) {
    std::vector<EvalTable::Column> columns = {{"lag 0", {task, {}, LagRange{0, 0}}, 0, 0.0},
                                              {"lag 1", {task, {}, LagRange{1, 1}}, 0, 0.0}};
    for (size_t low = 2; low <= DialogueOptions::rounds_max; low *= 2) {
        const size_t high = 2 * low - 1;
        const std::string name = "lag " + std::to_string(low) + "-" + std::to_string(high);
        columns.push_back({name, {task, {}, LagRange{low, high}}, 0, 0.0});
    }
    return columns;
}

std::vector<EvalTable::Column> by_task() {
    std::vector<EvalTable::Column> columns;
    for (size_t i = 0; i < task_names.size(); ++i) {
        columns.push_back({std::string(task_names[i]), {static_cast<Task>(i), {}, {}}, 0, 0.0});
    }
    return columns;
}

/// Makes the tables of one history mode.
class Tabulator {
public:
    Tabulator(History history, Records records, std::string rival)
        : history_(history),
          rival_(std::move(rival)),
          records_(std::move(records)),
          dense_(select(records_, [](const EvalRecord* record) { return record->method == dense_name; })) {}

    void add(const std::string& title, const Slice& scope, std::vector<EvalTable::Column> columns,
             std::vector<EvalTable>& tables) const {
        const Records records = select(records_, scope), dense = select(dense_, scope);
        EvalTable table{history_, rival_, title, filled(std::move(columns), records, dense), {}};
        if (table.columns.empty()) return;
        for (const EvalRecord* first : records) {
            const bool is_known = std::ranges::any_of(table.rows, [&](const EvalTable::Row& row) {
                return row.method == first->method && row.budget == first->budget;
            });
            if (!is_known) table.rows.push_back({first->method, first->budget, {}, {}});
        }
        for (EvalTable::Row& row : table.rows) {
            const Records own = select(records, [&](const EvalRecord* record) {
                return record->method == row.method && record->budget == row.budget;
            });
            const Records rival = select(records, [&](const EvalRecord* record) {
                return record->method == rival_ && row.method != rival_ && record->budget == row.budget;
            });
            row.all = make_cell(own, dense, rival);
            for (const EvalTable::Column& column : table.columns) {
                row.cells.push_back(
                    make_cell(select(own, column.slice), select(dense, column.slice), select(rival, column.slice)));
            }
        }
        tables.push_back(std::move(table));
    }

    void add_all(std::vector<EvalTable>& tables) const {
        const std::vector<EvalTable::Column> tasks = filled(by_task(), records_, dense_);
        if (tasks.size() > 1) {
            add_places_and_lags("all tasks", {}, tables);
            add("by task", {}, tasks, tables);
        }
        for (const EvalTable::Column& task : tasks) add_places_and_lags(task.name, task.slice.task, tables);
    }

private:
    void add_places_and_lags(const std::string& what, std::optional<Task> task, std::vector<EvalTable>& tables) const {
        add(what + ", by question place", {task, {}, {}}, by_place(task), tables);
        add(what + ", by lag in rounds", {task, {}, LagRange{}}, by_lag(task), tables);
    }

    History history_;
    std::string rival_;
    Records records_, dense_;
};

}  // namespace

bool Slice::holds(const EvalRecord& record) const {
    if (task && record.task != *task) return false;
    if (place && record.place != *place) return false;
    if (!lag) return true;
    return record.lag && *record.lag >= lag->low && *record.lag <= lag->high;
}

std::vector<EvalTable> tabulate(std::span<const EvalRecord> records, const std::string& rival) {
    std::vector<EvalTable> tables;
    for (const History history : {History::teacher_forced, History::free_running}) {
        Records own;
        for (const EvalRecord& record : records) {
            if (record.history == history) own.push_back(&record);
        }
        Tabulator(history, std::move(own), rival).add_all(tables);
    }
    return tables;
}

std::vector<Ranking> rank(const EvalTable& table) {
    std::vector<std::string> budgets;
    for (const EvalTable::Row& row : table.rows) {
        if (std::ranges::find(budgets, row.budget) == budgets.end()) budgets.push_back(row.budget);
    }
    std::vector<Ranking> rankings;
    for (const std::string& budget : budgets) {
        for (size_t i = 0; i < table.columns.size(); ++i) {
            if (!table.columns[i].is_ranked()) continue;
            Ranking ranking{budget, table.columns[i].name, {}};
            for (const EvalTable::Row& row : table.rows) {
                const bool competes = row.budget == budget && row.method != dense_name && row.cells[i].answers > 0;
                if (competes) ranking.entries.push_back({row.method, row.cells[i].exact_rate});
            }
            std::ranges::stable_sort(ranking.entries, std::ranges::greater{}, &Ranking::Entry::exact_rate);
            if (ranking.entries.size() > 1) rankings.push_back(std::move(ranking));
        }
    }
    return rankings;
}

}  // namespace rondo::cli::eval
