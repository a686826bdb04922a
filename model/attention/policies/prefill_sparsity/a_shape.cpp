#include "model/attention/policies/prefill_sparsity/fit_density.hpp"
#include "model/attention/policies/prefill_sparsity/local_window.hpp"
#include "model/attention/policies/prefill_sparsity/methods.hpp"

namespace rondo {
namespace {

/// StreamingLLM's mask in prefill: the first keys and a window. The window is as wide as `density` asks.
class AShape final : public PrefillSparsity {
public:
    explicit AShape(double density) : density_(density) {}

    Sampling sampling() const override { return {}; }

    void select(const ChunkShape& chunk, const SampledRows&, Lines& lines) const override {
        fit_density(
            chunk, density_, [&](int64_t bands, Lines& made) { add_local_window(chunk, bands, made); }, lines);
    }

private:
    const double density_;
};

}  // namespace

std::unique_ptr<PrefillSparsity> make_a_shape(const PrefillAttention& settings, HeadPatterns) {
    return std::make_unique<AShape>(settings.density);
}

}  // namespace rondo
