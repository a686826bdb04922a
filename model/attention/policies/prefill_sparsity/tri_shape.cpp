#include <algorithm>

#include "model/attention/policies/prefill_sparsity/fit_density.hpp"
#include "model/attention/policies/prefill_sparsity/local_window.hpp"
#include "model/attention/policies/prefill_sparsity/methods.hpp"

namespace rondo {
namespace {

/// A-shape, and the last rows attend to everything: of each chunk, since which one is a prompt's last is not known
/// here. There are 100 of them at the size the method was made for; they grow with the window.
class TriShape final : public PrefillSparsity {
public:
    explicit TriShape(double density) : density_(density) {}

    Sampling sampling() const override { return {}; }

    void select(const ChunkShape& chunk, const SampledRows&, Lines& lines) const override {
        constexpr double dense_rows = 100.0;
        const auto make = [&](int64_t bands, Lines& made) {
            add_local_window(chunk, bands, made);
            made.dense_rows =
                std::clamp<int64_t>(scaled(dense_rows, local_window_keys, bands), 1, std::max<int64_t>(chunk.rows, 1));
        };
        fit_density(chunk, density_, make, lines);
    }

private:
    const double density_;
};

}  // namespace

std::unique_ptr<PrefillSparsity> make_tri_shape(const PrefillAttention& settings, HeadPatterns) {
    return std::make_unique<TriShape>(settings.density);
}

}  // namespace rondo
