#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace rondo {

/// Whose turn it is among some who share by cost (fair queueing). Each has a start, which grows by the cost of what is
/// served for him; the least is next. Who comes begins where the others have got to (`now_`), so being away earns
/// nothing. But he begins not before his own end, so going away forgives nothing: that is remembered until the others
/// have got there.
class FairOrder {
public:
    /// There is something to serve for him. Nothing happens if there was before.
    void join(const std::string& name) {
        const auto [found, is_new] = members_.try_emplace(name);
        Member& member = found->second;
        if (member.waits) return;
        if (!is_new) away_.erase(member.place);
        member = {{std::max(now_, member.place.first), ++places_}, true};
        waiting_.emplace(member.place, name);
    }
    bool empty() const { return waiting_.empty(); }
    /// There must be one.
    const std::string& next() const { return waiting_.begin()->second; }
    /// Calls `visit(name, ahead)` for all who wait, the next one first, as long as it says so; `ahead` is what has been
    /// served for him beyond the next one.
    template <class Visit>
    void each(const Visit& visit) const {
        for (const auto& [place, name] : waiting_)
            if (!visit(name, place.first - waiting_.begin()->first.first)) return;
    }
    /// Something was taken out to be served, of one who waits; mostly, but not always, of the next.
    void serve(const std::string& name, double cost) {
        Member& member = members_.at(name);
        // Whoever comes begins where the least is, however far ahead the one served now has got.
        now_ = std::max(now_, waiting_.begin()->first.first) + cost / static_cast<double>(waiting_.size());
        auto waiting = waiting_.extract(member.place);
        member.place = waiting.key() = {member.place.first + cost, ++places_};
        waiting_.insert(std::move(waiting));
        forget();
    }
    /// There is nothing more to serve for one who waited.
    void leave(const std::string& name) {
        Member& member = members_.at(name);
        member.waits = false;
        away_.insert(waiting_.extract(member.place));
        if (waiting_.empty()) {
            *this = {};  // nobody waits, so nobody owes anything
        } else {
            forget();
        }
    }

private:
    using Place = std::pair<double, uint64_t>;  // start, and of equal ones who came there first
    struct Member {
        Place place;
        bool waits = false;
    };
    static constexpr size_t away_max = 4096;

    void forget() {
        while (!away_.empty() && (away_.begin()->first.first <= now_ || away_.size() > away_max)) {
            members_.erase(away_.begin()->second);
            away_.erase(away_.begin());
        }
    }

    std::unordered_map<std::string, Member> members_;
    std::map<Place, std::string> waiting_, away_;
    double now_ = 0.0;
    uint64_t places_ = 0;
};

/// Who is served next: the highest priority first; within one, tenants share by cost, and what a tenant gets is shared
/// by his flows. So a tenant, or a flow, with many or large requests waits behind itself and not in front of others.
/// Within a flow, in order of arrival. What serving costs need be known only then.
template <class T>
class FairQueue {
public:
    /// `flow` names its tenant, which ends with the first line's end.
    void push(uint64_t id, T item, const std::string& flow, int priority) {
        const std::string tenant = flow.substr(0, flow.find('\n'));
        Class& all = classes_[priority];
        Tenant& shared = all.tenants[tenant];
        put(shared.flows[flow], {id, std::move(item)}, {priority, true, tenant, flow, {}});
        all.order.join(tenant);
        shared.order.join(flow);
    }
    /// Before all others of its priority: work that was begun and interrupted. Nobody is charged for it.
    void push_front(uint64_t id, T item, int priority) {
        put(classes_[priority].begun, {id, std::move(item)}, {priority, false, {}, {}, {}});
    }

