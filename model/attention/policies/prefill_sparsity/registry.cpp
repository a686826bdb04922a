#include "model/attention/policies/prefill_sparsity/methods.hpp"

namespace rondo {

namespace {

/// In the order of PrefillAttention::Method. A row without a maker does not link.
constexpr std::unique_ptr<PrefillSparsity> (*makers[])(const PrefillAttention&, HeadPatterns) = {
    nullptr,  // dense
#define RONDO_METHOD(method, ...) make_##method,
#include "config/prefill_methods.inc"
};

}  // namespace

std::unique_ptr<PrefillSparsity> make_prefill_sparsity(const PrefillAttention& settings, HeadPatterns patterns) {
    const auto make = makers[static_cast<size_t>(settings.method)];
    return make == nullptr ? nullptr : make(settings, std::move(patterns));
}

}  // namespace rondo
