#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "actors/conversation_info.hpp"
#include "actors/load.hpp"

namespace rondo {

/// Room for several turns of one request, taken by the first of them, so that none is refused when others were let in.
/// Whoever asks holds it as long as turns may follow; what they did not take goes back with it. The first turn's
/// deadline is the request's, and so that of all its turns.
class Places {
public:
    explicit Places(size_t turns) : turns_(turns) {}
    Places(const Places&) = delete;
    Places& operator=(const Places&) = delete;
    ~Places() {
        if (load_) load_->places_held -= left_;
    }

    /// Another one for each request of this process.
    uint64_t number() const { return number_; }
    size_t turns() const { return turns_; }
    /// By the router: the places that are held for turns to come.
    size_t held() const { return left_; }
    /// By the router: when all the turns must be over, by its clock.
    double deadline() const { return deadline_; }
    /// By the router, once, when the first turn is let in: the others' places are held.
    void hold(std::shared_ptr<Load> load, double deadline) {
        load_ = std::move(load);
        deadline_ = deadline;
        left_ = turns_ - 1;
        load_->places_held += left_;
    }
    /// By the router: whether a place was held for this turn, which it takes now.
    bool take() {
        if (left_ == 0) return false;
        --left_;
        --load_->places_held;
        return true;
    }

private:
    static inline std::atomic<uint64_t> numbers_{0};

    const uint64_t number_ = ++numbers_;
    const size_t turns_;
    std::shared_ptr<Load> load_;
    size_t left_ = 0;
    double deadline_ = 0.0;
};

/// The places that are held for each tenant's turns to come, as long as whoever asked holds them. The router's alone.
class HeldPlaces {
public:
    void add(const Tenant& tenant, std::weak_ptr<const Places> places) {
        std::erase_if(held_, [](const auto& one) { return one.second.expired(); });
        held_.emplace(tenant, std::move(places));
    }
    size_t of(const Tenant& tenant) const {
        size_t sum = 0;
        const auto [begin, end] = held_.equal_range(tenant);
        for (auto one = begin; one != end; ++one)
            if (const auto places = one->second.lock()) sum += places->held();
        return sum;
    }

private:
    std::multimap<Tenant, std::weak_ptr<const Places>> held_;
};

}  // namespace rondo
