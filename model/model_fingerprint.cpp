#include "model/model_fingerprint.hpp"

#include <bit>
#include <cstring>

#include "memory/store/byte_io.hpp"

namespace rondo {

namespace {

constexpr uint64_t format = 1;  // another way to compute fingerprints needs another number

class Fields {
public:
    void add(std::integral auto value) { out_.put(static_cast<int64_t>(value)); }
    void add(double value) { out_.put(std::bit_cast<uint64_t>(value)); }
    void add(std::string_view text) {
        add(text.size());
        out_.put(std::as_bytes(std::span(text)));
    }
    StoreName name() const {
        StoreName name{};
        for (size_t half = 0; half < 2; ++half) {
            const uint64_t sum = checksum_of(out_.bytes(), half);
            std::memcpy(name.data() + half * sizeof(sum), &sum, sizeof(sum));
        }
        return name;
    }

private:
    RecordWriter out_;
};

void add_rope(Fields& to, const RopeSpec& rope) {
    to.add(rope.theta);
    to.add(static_cast<int>(rope.scaling));
    to.add(rope.factor);
    to.add(rope.low_frequency_factor);
    to.add(rope.high_frequency_factor);
    to.add(rope.original_context);
    to.add(rope.frequency_divisors.size());
    for (const double divisor : rope.frequency_divisors) to.add(divisor);
}

void add_spec(Fields& to, const ModelSpec& spec) {
    to.add(std::string_view(spec.architecture));
    for (const int64_t number : {int64_t{spec.layers}, spec.width, int64_t{spec.heads}, int64_t{spec.kv_heads},
                                 int64_t{spec.head_dim}, spec.ffn_width, spec.vocabulary, spec.sliding_window})
        to.add(number);
    to.add(static_cast<double>(spec.norm_eps));
    for (const bool flag : {spec.attention_bias, spec.output_bias, spec.mlp_bias, spec.qk_norm, spec.paired_neighbours})
        to.add(flag);
    add_rope(to, spec.rope);
}

}  // namespace

StoreName fingerprint_of(const ModelFiles& files, const WeightsChoice& choice) {
    Fields fields;
    fields.add(format);
    add_spec(fields, files.spec);
    fields.add(choice.random_seed.has_value());
    fields.add(choice.random_seed.value_or(0));
    fields.add(static_cast<int>(choice.random_dtype));
    if (choice.random_seed || files.weights == nullptr) return fields.name();
    for (const FileTensor& tensor : files.weights->tensors()) {
        fields.add(std::string_view(tensor.name));
        fields.add(std::string_view(tensor.file_type));
        for (const int64_t size : tensor.shape) fields.add(size);
        if (!tensor.usable) continue;
        files.weights->will_need(tensor);
        fields.add(checksum_of({tensor.data, tensor.bytes}));
        files.weights->done_with(tensor);
    }
    return fields.name();
}

}  // namespace rondo
