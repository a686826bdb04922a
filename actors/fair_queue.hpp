#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace rondo {

/// Who is served next: the highest priority first; within one, flows share by cost (start-time fair queueing), so that
/// a flow with many or large requests waits behind itself and not in front of others. Within a flow, in order of
/// arrival.
template <class T>
class FairQueue {
public:
    void push(uint64_t id, T item, const std::string& flow, int priority, double cost) {
        if (finish_.size() > 2 * items_.size() + 64)
            std::erase_if(finish_, [&](const auto& f) { return f.second <= now_; });
        double& finish = finish_[flow];
        const double start = std::max(now_, finish);
        finish = start + cost;
        put({-priority, start, ++arrivals_}, id, std::move(item));
    }
    /// Before all others of its priority: work that was begun and interrupted.
    void push_front(uint64_t id, T item, int priority) { put({-priority, -1.0, ++arrivals_}, id, std::move(item)); }

    bool empty() const { return items_.empty(); }
    size_t size() const { return items_.size(); }
    /// The next one; the queue must not be empty.
    const T& front() const { return items_.begin()->second.second; }
    T pop() {
        const auto first = items_.begin();
        now_ = std::max(now_, std::get<1>(first->first));
        return take(first);
    }
    /// The item of this id, taken out, wherever it stands.
    std::optional<T> remove(uint64_t id) {
        const auto place = places_.find(id);
        if (place == places_.end()) return std::nullopt;
        return take(items_.find(place->second));
    }

private:
    using Place = std::tuple<int, double, uint64_t>;  // −priority, virtual start, arrival
    using Items = std::map<Place, std::pair<uint64_t, T>>;

    void put(const Place& place, uint64_t id, T item) {
        items_.emplace(place, std::pair(id, std::move(item)));
        places_[id] = place;
    }
    T take(typename Items::iterator at) {
        T item = std::move(at->second.second);
        places_.erase(at->second.first);
        items_.erase(at);
        if (items_.empty()) finish_.clear();  // nobody waits, so nobody owes anything
        return item;
    }

    Items items_;
    std::unordered_map<uint64_t, Place> places_;
    std::unordered_map<std::string, double> finish_;  // when each flow's last request ends, in cost served
    double now_ = 0.0;
    uint64_t arrivals_ = 0;
};

}  // namespace rondo
