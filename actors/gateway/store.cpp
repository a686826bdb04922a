#include "actors/engine_inside.hpp"
#include "actors/gateway/bodies/listings.hpp"
#include "actors/gateway/gateway.hpp"
#include "actors/when_answered.hpp"

namespace rondo {

namespace {

StoreInfo told(const StoreUse& use) {
    return {.enabled = true,
            .encrypted = use.encrypted,
            .bytes = use.bytes,
            .bytes_max = use.bytes_max,
            .host_bytes = use.host_bytes,
            .records = use.records,
            .conversations = use.conversations,
            .tokens_asked = use.tokens_asked,
            .tokens_restored = use.tokens_restored,
            .restore_seconds = use.restore_seconds};
}

}  // namespace

/// A tenant sees what is his.
void Gateway::store(const std::shared_ptr<Exchange>& exchange) {
    const EngineInside& engine = inside(engine_);
    if (!engine.store_figures().serves) return exchange->send_json(200, store_response({}));
    const auto ask = [exchange](caf::event_based_actor* self, const store_actor& store) {
        when_answered(
            self->request(store, answers_within, list_atom::value, exchange->tenant),
            [=](const StoreUse& use) { exchange->send_json(200, store_response(told(use))); },
            [=](const caf::error& error) { exchange->send_error(from_caf(error, "the store")); });
    };
    engine_.system().spawn(ask, engine.store());
}

}  // namespace rondo
