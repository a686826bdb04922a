#pragma once

#include <limits>
#include <span>
#include <vector>

#include "cli/measure/eval/bootstrap.hpp"
#include "cli/measure/eval/eval_record.hpp"

namespace rondo::cli::eval {

/// Methods are compared only where dense is right this often: below it, a difference may be the model's own failing.
inline constexpr double dense_rate_min = 0.95;
inline constexpr std::string_view dense_name = "dense";
inline constexpr uint64_t bootstrap_seed = 1;

struct LagRange {
    size_t low = 0, high = std::numeric_limits<size_t>::max();  ///< both included
};

/// Which answers count: those that match all that is set.
struct Slice {
    std::optional<Task> task;
    std::optional<Place> place;
    std::optional<LagRange> lag;

    bool holds(const EvalRecord& record) const;
};

/// A method's answers in one slice.
struct Cell {
    size_t answers = 0;
    double exact_rate = 0.0;
    Interval exact_interval;
    size_t pairs = 0;  ///< answers that dense has given too
    double difference = 0.0;
    Interval difference_interval;  ///< of this method's exact rate less dense's
    size_t rival_pairs = 0;        ///< answers that the rival has given too, with the same budget
    double lead = 0.0;
    Interval lead_interval;                                     ///< less the rival's
    std::array<std::optional<double>, metrics.size()> figures;  ///< means over the answers that have them
};

struct EvalTable {
    struct Column {
        std::string name;
        Slice slice;
        size_t dense_answers = 0;
        double dense_rate = 0.0;
        bool is_ranked() const { return dense_answers > 0 && dense_rate >= dense_rate_min; }
    };
    struct Row {
        std::string method, budget;
        Cell all;                 ///< of the table's answers
        std::vector<Cell> cells;  ///< by column
    };

    History history = History::teacher_forced;
    std::string rival;  ///< the method that all others are compared with, beside dense; may be empty
    std::string title;
    std::vector<Column> columns;
    std::vector<Row> rows;  ///< methods and budgets as they first came
};

/// Methods of one budget in one ranked column, best first; dense is what they are measured by and is left out.
struct Ranking {
    struct Entry {
        std::string method;
        double exact_rate = 0.0;
    };
    std::string budget, column;
    std::vector<Entry> entries;
};

/// For each history mode, over all tasks and for each task: by question place and by lag; and by task.
std::vector<EvalTable> tabulate(std::span<const EvalRecord> records, const std::string& rival = "");
/// Where at least two methods can be compared.
std::vector<Ranking> rank(const EvalTable& table);

}  // namespace rondo::cli::eval
