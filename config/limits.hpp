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
inline constexpr size_t config_bytes_max = size_t{32} << 20;   // config.json, tokenizer_config.json, a shard index
inline constexpr size_t config_values_max = size_t{1} << 19;   // in any of them
inline constexpr size_t shards_max = 1024;
inline constexpr size_t name_bytes_max = 1024;  // of a tensor, a metadata key
inline constexpr size_t tensor_dimensions_max = 8;
inline constexpr int64_t tensors_max = 1 << 17;
inline constexpr int64_t metadata_entries_max = 1 << 17;
inline constexpr size_t template_bytes_max = size_t{1} << 20;
inline constexpr size_t template_depth_max = 200;        // nesting of a chat template's source
inline constexpr size_t template_eval_depth_max = 400;   // nesting while it runs, macros included
inline constexpr size_t template_value_depth_max = 128;  // lists within lists
// About a second of rendering; a long conversation takes some hundred steps a message.
inline constexpr size_t template_steps_max = 10'000'000;
inline constexpr size_t template_work_bytes_max = size_t{256} << 20;  // of text and lists one rendering may make in all
inline constexpr size_t template_output_bytes_max = size_t{64} << 20;
inline constexpr int64_t template_range_max = 100'000;  // as Jinja's sandbox has it
// Of the variables that a request gives a template; work on them counts as steps of the rendering.
inline constexpr size_t template_variables_bytes_max = size_t{16} << 10;
inline constexpr size_t template_variables_depth_max = 16;
inline constexpr size_t template_variables_max = 1024;  // values, in all
inline constexpr size_t prompt_bytes_max = size_t{64} << 20;
// Longer tokens exist (runs of spaces), prompts made of nothing else do not.
inline constexpr size_t prompt_bytes_per_token_max = 256;
inline constexpr size_t logit_bias_entries_max = 1024;
inline constexpr int logprobs_max = 20;
inline constexpr size_t stop_strings_max = 16;
inline constexpr size_t stop_string_bytes_max = 256;
inline constexpr size_t stop_ids_max = 64;
// Of the JSON Schema that an answer must keep to, and of the grammar it becomes.
inline constexpr size_t schema_bytes_max = size_t{256} << 10;
inline constexpr size_t schema_values_max = size_t{1} << 14;
inline constexpr size_t format_nodes_max = size_t{1} << 15;
inline constexpr size_t format_choices_max = 1024;  // of a list in it: values, schemas, names
inline constexpr size_t regex_bytes_max = 4096;
inline constexpr size_t regex_depth_max = 32;                   // of groups in groups
inline constexpr size_t format_places_max = 4096;               // at which a text may be at once
inline constexpr int32_t format_depth_max = 256;                // of rules within rules
inline constexpr size_t settings_bytes_max = size_t{64} << 10;  // of a YAML file or an override
inline constexpr size_t settings_values_max = 4096;             // in it
inline constexpr size_t settings_depth_max = 16;
inline constexpr size_t devices_max = 64;
inline constexpr size_t normalized_bytes_max = size_t{256} << 20;  // of a prompt, after a tokenizer's replacements
inline constexpr size_t merges_max = size_t{1} << 23;
// JSON values of tokenizer.json beside vocabulary and merges.
inline constexpr size_t tokenizer_values_max = size_t{1} << 21;
inline constexpr size_t tokenizer_steps_max = 64;  // normalizers, pre-tokenizers, decoders
inline constexpr size_t added_token_bytes_max = 1024;
inline constexpr size_t scored_token_bytes_max = 256;  // SentencePiece; pairs that make a token are tried at every cut
inline constexpr size_t pattern_bytes_max = size_t{64} << 10;
// A request's JSON values: a prompt of as many token ids, and a tree of some 25 MB at the most.
inline constexpr size_t request_values_max = size_t{1} << 18;
inline constexpr size_t messages_max = size_t{1} << 14;      // of a request
inline constexpr size_t tools_max = 128;                     // of a request
inline constexpr size_t answer_calls_max = 32;               // of tools; a model that repeats itself ends
inline constexpr size_t tools_bytes_max = size_t{1} << 20;   // of their list
inline constexpr size_t tools_values_max = size_t{1} << 16;  // in it
inline constexpr size_t tool_calls_max = 128;                // of a message
inline constexpr int answers_max = 8;                        // to one prompt (n)
inline constexpr size_t prompts_max = 64;                    // of a request; and of its answers in all
inline constexpr int64_t rounds_max = int64_t{1} << 20;      // of a conversation
inline constexpr size_t conversation_id_bytes_max = 256;
inline constexpr size_t title_characters_max = 200;  // of a conversation
inline constexpr double deadline_s_max = 86'400.0;
inline constexpr int priority_max = 10;                        // and its negative
inline constexpr size_t api_keys_bytes_max = size_t{1} << 20;  // of the file that holds them
inline constexpr size_t api_key_bytes_min = 16;
inline constexpr size_t api_key_bytes_max = 256;

}  // namespace rondo::limits
