#include "model/step_in_line.hpp"

namespace rondo {

Status begin_answer(const Stepper::Row& row) {
    if (row.choice == nullptr) return Status::ok();
    row.choice->after_prefill(*row.kv);
    return row.choice->work_now(*row.kv);
}

Status step_in_line(Stepper& stepper, std::span<const Stepper::Row> rows) {
    for (const Stepper::Row& row : rows) {
        if (row.choice == nullptr) continue;
        if (row.choice->due()) RONDO_TRY(row.choice->work_now(*row.kv));
        row.choice->before_step(*row.kv);
    }
    RONDO_TRY(stepper.decode(rows));
    RONDO_TRY(stepper.device().drain(StreamId::compute));
    for (const Stepper::Row& row : rows) {
        if (row.choice == nullptr) continue;
        RONDO_TRY(row.choice->measure_step(*row.kv));
        row.choice->after_step(*row.kv);
        RONDO_TRY(row.choice->work_now(*row.kv));
    }
    return Status::ok();
}

}  // namespace rondo
