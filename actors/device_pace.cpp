#include "actors/device_pace.hpp"

#include <algorithm>
#include <cmath>

namespace rondo {

namespace {

/// What a unit of work takes. A longer time is believed at once, and a shorter one slowly, so that a piece seldom holds
/// others up for longer than it may.
void learn(double& seconds, double measured) {
    seconds = std::max(measured, (7 * seconds + measured) / 8);
}

}  // namespace

int DevicePace::begin_chunk(int64_t rows, double budget_seconds, int layers_left) {
    const double per_layer = seconds_per_row_layer_ * static_cast<double>(rows);
    const double fit = per_layer > 0.0 ? budget_seconds / per_layer : 1.0;
    const int layers = static_cast<int>(std::clamp(fit, 1.0, static_cast<double>(std::max(layers_left, 1))));
    row_layers_ = layers * rows;
    return layers;
}

void DevicePace::end_chunk(double seconds) {
    if (row_layers_ > 0) learn(seconds_per_row_layer_, seconds / static_cast<double>(row_layers_));
}

int DevicePace::begin_choice(int64_t keys, int layers_left, uint64_t due_step) {
    const double per_layer = seconds_per_key_layer_ * static_cast<double>(keys);
    const double in_a_step = per_layer > 0.0 ? step_seconds_ / per_layer : 4.0;
    const auto left = static_cast<double>(layers_left);
    // The last piece scores nothing, it puts together what was chosen.
    const uint64_t steps_left = due_step > step_number_ + 1 ? due_step - step_number_ - 1 : 1;
    const double in_time = std::ceil(left / static_cast<double>(steps_left));
    const int layers = static_cast<int>(std::min(std::max(std::clamp(in_time, in_a_step / 4, in_a_step), 1.0), left));
    key_layers_ = layers * keys;
    return layers;
}

void DevicePace::end_choice(double seconds) {
    if (key_layers_ > 0) learn(seconds_per_key_layer_, seconds / static_cast<double>(key_layers_));
}

}  // namespace rondo
