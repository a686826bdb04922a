#pragma once

#include <utility>
#include <vector>

#include "actors/handles.hpp"

namespace rondo::testing {

/// A cache that lets everybody in; or writes down what it is asked, and leaves the answer to the test.
class PretendedCache : public cache_actor::base {
public:
    struct Told {
        std::vector<std::pair<AdmissionDecisionPtr, caf::typed_response_promise<AdmissionDecisionPtr>>> asked;
        std::vector<TurnId> claims, forgotten;
    };
    explicit PretendedCache(caf::actor_config& config, Told* told = nullptr) : cache_actor::base(config), told_(told) {}
    behavior_type make_behavior() override {
        return {
            [this](take_atom, const AdmissionDecisionPtr& asked) {
                auto promise = make_response_promise<AdmissionDecisionPtr>();
                if (told_ == nullptr) {
                    promise.deliver(asked);
                } else {
                    told_->asked.emplace_back(asked, promise);
                }
                return promise;
            },
            [this](claim_atom, const PromptClaimPtr& claim) {
                if (told_ != nullptr) told_->claims.push_back(claim->turn);
            },
            [this](withdraw_atom, TurnId id) {
                if (told_ != nullptr) told_->forgotten.push_back(id);
            },
            [](keep_atom, const ComputedPtr&) {},
            [](share_atom, const TurnPtr&) { return true; },
            [this](room_atom, const BlockCounts&) {  // from the test: it has filled the answer in
                if (told_ == nullptr) return true;
                auto [asked, promise] = std::move(told_->asked.back());
                told_->asked.clear();
                promise.deliver(asked);
                return true;
            },
            [](away_atom, const CachedPromptPtr&) { return int64_t{0}; },
            [](remove_atom, const CachedPromptPtr&) {},
            [](drain_atom) { return true; },
        };
    }
    void on_exit() override {
        if (told_ != nullptr) told_->asked.clear();
    }

private:
    Told* told_;
};

}  // namespace rondo::testing
