#pragma once

#include <cstddef>
#include <cstdint>

/// Bounds on what may come from outside, checked before anything is allocated. Units stand last in each name.
namespace rondo::limits {

inline constexpr int64_t layers_max = 1024;
inline constexpr int64_t heads_max = 1024;
inline constexpr int64_t head_size_max = 512;
inline constexpr int64_t model_width_max = 1 << 20;
inline constexpr int64_t vocabulary_max = 1 << 22;
inline constexpr int64_t context_tokens_max = 1 << 24;
inline constexpr size_t json_bytes_max = size_t{512} << 20;
inline constexpr size_t json_depth_max = 64;
inline constexpr size_t header_bytes_max = size_t{100} << 20;  // a safetensors header
inline constexpr int64_t tensors_max = 1 << 17;
inline constexpr int64_t metadata_entries_max = 1 << 17;
inline constexpr size_t template_bytes_max = size_t{1} << 20;
inline constexpr size_t template_steps_max = 1'000'000;
inline constexpr size_t template_output_bytes_max = size_t{64} << 20;
inline constexpr size_t prompt_bytes_max = size_t{64} << 20;

}  // namespace rondo::limits
