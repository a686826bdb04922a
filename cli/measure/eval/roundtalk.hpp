#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"

namespace rondo::cli::eval {

/// What a round asks for: a fact of an earlier round, a fact of this message, several facts, the last answer again,
/// something never told; or it only chats or tells.
enum class Task { recall, local, list, again, unknown, chat, tell };
inline constexpr std::array<std::string_view, 7> task_names = {"recall",  "local", "list", "again",
                                                               "unknown", "chat",  "tell"};

/// Where in its message the question stands.
enum class Place { begin, middle, end };
inline constexpr std::array<std::string_view, 3> place_names = {"begin", "middle", "end"};

/// Stands for no task in particular: the mix that the model was trained on.
inline constexpr std::string_view mix_name = "mix";

std::string_view to_string(Task task);
std::string_view to_string(Place place);
Result<Task> parse_task(std::string_view name);
/// A task's name, or nothing for "mix".
Result<std::optional<Task>> parse_asked(std::string_view name);
Result<Place> parse_place(std::string_view name);

struct CountRange {
    int low = 0, high = 0;  ///< both included
};

/// As the trainer's: what is not pinned is drawn for each round.
struct DialogueOptions {
    static constexpr int rounds_max = 1000, facts_max = 16, filler_max = 64;

    int rounds = 10;
    CountRange facts_per_round = {1, 4};
    CountRange filler = {0, 4};    ///< sentences beside the point
    std::vector<Task> tasks = {};  ///< each round's is one of these; empty: the mix the model was trained on
    std::optional<Place> place = {};
};

/// Where something stands that an answer needs: bytes of a round's message, or of its answer.
struct GoldSpan {
    size_t round = 0, begin = 0, end = 0;
    bool in_answer = false;
};

struct DialogueRound {
    std::string user, answer;
    Task task = Task::tell;
    Place place = Place::end;
    std::vector<size_t> evidence;  ///< the rounds that hold it, ascending
    /// The sentences that tell the facts of the answer, in its order; of a corrected fact the latest.
    std::vector<GoldSpan> gold;
};

/// Rounds from the oldest evidence to the question of round `current`; nothing when it needs none.
std::optional<size_t> lag_of(const DialogueRound& round, size_t current);

/// The dialogue that tools/demo_model/roundtalk.py makes of the same seed and options, byte for byte.
Result<std::vector<DialogueRound>> make_dialogue(uint64_t seed, const DialogueOptions& options);

}  // namespace rondo::cli::eval
