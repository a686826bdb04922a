#include "memory/store/record_header.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <string>

#include "config/checked.hpp"
#include "config/limits.hpp"
#include "memory/store/byte_io.hpp"
#include "memory/store/disk_queue.hpp"

namespace rondo {

namespace {

constexpr uint64_t magic = 0x0a56'4b6f'646e'6f52;  // "RondoKV" and the end of a line
constexpr size_t fixed_bytes = 8 + 4 + 4 + 16 + 3 * 16 + 8 + 16 + 4 + 3 * 4 + 8 + 4 + 4;
constexpr size_t layer_entry_bytes = 8 + 16;

// Stored as numbers.
static_assert(static_cast<int>(DType::f32) == 0 && static_cast<int>(DType::bf16) == 1 &&
              static_cast<int>(DType::i8) == 3);
static_assert(static_cast<int>(LayerGroup::lower) == 0 && static_cast<int>(Exactness::exact) == 0);

// Beyond these a header lies: nothing that is stored is as large.
constexpr int32_t layers_max = 4096, heads_max = 4096, head_dim_max = 4096;

Error damaged(const char* what) {
    return make_error(ErrorCode::corrupt, std::string("a stored record's ") + what);
}

StoreName take_name(RecordReader& from) {
    StoreName name{};
    if (const auto bytes = from.take(name.size()); !bytes.empty()) std::ranges::copy(bytes, name.begin());
    return name;
}

bool is_possible(const KvKind& kind) {
    const bool type = kind.dtype == DType::f32 || kind.dtype == DType::bf16 || kind.dtype == DType::i8;
    return type && kind.layers > 0 && kind.layers <= layers_max && kind.kv_heads > 0 && kind.kv_heads <= heads_max &&
           kind.head_dim > 0 && kind.head_dim <= head_dim_max;
}

}  // namespace

uint64_t checksum_of(std::span<const std::byte> bytes, uint64_t seed) {
    return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

uint64_t checksum_of(const MemoryParts& parts, uint64_t seed) {
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset_withSeed(&state, seed);
    for (const auto part : parts) XXH3_64bits_update(&state, part.data(), part.size());
    return XXH3_64bits_digest(&state);
}

size_t RecordHeader::header_bytes(size_t ids, size_t layers) {
    const size_t bytes = fixed_bytes + ids * sizeof(int32_t) + layers * layer_entry_bytes + sizeof(uint64_t);
    return round_up<size_t>(bytes, disk_alignment);
}

uint64_t RecordHeader::record_bytes() const {
    return header_bytes(ids.size(), layers.size()) + layers.size() * round_up<uint64_t>(layer_bytes(), disk_alignment);
}

void RecordHeader::lay_out() {
    uint64_t offset = header_bytes(ids.size(), layers.size());
    for (Layer& layer : layers) {
        layer.offset = offset;
        offset += round_up<uint64_t>(layer_bytes(), disk_alignment);
    }
}

std::vector<std::byte> RecordHeader::write() const {
    RecordWriter out;
    out.put(magic);
    out.put(version);
    out.put(static_cast<uint32_t>(header_bytes(ids.size(), layers.size())));
    out.pad(sealed_from);
    for (const StoreName* one : {&name, &before, &tenant}) out.put(std::span<const std::byte>(*one));
    out.put(uint64_t{0});  // no meaning in this version, and not looked at
    out.put(std::span<const std::byte>(kind.model));
    out.put(static_cast<uint8_t>(kind.dtype));
    out.put(static_cast<uint8_t>(group));
    out.put(static_cast<uint8_t>(exactness));
    out.put(uint8_t{0});
    for (const int32_t number : {kind.layers, kind.kv_heads, kind.head_dim}) out.put(number);
    out.put(tokens_before);
    out.put(static_cast<uint32_t>(ids.size()));
    out.put(static_cast<uint32_t>(layers.size()));
    out.put_all(std::span<const int32_t>(ids));
    for (const Layer& layer : layers) {
        out.put(layer.offset);
        out.put(std::span<const std::byte>(layer.proof));
    }
    out.put(checksum_of(out.bytes()));
    out.pad(disk_alignment);
    return out.take();
}

Result<RecordHeader> RecordHeader::read(std::span<const std::byte> bytes) {
    RecordReader in(bytes);
    if (in.take<uint64_t>() != magic) return damaged("beginning is not one");
    if (const auto found = in.take<uint32_t>(); found != version)
        return make_error(ErrorCode::unsupported, "a stored record is of version " + std::to_string(found) +
                                                      ", must be " + std::to_string(version));
    const size_t header = in.take<uint32_t>();
    in.take(sealed_from - proof_at);
    RecordHeader made;
    for (StoreName* one : {&made.name, &made.before, &made.tenant}) *one = take_name(in);
    in.take<uint64_t>();
    made.kind.model = take_name(in);
    const auto dtype = in.take<uint8_t>(), group = in.take<uint8_t>(), exactness = in.take<uint8_t>();
    in.take<uint8_t>();
    for (int32_t* number : {&made.kind.layers, &made.kind.kv_heads, &made.kind.head_dim}) *number = in.take<int32_t>();
    made.tokens_before = in.take<int64_t>();
    const size_t ids = in.take<uint32_t>(), layers = in.take<uint32_t>();
    if (!in.is_whole()) return damaged("header is cut off");
    made.kind.dtype = static_cast<DType>(dtype);
    if (!is_possible(made.kind) || group > 1 || exactness > 1) return damaged("kind is impossible");
    made.group = static_cast<LayerGroup>(group);
    made.exactness = static_cast<Exactness>(exactness);
    if (ids == 0 || made.tokens_before < 0 || made.tokens_before > limits::context_tokens_max ||
        made.tokens_before + static_cast<int64_t>(ids) > limits::context_tokens_max)
        return damaged("number of tokens is impossible");
    if (layers == 0 || layers > static_cast<size_t>(made.kind.layers)) return damaged("number of layers is impossible");
    if (header != header_bytes(ids, layers) || bytes.size() < header) return damaged("header is cut off");
    made.ids = in.take_all<int32_t>(ids);
    made.layers.resize(layers);
    for (Layer& layer : made.layers) {
        layer.offset = in.take<uint64_t>();
        if (const auto proof = in.take(layer.proof.size()); !proof.empty())
            std::ranges::copy(proof, layer.proof.begin());
    }
    const size_t summed = bytes.size() - in.left();
    if (in.take<uint64_t>() != checksum_of(bytes.first(summed)) || !in.is_whole())
        return damaged("header does not have its checksum");
    RecordHeader as_it_must_be = made;
    as_it_must_be.lay_out();
    for (size_t i = 0; i < layers; ++i)
        if (made.layers[i].offset != as_it_must_be.layers[i].offset) return damaged("layers lie elsewhere");
    return made;
}

}  // namespace rondo
