#include "actors/decode_batch.hpp"

#include <algorithm>
#include <utility>

namespace rondo {

void DecodeBatch::join(const TurnPtr& turn) {
    rows_.push_back({turn, false, false, false, {}});
    if (turn->choice != nullptr) turn->choice->after_prefill(turn->kv);
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
    return std::ranges::any_of(rows_, [](const Row& row) { return row.leaving.has_value(); });
}

std::optional<TurnId> DecodeBatch::to_preempt() const {
    if (rows_.empty() || is_leaving()) return std::nullopt;
    const auto victim = std::ranges::min_element(rows_, [](const Row& a, const Row& b) {
        return a.turn->priority != b.turn->priority ? a.turn->priority < b.turn->priority : a.turn->id > b.turn->id;
    });
    return victim->turn->id;
}

void DecodeBatch::begin_step(std::vector<TurnPtr>& turns) {
    for (auto row = rows_.begin(); row != rows_.end() && turns.size() < options_.rows_max; ++row) {
        if (!row->steps()) continue;
        turns.push_back(row->turn);
        if (row->turn->choice != nullptr) row->turn->choice->before_step(row->turn->kv);
    }
}

bool DecodeBatch::stepped(Turn& turn) const {
    const bool over = turn.last.over || static_cast<int64_t>(turn.ids.size()) >= options_.context_tokens;
    if (turn.choice == nullptr) return over;
    if (over) {
        turn.choice->after_last_step(turn.kv);
    } else {
        turn.choice->after_step(turn.kv);
    }
    return over;
}

TurnPtr DecodeBatch::begin_choice(TurnId id) {
    const auto row = find(id);
    if (row == rows_.end() || row->choosing || row->turn->choice == nullptr) return nullptr;
    row->choosing = row->turn->choice->choosing() && !row->turn->choice->complete();
    return row->choosing ? row->turn : nullptr;
}

std::optional<StageReply> DecodeBatch::end_choice(TurnId id, bool serves) {
    const auto row = find(id);
    if (row == rows_.end()) return std::nullopt;
    row->choosing = row->waits = false;
    if (row->leaving) {
        Leaving leaving = std::move(*row->leaving);
        return erase(row, leaving.outcome, std::move(leaving.error));
    }
    if (!serves) row->turn->choice->give_up();
    return std::nullopt;
}

std::optional<StageReply> DecodeBatch::leave(TurnId id, StageReply::Outcome outcome, Error error) {
    const auto row = find(id);
    if (row == rows_.end()) return std::nullopt;
    if (outcome == StageReply::Outcome::preempted) ++row->turn->preemptions;
    if (!row->choosing) return erase(row, outcome, std::move(error));
    row->leaving = Leaving{outcome, std::move(error)};
    return std::nullopt;
}

StageReply DecodeBatch::erase(Rows::iterator row, StageReply::Outcome outcome, Error error) {
    TurnPtr turn = std::move(row->turn);
    rows_.erase(row);
    if (turn->choice != nullptr) {
        turn->answer_attention = turn->choice->stats();
        if (outcome == StageReply::Outcome::preempted) turn->choice->reset();
    }
    return {outcome, std::move(turn), std::move(error)};
}

}  // namespace rondo
