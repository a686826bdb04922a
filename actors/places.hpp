#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "actors/conversation_info.hpp"
#include "actors/load.hpp"

namespace rondo {

/// Room for several turns of one request, taken by the first of them, so that none is refused when others were let in.
/// Whoever asks holds it as long as turns may follow; what they did not take goes back with it.
class Places {
public:
    explicit Places(size_t turns) : turns_(turns) {}
    Places(const Places&) = delete;
    Places& operator=(const Places&) = delete;
    ~Places() {
        if (load_) load_->places_held -= left_;
    }

    size_t turns() const { return turns_; }
    /// By the router: the places that are held for turns to come.
    size_t held() const { return left_; }
    /// By the router, once, when the first turn is let in: the others' places are held.
    void hold(std::shared_ptr<Load> load) {
        load_ = std::move(load);
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
    const size_t turns_;
    std::shared_ptr<Load> load_;
    size_t left_ = 0;
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
