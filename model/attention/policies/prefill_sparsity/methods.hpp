#pragma once

#include "model/attention/policies/prefill_sparsity/prefill_sparsity.hpp"

/// What registry.cpp knows of each method; its file says the rest.
namespace rondo {

std::unique_ptr<PrefillSparsity> make_loopserve(const PrefillAttention& settings);
std::unique_ptr<PrefillSparsity> make_a_shape(const PrefillAttention& settings);
std::unique_ptr<PrefillSparsity> make_tri_shape(const PrefillAttention& settings);
std::unique_ptr<PrefillSparsity> make_minference(const PrefillAttention& settings, HeadPatterns patterns);
std::unique_ptr<PrefillSparsity> make_flexprefill(const PrefillAttention& settings);

}  // namespace rondo
