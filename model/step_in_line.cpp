#include "model/step_in_line.hpp"

namespace rondo {

Status begin_answer(Stepper& stepper, const Stepper::Row& row) {
    if (row.attention == nullptr) return Status::ok();
    row.attention->after_prefill(stepper.device(), *row.kv);
    return row.attention->work_now();
}

Status step_in_line(Stepper& stepper, std::span<const Stepper::Row> rows, bool is_last) {
    for (const Stepper::Row& row : rows) {
        if (row.attention == nullptr) continue;
        if (row.attention->due()) RONDO_TRY(row.attention->work_now());
        row.attention->before_step(*row.kv);
    }
    RONDO_TRY(stepper.decode(rows));
    RONDO_TRY(stepper.reach_logits());
    for (const Stepper::Row& row : rows) {
        if (row.attention == nullptr) continue;
        if (is_last) {
            row.attention->after_last_step(*row.kv);
            continue;
        }
        row.attention->after_step(*row.kv);
        RONDO_TRY(row.attention->work_now());
    }
    return Status::ok();
}

}  // namespace rondo
