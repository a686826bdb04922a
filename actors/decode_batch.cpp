#include "actors/decode_batch.hpp"

#include <algorithm>
#include <utility>

namespace rondo {

void DecodeBatch::join(const TurnPtr& turn) {
    rows_.push_back({turn, false, false, nullptr, false, {}});
}

DecodeBatch::Rows::iterator DecodeBatch::find(TurnId id) {
    return std::ranges::find_if(rows_, [id](const Row& row) { return row.turn->id == id; });
}

bool DecodeBatch::withdraw(TurnId id) {
    const auto row = find(id);
    if (row == rows_.end()) return false;
    row->withdrawn = true;
    return true;
}

std::vector<TurnId> DecodeBatch::withdrawn() const {
    std::vector<TurnId> ids;
    for (const Row& row : rows_)
        if (row.withdrawn && !row.leaving) ids.push_back(row.turn->id);
    return ids;
}

bool DecodeBatch::can_step() {
    bool any = false;
    for (Row& row : rows_) {
        any = any || row.steps();
        if (row.waits || row.leaving || row.steps()) continue;
        row.waits = true;
        ++row.turn->choices_waited;
    }
    return any;
}

BlockCounts DecodeBatch::set_places_aside() {
    BlockCounts short_of;
    for (Row& row : rows_)
        if (row.steps() && !row.turn->kv.set_aside(1)) short_of += row.turn->kv.blocks_for(1);
    return short_of;
}

bool DecodeBatch::is_leaving() const {
    return std::ranges::any_of(rows_, [](const Row& row) { return row.withdrawn || row.leaving.has_value(); });
}

std::optional<TurnId> DecodeBatch::to_preempt() const {
    if (rows_.empty() || is_leaving()) return std::nullopt;
    const auto victim = std::ranges::min_element(rows_, [](const Row& a, const Row& b) {
        return a.turn->priority != b.turn->priority ? a.turn->priority < b.turn->priority : a.turn->id > b.turn->id;
    });
    return victim->turn->id;
}

uint64_t DecodeBatch::begin_step(std::vector<TurnPtr>& turns) {
    for (auto row = rows_.begin(); row != rows_.end() && turns.size() < rows_max_; ++row) {
        if (!row->steps()) continue;
        turns.push_back(row->turn);
        if (row->turn->step_attention != nullptr) row->turn->step_attention->before_step(row->turn->kv);
    }
    return ++steps_;
}

ChoiceJobPtr DecodeBatch::begin_choice(TurnId id) {
    const auto row = find(id);
    if (row == rows_.end() || row->turn->step_attention == nullptr) return nullptr;
    StepAttention& attention = *row->turn->step_attention;
    std::unique_ptr<Choice> choice = attention.take_begun();
    if (choice == nullptr) return nullptr;
    row->choosing = true;
    const uint64_t due_step = steps_ + static_cast<uint64_t>(attention.steps_left());
    return std::make_shared<ChoiceJob>(ChoiceJob{row->turn->runtime, id, due_step, std::move(choice), {}, 0.0});
}

std::optional<StageReply> DecodeBatch::end_choice(const ChoiceJobPtr& job) {
    const auto row = find(job->turn);
    if (row == rows_.end()) return std::nullopt;
    row->made = job;
    if (!row->leaving) return std::nullopt;
    Leaving leaving = std::move(*row->leaving);  // so no step has it
    return erase(row, leaving.outcome, std::move(leaving.error));
}

void DecodeBatch::take_back_choices() {
    for (Row& row : rows_) {
        if (row.made == nullptr) continue;
        row.turn->step_attention->hand_back(std::move(std::exchange(row.made, nullptr)->choice));
        row.choosing = row.waits = false;
    }
}

std::optional<StageReply> DecodeBatch::leave(TurnId id, StageReply::Outcome outcome, Error error) {
    const auto row = find(id);
    if (row == rows_.end()) return std::nullopt;
    if (outcome == StageReply::Outcome::preempted) ++row->turn->preemptions;
    if (!row->choosing || row->made) return erase(row, outcome, std::move(error));
    row->leaving = Leaving{outcome, std::move(error)};
    return std::nullopt;
}

StageReply DecodeBatch::erase(Rows::iterator row, StageReply::Outcome outcome, Error error) {
    const TurnPtr turn = std::move(row->turn);
    const ChoiceJobPtr made = std::move(row->made);
    rows_.erase(row);
    if (turn->step_attention != nullptr) {
        if (made != nullptr) turn->step_attention->drop(std::move(made->choice));
        turn->answer_attention = turn->step_attention->stats();
        if (outcome == StageReply::Outcome::preempted) turn->step_attention->reset();
    }
    return {outcome, turn, std::move(error)};
}

}  // namespace rondo
