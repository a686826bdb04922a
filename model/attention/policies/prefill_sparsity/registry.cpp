#include "model/attention/policies/prefill_sparsity/methods.hpp"

namespace rondo {

std::unique_ptr<PrefillSparsity> make_prefill_sparsity(const PrefillAttention& settings, HeadPatterns patterns) {
    using enum PrefillAttention::Method;
    switch (settings.method) {
        case dense:
            return nullptr;
        case loopserve:
            return make_loopserve(settings);
        case a_shape:
            return make_a_shape(settings);
        case tri_shape:
            return make_tri_shape(settings);
        case minference:
            return make_minference(settings, std::move(patterns));
        case flexprefill:
            return make_flexprefill(settings);
    }
    return nullptr;
}

}  // namespace rondo
