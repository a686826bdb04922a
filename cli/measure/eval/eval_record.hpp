#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "cli/measure/eval/roundtalk.hpp"

namespace rondo::cli::eval {

/// Whose answers stand in the history of a question: the dialogue's own, or those the method gave.
enum class History { teacher_forced, free_running };
inline constexpr std::array<std::string_view, 2> history_names = {"teacher_forced", "free_running"};

/// One answer of one method. Figures that a method or a history mode does not have stay empty.
struct EvalRecord {
    std::string method;
    std::string budget;  ///< "20%"; empty for a method without one
    History history = History::teacher_forced;
    uint64_t dialogue = 0;  ///< its seed
    size_t round = 0;
    std::optional<Task> asked;  ///< what the dialogue was to ask; none: the mix
    Task task = Task::recall;   ///< what it does ask: a first round can recall nothing, and "unknown" may meet a fact
    Place place = Place::end;
    std::optional<size_t> lag;  ///< rounds back to the oldest evidence
    bool exact = false;

    std::optional<double> mass_mean, mass_p5;  ///< share of dense's attention that the answer's steps attended to
    std::optional<double> mass_chosen;         ///< of the steps alone that a choice served
    std::optional<double> kl_to_dense;         ///< nats, mean over the answer's tokens
    std::optional<double> top1_agreement;      ///< share of the answer's tokens
    std::optional<double> density;             ///< keys attended / keys there were, of the answer's tokens
    std::optional<double> prompt_density;      ///< entries attended / causal entries, of the prompt
    std::optional<double> line_overlap;        ///< share of lines at earlier keys that the round before had too
    std::optional<double> prompt_mass;         ///< share of the sampled rows' attention that the lines hold
    std::optional<double> unsampled_mass;      ///< the same of the other rows
    std::optional<double> evidence_mass;       ///< the same of the question's rows to the evidence
    std::optional<double> round_mass;          ///< share of the attention to earlier rounds that chosen ones drew
    std::optional<double> bytes_resident;      ///< of the conversation's KV, on the device, at the answer's end
    std::optional<double> bytes_read;          ///< of KV, by a step of the answer: attended to, or looked at to choose
};

/// A figure that a report averages over answers; `scale` takes it to the unit of its heading.
struct Metric {
    const char* name;
    const char* heading;
    std::optional<double> EvalRecord::*value;
    double scale;
    int decimals;
};
inline constexpr std::array<Metric, 14> metrics = {{
    {"mass_mean", "mass", &EvalRecord::mass_mean, 1.0, 3},
    {"mass_chosen", "chosen mass", &EvalRecord::mass_chosen, 1.0, 3},
    {"mass_p5", "mass p5", &EvalRecord::mass_p5, 1.0, 3},
    {"kl_to_dense", "KL", &EvalRecord::kl_to_dense, 1.0, 4},
    {"top1_agreement", "top-1", &EvalRecord::top1_agreement, 1.0, 3},
    {"density", "density", &EvalRecord::density, 1.0, 3},
    {"prompt_density", "prompt density", &EvalRecord::prompt_density, 1.0, 3},
    {"line_overlap", "lines again", &EvalRecord::line_overlap, 1.0, 3},
    {"prompt_mass", "sampled rows' mass", &EvalRecord::prompt_mass, 1.0, 3},
    {"unsampled_mass", "others'", &EvalRecord::unsampled_mass, 1.0, 3},
    {"evidence_mass", "evidence's", &EvalRecord::evidence_mass, 1.0, 3},
    {"round_mass", "rounds' mass", &EvalRecord::round_mass, 1.0, 3},
    {"bytes_resident", "KV KiB", &EvalRecord::bytes_resident, 1.0 / 1024.0, 1},
    {"bytes_read", "read KiB", &EvalRecord::bytes_read, 1.0 / 1024.0, 1},
}};

}  // namespace rondo::cli::eval
