#pragma once

#include <span>

#include "config/result.hpp"
#include "model/stepper.hpp"

namespace rondo {

/// The stepper has completed a prompt, and an answer follows: its first choice of keys begins if that is due.
Status begin_answer(Stepper& stepper, const Stepper::Row& row);

/// A step of sequences whose choices of keys nobody makes elsewhere, with its logits in the host's memory: what the
/// actors do by messages, done by the caller. Behind the last step of an answer nothing is chosen.
Status step_in_line(Stepper& stepper, std::span<const Stepper::Row> rows, bool is_last = false);

}  // namespace rondo
