#pragma once

#include <memory>

#include "model/attention/policies/decode_selection/decode_selection.hpp"

/// One maker for each method that needs nothing but settings; `registry.cpp` is the table of them.
namespace rondo {

std::unique_ptr<DecodeSelection> make_progressive(const DecodeAttention& settings);
std::unique_ptr<DecodeSelection> make_snapkv(const DecodeAttention& settings);
std::unique_ptr<DecodeSelection> make_adakv(const DecodeAttention& settings);
std::unique_ptr<DecodeSelection> make_streaming_llm(const DecodeAttention& settings);
std::unique_ptr<DecodeSelection> make_h2o(const DecodeAttention& settings);
std::unique_ptr<DecodeSelection> make_random_keys(const DecodeAttention& settings);
std::unique_ptr<DecodeSelection> make_recent(const DecodeAttention& settings);

}  // namespace rondo
