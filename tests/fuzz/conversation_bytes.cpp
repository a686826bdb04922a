#include "actors/conversation_bytes.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "memory/store/record_header.hpp"

namespace {

constexpr uint64_t tokenizer = 7;  // the fingerprint that the corpus has
constexpr size_t tokenizer_at = 5;

void require(bool holds) {
    if (!holds) std::abort();
}

rondo::Model small_model() {
    rondo::Model model;
    model.spec.vocabulary = 1000;
    return model;
}

std::vector<std::byte> with_checksum(std::span<const std::byte> bytes) {
    std::vector<std::byte> all(bytes.begin(), bytes.end());
    const uint64_t sum = rondo::checksum_of(bytes);
    const auto of_sum = std::as_bytes(std::span(&sum, 1));
    all.insert(all.end(), of_sum.begin(), of_sum.end());
    return all;
}

/// A refusal is one line.
template <class T>
bool accepted(const rondo::Result<T>& read) {
    if (read.is_ok()) return true;
    const rondo::Error& error = read.error();
    require(error.code == rondo::ErrorCode::corrupt || error.code == rondo::ErrorCode::unsupported);
    require(!error.message.empty() && error.message.find_first_of("\r\n") == std::string::npos);
    return false;
}

/// What was read holds together, and is written as it was.
void check(const rondo::Conversation& read, const rondo::Model& model, std::span<const std::byte> bytes) {
    uint64_t written_with = 0;
    std::memcpy(&written_with, bytes.data() + tokenizer_at, sizeof(written_with));
    require(read.borders().size() == read.rounds().size() * rondo::Conversation::borders_a_round);
    int64_t index = 0;
    for (const rondo::Conversation::Border& border : read.borders()) {
        require(border.after >= -1 && border.after < index++);
        for (const int32_t id : border.ids) require(id >= 0 && id < model.spec.vocabulary);
        if (written_with != tokenizer) require(border.after == -1 && border.text.empty() && border.ids.empty());
    }
    const std::vector<std::byte> again = rondo::write_conversation(read, tokenizer);
    if (written_with == tokenizer) require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
    require(rondo::read_conversation(model, again, tokenizer).is_ok());
}

}  // namespace

/// Any bytes as a conversation or a head, with the checksum that they must have, and without.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const rondo::Model model = small_model();
    const std::span<const std::byte> input(reinterpret_cast<const std::byte*>(data), size);
    (void)accepted(rondo::read_conversation(model, input, tokenizer));
    const std::vector<std::byte> bytes = with_checksum(input);
    const auto conversation = rondo::read_conversation(model, bytes, tokenizer);
    if (accepted(conversation)) check(*conversation, model, bytes);
    const auto head = rondo::read_head(bytes);
    if (accepted(head)) require(rondo::write_head(*head) == bytes);
    return 0;
}
