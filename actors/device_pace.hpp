#pragma once

#include <cstdint>

namespace rondo {

/// How large the pieces are that a device is given, so that decode steps wait behind one for about as long as they may.
/// What the pieces before took is the measure. Layers of a chunk count by its rows, those of a choice by its keys. For
/// one device, which has one piece at a time.
class DevicePace {
public:
    /// Layers of a chunk that fit into so much time; at least one, and no more than are left. The piece is under way.
    int begin_chunk(int64_t rows, double budget_seconds, int layers_left);
    /// It is done; nothing is learned from a chunk that was dropped.
    void end_chunk(double seconds);
    void drop_chunk() { row_layers_ = 0; }

    void end_step(uint64_t number, double seconds) {
        step_number_ = number;
        step_seconds_ = seconds;
    }

    /// Layers of a choice of keys, for which the step of number `due_step` waits. Other steps wait for a piece about a
    /// quarter of their own time, or as long as they take if the choice would be late else.
    int begin_choice(int64_t keys, int layers_left, uint64_t due_step);
    void end_choice(double seconds);

private:
    double seconds_per_row_layer_ = 0.0;  // of chunks
    double seconds_per_key_layer_ = 0.0;  // of choices
    double step_seconds_ = 0.0;           // of the last decode step
    uint64_t step_number_ = 0;            // likewise
    int64_t row_layers_ = 0;              // of the chunk's piece under way
    int64_t key_layers_ = 0;              // of the choice's
};

}  // namespace rondo
