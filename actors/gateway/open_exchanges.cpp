#include "actors/gateway/open_exchanges.hpp"

namespace rondo {

namespace {

constexpr size_t over_max = 64;

}  // namespace

bool OpenExchanges::add(const std::shared_ptr<Exchange>& exchange) {
    const std::lock_guard lock(mutex_);
    if (ended_) return false;
    if (open_.size() >= 2 * looked_at_ + over_max) {
        std::erase_if(open_, [](const auto& one) { return one.expired(); });
        looked_at_ = open_.size();
    }
    open_.push_back(exchange);
    return true;
}

void OpenExchanges::end_all(const ApiError& why) {
    std::vector<std::shared_ptr<Exchange>> open;
    {
        const std::lock_guard lock(mutex_);
        ended_ = true;
        for (const auto& one : open_)
            if (auto exchange = one.lock()) open.push_back(std::move(exchange));
        open_.clear();
    }
    for (const auto& exchange : open) exchange->cut(why);
    for (const auto& exchange : open) exchange->nobody_waits();
}

}  // namespace rondo
