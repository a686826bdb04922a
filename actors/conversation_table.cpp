#include "actors/conversation_table.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace rondo {

namespace {

constexpr size_t left_max = 10'000, page_max = 1'000;

std::string mib(size_t bytes) {
    return std::to_string((bytes + (size_t{1} << 20) - 1) >> 20) + " MiB";
}

}  // namespace

/// What the totals will be when those have left who were chosen so far.
struct ConversationTable::Plan {
    const Limits& limits;
    Totals all;
    std::map<Tenant, Totals> held;
    std::map<Tenant, std::map<Age, All::const_iterator>::const_iterator> next;
    std::vector<ConversationName> leaving;

    void leave(const All::const_iterator& conversation) {
        const auto& [name, entry] = *conversation;
        for (Totals* const totals : {&all, &held.at(name.tenant)}) {
            --totals->count;
            totals->bytes -= entry.figures.bytes;
        }
        leaving.push_back(name);
    }
    /// Nobody takes all from the others: whoever holds some may take more only while he holds less than four times
    /// what is free (TenantShares).
    bool fits(const Tenant& tenant, Totals more) const {
        const auto room = [&](size_t held, size_t taken, size_t wanted, size_t most) {
            if (wanted == 0) return true;
            return taken + wanted <= most && (!limits.several_tenants || held < 4 * (most - taken));
        };
        const Totals& own = held.at(tenant);
        return room(own.count, all.count, more.count, limits.count_max) &&
               room(own.bytes, all.bytes, more.bytes, limits.bytes_max);
    }
};

const ConversationTable::Entry* ConversationTable::find(const ConversationName& name) const {
    const auto found = all_.find(name);
    return found == all_.end() ? nullptr : &found->second;
}

ConversationTable::Totals ConversationTable::held_by(const Tenant& tenant) const {
    const auto found = holders_.find(tenant);
    return found == holders_.end() ? Totals{} : found->second.totals;
}

void ConversationTable::add(const ConversationName& name, session_actor session, const ConversationFigures& figures,
                            double now) {
    const auto [added, is_new] = all_.try_emplace(name, Entry{std::move(session), ++numbers_, 0, now, figures});
    if (!is_new) return;
    Holder& holder = holders_[name.tenant];
    holder.by_number.emplace(added->second.number, added);
    for (Totals* const totals : {&totals_, &holder.totals}) {
        ++totals->count;
        totals->bytes += figures.bytes;
    }
    set_idle(added);
    left_.erase(name);
}

void ConversationTable::put_back(const ConversationName& name, uint64_t number, const ConversationFigures& figures,
                                 double used_at) {
    numbers_ = std::max(numbers_, number - 1);
    add(name, session_actor(), figures, used_at);
}

void ConversationTable::serve(const ConversationName& name, session_actor session) {
    at(name)->second.session = std::move(session);
}

void ConversationTable::remove(const ConversationName& name, Left why) {
    const auto found = at(name);
    if (found == all_.end()) return;
    unset_idle(found);
    const auto holder = holders_.find(name.tenant);
    holder->second.by_number.erase(found->second.number);
    for (Totals* const totals : {&totals_, &holder->second.totals}) {
        --totals->count;
        totals->bytes -= found->second.figures.bytes;
    }
    if (holder->second.totals.count == 0) holders_.erase(holder);
    left_[name] = {why, ++leavings_, found->second.number};
    left_in_order_.emplace_back(name, leavings_);
    if (left_in_order_.size() > left_max) {
        const auto oldest = left_.find(left_in_order_.front().first);
        if (oldest != left_.end() && oldest->second.leaving == left_in_order_.front().second) left_.erase(oldest);
        left_in_order_.pop_front();
    }
    all_.erase(found);  // last: `name` may be its own
}

bool ConversationTable::is_unread(const ConversationName& name) const {
    const auto found = left_.find(name);
    return found != left_.end() && found->second.why == Left::unread && !all_.contains(name);
}

void ConversationTable::set_idle(All::const_iterator conversation) {
    const Entry& entry = conversation->second;
    holders_.at(conversation->first.tenant).idle.emplace(Age{entry.used_at, entry.number}, conversation);
}

void ConversationTable::unset_idle(All::const_iterator conversation) {
    const Entry& entry = conversation->second;
    holders_.at(conversation->first.tenant).idle.erase({entry.used_at, entry.number});
}

void ConversationTable::used(const ConversationName& name, double now) {
    const auto found = at(name);
    unset_idle(found);
    found->second.used_at = now;
    if (found->second.turns == 0) set_idle(found);
}

void ConversationTable::begin_turn(const ConversationName& name, double now) {
    ++at(name)->second.turns;
    used(name, now);
}

void ConversationTable::end_turn(const ConversationName& name, double now) {
    --at(name)->second.turns;
    used(name, now);
}

void ConversationTable::grew(const ConversationName& name, const ConversationFigures& figures) {
    Entry& entry = at(name)->second;
    for (Totals* const totals : {&totals_, &holders_.at(name.tenant).totals})
        totals->bytes += figures.bytes - entry.figures.bytes;  // modulo 2^64, so less is right too
    entry.figures = figures;
    entry.unbegun = entry.unbegun && figures.rounds == 0;
}

