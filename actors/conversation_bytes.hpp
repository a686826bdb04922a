#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "actors/conversation.hpp"
#include "actors/conversation_info.hpp"
#include "config/result.hpp"
#include "model/model.hpp"

/// Conversations as bytes and back, so that they outlive the process.
namespace rondo {

/// Stands for what each id of a tokenizer spells. It reads every token, so it is computed once a model. A model without
/// a tokenizer has 0.
uint64_t fingerprint(const Tokenizer& tokenizer);

/// All that a conversation remembers. `tokenizer` is the fingerprint of its model's.
std::vector<std::byte> write_conversation(const Conversation& conversation, uint64_t tokenizer);
/// Refuses (corrupt) what is not whole or contradicts itself, and (unsupported) what another version has written.
/// `tokenizer` is the fingerprint of the model's. Where the bytes have another one, the texts stay, and the ids are
/// forgotten: the next prompt is encoded anew.
Result<Conversation> read_conversation(const Model& model, std::span<const std::byte> bytes, uint64_t tokenizer);

/// What a list needs to know of a conversation before anybody reads it.
struct ConversationHead {
    static constexpr size_t name_bytes_max = size_t{64} << 10;  ///< of the tenant, and of the id

    ConversationName name;
    uint64_t number = 0;
    double used_at = 0.0;  ///< seconds since 1970
    ConversationFigures figures;
};

std::vector<std::byte> write_head(const ConversationHead& head);
/// Refuses what `read_conversation` would, and names that are too long.
Result<ConversationHead> read_head(std::span<const std::byte> bytes);

}  // namespace rondo
