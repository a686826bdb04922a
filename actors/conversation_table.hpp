#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/handles.hpp"

namespace rondo {

/// Every conversation that is kept by name: in what order a tenant's are listed, how much each holds, and which leave
/// when there is no room for another. One leaves only while no turn of it is under way or waiting. The asker's own
/// leave first, the one used longest ago before others. Another tenant's leave only while he holds more than an equal
/// share and the asker does not. Plain data: the router acts on what it says. Not shared between threads.
class ConversationTable {
public:
    struct Limits {
        size_t count_max = 10'000;
        size_t bytes_max = size_t{1} << 30;
        double idle_s_max = 0.0;       ///< older ones leave; 0: none do
        bool several_tenants = false;  ///< who share count and bytes
    };
    enum class Left : uint8_t { age, room, deleted, failed, unread, never_begun };
    struct Entry {
        session_actor session;  ///< none: it is kept on a disk, and nobody has asked for it yet
        uint64_t number = 0;    ///< counts upwards
        size_t turns = 0;       ///< under way or waiting
        double used_at = 0.0;
        ConversationFigures figures;
        bool unbegun = false;  ///< its first turn made it, and has not become a round yet
    };
    struct Totals {
        size_t count = 0, bytes = 0;
    };

    explicit ConversationTable(const Limits& limits) : limits_(limits) {}

    /// nullptr: there is none.
    const Entry* find(const ConversationName& name) const;
    /// One that is not there yet.
    void add(const ConversationName& name, session_actor session, const ConversationFigures& figures, double now);
    /// One that was kept on a disk. Numbers come in ascending order, before any is added.
    void put_back(const ConversationName& name, uint64_t number, const ConversationFigures& figures, double used_at);
    uint64_t next_number() const { return numbers_ + 1; }
    /// From now on this session serves the conversation, which must be in the table.
    void serve(const ConversationName& name, session_actor session);
    void remove(const ConversationName& name, Left why);
    /// The conversation, which must be in the table, was used just now.
    void used(const ConversationName& name, double now);
    void begin_turn(const ConversationName& name, double now);
    void end_turn(const ConversationName& name, double now);
    /// A turn that may fail made it.
    void begun_by_turn(const ConversationName& name) { at(name)->second.unbegun = true; }
    void grew(const ConversationName& name, const ConversationFigures& figures);

    /// Who has to leave so that the tenant can have so much more; an error, if it cannot be. `stays` does not leave.
    Result<std::vector<ConversationName>> room_for(const Tenant& tenant, Totals more,
                                                   const ConversationName* stays = nullptr) const;
    /// Who has not been used for too long.
    std::vector<ConversationName> too_old(double now) const;
    /// When that will be so of the next one; none: never.
    std::optional<double> next_too_old() const;

    /// A part of a tenant's list, which goes on behind `after`, also where that one has left meanwhile; an error if
    /// nothing is known of it.
    Result<ConversationPage> page(const PageOf& wanted) const;
    /// Why there is none of this name.
    Error missing(const ConversationName& name) const;
    /// It was on a disk that nobody can read any more.
    bool is_unread(const ConversationName& name) const;

    Totals totals() const { return totals_; }
    Totals held_by(const Tenant& tenant) const;
    template <class Use>
    void for_each(Use&& use) const {
        for (const auto& [name, entry] : all_) use(name, entry);
    }

private:
    using All = std::map<ConversationName, Entry>;
    using Age = std::pair<double, uint64_t>;  // since when it is idle, its number
    struct Holder {
        Totals totals;
        std::map<uint64_t, All::const_iterator> by_number;
        std::map<Age, All::const_iterator> idle;  // without turns, the one used longest ago first
    };
    struct Plan;

    All::iterator at(const ConversationName& name) { return all_.find(name); }
    void set_idle(All::const_iterator conversation);
    void unset_idle(All::const_iterator conversation);
    const Tenant* over_his_share(const Plan& plan, const Tenant& asker) const;

    Limits limits_;
    All all_;
    std::map<Tenant, Holder> holders_;  // none is empty
    Totals totals_;
    uint64_t numbers_ = 0;
    struct Gone {
        Left why;
        uint64_t leaving = 0;  ///< how many had left before it
        uint64_t number = 0;   ///< its own: a list that stood at it goes on from there
    };
    std::map<ConversationName, Gone> left_;  // the last ones
    std::deque<std::pair<ConversationName, uint64_t>> left_in_order_;
    uint64_t leavings_ = 0;
};

}  // namespace rondo