/// The one that holds most of those that hold more than an equal share; nullptr if none of them can give.
const Tenant* ConversationTable::over_his_share(const Plan& plan, const Tenant& asker) const {
    const size_t tenants = holders_.size() + (holders_.contains(asker) ? 0 : 1);
    const auto over = [&](const Totals& held) {
        return std::max(static_cast<double>(held.count) / static_cast<double>(limits_.count_max),
                        static_cast<double>(held.bytes) / static_cast<double>(limits_.bytes_max)) *
               static_cast<double>(tenants);
    };
    if (over(plan.held.at(asker)) >= 1.0) return nullptr;
    const Tenant* most = nullptr;
    double share = 1.0;
    for (const auto& [tenant, held] : plan.held) {
        if (tenant == asker || over(held) <= share || plan.next.at(tenant) == holders_.at(tenant).idle.end()) continue;
        most = &tenant;
        share = over(held);
    }
    return most;
}

Result<std::vector<ConversationName>> ConversationTable::room_for(const Tenant& tenant, Totals more,
                                                                  const ConversationName* stays) const {
    if (more.bytes > limits_.bytes_max) {
        return make_error(ErrorCode::out_of_range, "the conversation needs " + mib(more.bytes) + "; all may have " +
                                                       mib(limits_.bytes_max) + " (server.conversations_mib)");
    }
    Plan plan{limits_, totals_, {}, {}, {}};
    plan.held.try_emplace(tenant, held_by(tenant));
    if (plan.fits(tenant, more)) return std::move(plan.leaving);
    if (const auto own = holders_.find(tenant); own != holders_.end()) {
        for (const auto& [age, conversation] : own->second.idle) {
            if (stays != nullptr && conversation->first == *stays) continue;
            plan.leave(conversation);
            if (plan.fits(tenant, more)) return std::move(plan.leaving);
        }
    }
    for (const auto& [other, holder] : holders_) {
        plan.held.try_emplace(other, holder.totals);
        plan.next.emplace(other, holder.idle.begin());
    }
    while (const Tenant* const other = over_his_share(plan, tenant)) {
        plan.leave(plan.next.at(*other)++->second);
        if (plan.fits(tenant, more)) return std::move(plan.leaving);
    }
    const Totals own = held_by(tenant);
    return make_error(ErrorCode::overloaded, std::to_string(totals_.count) + " conversations of " + mib(totals_.bytes) +
                                                 " are kept, " + std::to_string(own.count) + " of " + mib(own.bytes) +
                                                 " this tenant's, and none may leave; a turn must end first");
}

std::vector<ConversationName> ConversationTable::too_old(double now) const {
    std::vector<ConversationName> old;
    if (limits_.idle_s_max <= 0.0) return old;
    for (const auto& [tenant, holder] : holders_) {
        for (const auto& [age, conversation] : holder.idle) {
            if (age.first + limits_.idle_s_max > now) break;
            old.push_back(conversation->first);
        }
    }
    return old;
}

std::optional<double> ConversationTable::next_too_old() const {
    std::optional<double> next;
    if (limits_.idle_s_max <= 0.0) return next;
    for (const auto& [tenant, holder] : holders_) {
        if (holder.idle.empty()) continue;
        const double due = holder.idle.begin()->first.first + limits_.idle_s_max;
        next = std::min(next.value_or(due), due);
    }
    return next;
}

Result<ConversationPage> ConversationTable::page(const PageOf& wanted) const {
    ConversationPage page;
    const auto holder = holders_.find(wanted.tenant);
    uint64_t below = UINT64_MAX;
    if (!wanted.after.empty()) {
        const ConversationName name{wanted.tenant, wanted.after};
        const Entry* const before = find(name);
        const auto gone = left_.find(name);
        if (before == nullptr && gone == left_.end())
            return make_error(ErrorCode::not_found, "`after` names no conversation; the list must be begun anew");
        below = before != nullptr ? before->number : gone->second.number;
    }
    if (holder == holders_.end()) return page;
    const auto& all = holder->second.by_number;
    auto next = std::make_reverse_iterator(all.lower_bound(below));
    const size_t limit = std::clamp<size_t>(wanted.limit, 1, page_max);
    for (; next != all.rend() && page.conversations.size() < limit; ++next) {
        const auto& [name, entry] = *next->second;
        page.conversations.push_back({name.id, entry.figures});
    }
    page.has_more = next != all.rend();
    return page;
}

Error ConversationTable::missing(const ConversationName& name) const {
    constexpr std::array reasons{
        "the conversation has left, because it was not used for too long (server.conversation_idle_s)",
        "the conversation has left to make room for others (server.conversations_max, conversations_mib)",
        "the conversation was deleted",
        "the conversation was lost when its actor failed",
        "the conversation cannot be read, because the store died (a start of the server finds it again)",
        "the conversation was never begun: its first turn failed, or was stopped before anything was said"};
    const auto left = left_.find(name);
    const std::string why =
        left == left_.end() ? "no conversation of that id is kept" : reasons[static_cast<size_t>(left->second.why)];
    return make_error(ErrorCode::not_found, why + "; what was said must be sent to a new one");
}

}  // namespace rondo