    bool empty() const { return places_.empty(); }
    size_t size() const { return places_.size(); }
    /// The next one; the queue must not be empty.
    const T& front() const { return next().item; }
    uint64_t front_id() const { return next().id; }
    /// One that may be served before its place, and what its flow or its tenant has been served beyond whose turn it
    /// is.
    struct Candidate {
        const T* item;
        double ahead;
    };
    /// The first of each flow, of the highest priority: the next one, then in about the order in which they will be
    /// served. Work that was begun stands alone. The queue must not be empty.
    std::vector<Candidate> candidates(size_t count_max) const {
        const Class& all = classes_.begin()->second;
        if (!all.begun.empty()) return {{&all.begun.front().item, 0.0}};
        std::vector<std::pair<size_t, Candidate>> found;  // by how many of its tenant stand before it
        all.order.each([&](const std::string& name, double tenant_ahead) {
            const Tenant& tenant = all.tenants.at(name);
            size_t before = 0;
            tenant.order.each([&](const std::string& flow, double ahead) {
                found.push_back({before++, {&tenant.flows.at(flow).front().item, std::max(ahead, tenant_ahead)}});
                return found.size() < count_max;
            });
            return found.size() < count_max;
        });
        std::ranges::stable_sort(found, {}, [](const auto& one) { return one.first; });
        std::vector<Candidate> all_found;
        for (const auto& [before, candidate] : found) all_found.push_back(candidate);
        return all_found;
    }
    /// The item of this id, which is in the queue, taken out to be served.
    T serve(uint64_t id, double cost) {
        const auto found = places_.find(id);
        if (const Place& place = found->second; place.shares) {
            Class& all = classes_.at(place.priority);
            all.order.serve(place.tenant, cost);
            all.tenants.at(place.tenant).order.serve(place.flow, cost);
        }
        return take(found);
    }
    /// The item of this id, taken out, wherever it stands; nobody is charged for it.
    std::optional<T> remove(uint64_t id) {
        const auto found = places_.find(id);
        if (found == places_.end()) return std::nullopt;
        return take(found);
    }

private:
    struct Waiting {
        uint64_t id;
        T item;
    };
    using Queue = std::list<Waiting>;
    struct Tenant {
        FairOrder order;
        std::unordered_map<std::string, Queue> flows;  // none is empty
    };
    struct Class {
        Queue begun;
        FairOrder order;
        std::unordered_map<std::string, Tenant> tenants;  // none has no flows
    };
    struct Place {
        int priority;
        bool shares;  // stands in a flow
        std::string tenant, flow;
        typename Queue::iterator at;
    };
    using Places = std::unordered_map<uint64_t, Place>;

    void put(Queue& queue, Waiting waiting, Place place) {
        place.at = queue.insert(queue.end(), std::move(waiting));
        places_.emplace(place.at->id, std::move(place));
    }
    const Waiting& next() const {
        const Class& all = classes_.begin()->second;
        if (!all.begun.empty()) return all.begun.front();
        const Tenant& tenant = all.tenants.at(all.order.next());
        return tenant.flows.at(tenant.order.next()).front();
    }
    T take(typename Places::iterator found) {
        const Place place = std::move(found->second);
        places_.erase(found);
        T item = std::move(place.at->item);
        Class& all = classes_.at(place.priority);
        if (place.shares) {
            take_from_flow(all, place);
        } else {
            all.begun.erase(place.at);
        }
        if (all.begun.empty() && all.tenants.empty()) classes_.erase(place.priority);
        return item;
    }
    void take_from_flow(Class& all, const Place& place) {
        Tenant& tenant = all.tenants.at(place.tenant);
        Queue& flow = tenant.flows.at(place.flow);
        flow.erase(place.at);
        if (!flow.empty()) return;
        tenant.flows.erase(place.flow);
        tenant.order.leave(place.flow);
        if (!tenant.flows.empty()) return;
        all.tenants.erase(place.tenant);
        all.order.leave(place.tenant);
    }

    std::map<int, Class, std::greater<>> classes_;  // by priority; none is empty
    Places places_;                                 // by id
};

}  // namespace rondo
