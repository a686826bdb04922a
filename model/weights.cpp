#include "model/weights.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "kernels/quant.hpp"
#include "model/files/spec_tensors.hpp"

namespace rondo {

namespace {

constexpr size_t read_ahead_bytes = size_t{64} << 20;

/// Where q's and k's rotated pairs lie as neighbours (GGUF's Llama), output row (head, half j, i) is file row (head, i,
/// j).
std::vector<int32_t> halves_from_neighbours(int64_t heads, int64_t head_dim) {
    std::vector<int32_t> order;
    order.reserve(static_cast<size_t>(heads * head_dim));
    for (int64_t head = 0; head < heads; ++head) {
        for (int64_t j = 0; j < 2; ++j) {
            for (int64_t i = 0; i < head_dim / 2; ++i)
                order.push_back(static_cast<int32_t>(head * head_dim + 2 * i + j));
        }
    }
    return order;
}

/// Reads one model's tensors into one device.
class Loader {
public:
    Loader(const ModelSpec& spec, const WeightsFile& file, Device& device, const std::function<void(double)>& progress)
        : spec_(spec), file_(file), device_(device), progress_(progress) {
        std::unordered_map<std::string_view, const FileTensor*> by_name;  // `find` would ask for each now
        for (const FileTensor& tensor : file.tensors()) by_name[tensor.name] = &tensor;
        for (const SpecTensor& wanted : spec_tensors(spec)) {
            const auto found = by_name.find(wanted.name);
            if (found == by_name.end()) continue;  // which is told when it is looked for
            bytes_total_ += found->second->bytes;
            in_order_.push_back(found->second);
        }
        if (spec.paired_neighbours) {
            q_order_ = halves_from_neighbours(spec.heads, spec.head_dim);
            k_order_ = halves_from_neighbours(spec.kv_heads, spec.head_dim);
        }
    }

    Result<std::unique_ptr<Weights>> load() {
        auto weights = std::make_unique<Weights>();
        weights->spec = spec_;
        RONDO_ASSIGN(weights->embedding, matrix({{"model.embed_tokens.weight"}}));
        if (!spec_.tied_embeddings) only_bf16_ = true;  // rows are taken of it, and nothing is multiplied
        weights->layers.resize(static_cast<size_t>(spec_.layers));
        for (int l = 0; l < spec_.layers; ++l) RONDO_TRY(load_layer(l, weights->layers[static_cast<size_t>(l)]));
        RONDO_ASSIGN(weights->final_norm, vector({{"model.norm.weight"}}));
        if (!spec_.tied_embeddings) {
            RONDO_ASSIGN(weights->head, matrix({{"lm_head.weight"}}));
        }
        weights->activation = only_bf16_ ? DType::bf16 : DType::f32;
        return weights;
    }

private:
    /// A tensor by name, and the order of its rows when it is not the file's.
    struct Part {
        std::string name;
        const std::vector<int32_t>* order = nullptr;
    };

    Status load_layer(int l, LayerWeights& layer) {
        const std::string prefix = "model.layers." + std::to_string(l) + ".";
        const std::string attention = prefix + "self_attn.";
        const std::string mlp = prefix + "mlp.";
        const auto qkv = [&](const char* leaf) {
            return std::vector<Part>{{attention + "q_proj." + leaf, &q_order_},
                                     {attention + "k_proj." + leaf, &k_order_},
                                     {attention + "v_proj." + leaf}};
        };
        RONDO_ASSIGN(layer.attention_norm, vector({{prefix + "input_layernorm.weight"}}));
        RONDO_ASSIGN(layer.qkv, matrix(qkv("weight")));
        if (spec_.attention_bias) {
            RONDO_ASSIGN(layer.qkv_bias, vector(qkv("bias")));
        }
        if (spec_.qk_norm) {
            RONDO_ASSIGN(layer.q_norm, vector({{attention + "q_norm.weight"}}));
            RONDO_ASSIGN(layer.k_norm, vector({{attention + "k_norm.weight"}}));
        }
        RONDO_ASSIGN(layer.output, matrix({{attention + "o_proj.weight"}}));
        if (spec_.output_bias) {
            RONDO_ASSIGN(layer.output_bias, vector({{attention + "o_proj.bias"}}));
        }
        RONDO_ASSIGN(layer.ffn_norm, vector({{prefix + "post_attention_layernorm.weight"}}));
        RONDO_ASSIGN(layer.gate_up, matrix({{mlp + "gate_proj.weight"}, {mlp + "up_proj.weight"}}));
        RONDO_ASSIGN(layer.down, matrix({{mlp + "down_proj.weight"}}));
        if (spec_.mlp_bias) {
            RONDO_ASSIGN(layer.gate_up_bias, vector({{mlp + "gate_proj.bias"}, {mlp + "up_proj.bias"}}));
            RONDO_ASSIGN(layer.down_bias, vector({{mlp + "down_proj.bias"}}));
        }
        return Status::ok();
    }

    Result<const FileTensor*> find(const std::string& name) const {
        const FileTensor* const tensor = file_.find(name);
        if (tensor == nullptr) return make_error(ErrorCode::not_found, "the model file has no tensor " + name);
        return tensor;
    }

    Result<std::unique_ptr<PackedMatrix>> matrix(const std::vector<Part>& parts) {
        std::vector<HostMatrix> matrices;
        std::vector<const FileTensor*> tensors;
        for (const Part& part : parts) {
            RONDO_ASSIGN(const FileTensor* const tensor, find(part.name));
            read_ahead(*tensor);
            HostMatrix matrix{tensor->data, tensor->dtype, tensor->shape[0], tensor->shape[1], {}};
            if (part.order != nullptr) matrix.row_order = *part.order;
            matrices.push_back(matrix);
            only_bf16_ = only_bf16_ && tensor->dtype == DType::bf16;
            tensors.push_back(tensor);
        }
        auto packed = device_.ops().pack(matrices);
        for (const FileTensor* const tensor : tensors) done_with(*tensor);
        return packed;
    }

    /// Asks for a tensor and for those that are loaded next, so that the disk works while tensors are packed. They may
    /// lie in several files, in any order.
    void read_ahead(const FileTensor& tensor) {
        bytes_begun_ += tensor.bytes;
        for (; asked_ < in_order_.size() && bytes_asked_ < bytes_begun_ + read_ahead_bytes; ++asked_) {
            file_.will_need(*in_order_[asked_]);
            bytes_asked_ += in_order_[asked_]->bytes;
        }
    }

    /// Parts one after the other, as f32 in device memory.
    Result<Buffer> vector(const std::vector<Part>& parts) {
        std::vector<float> values;
        for (const Part& part : parts) {
            RONDO_ASSIGN(const FileTensor* const tensor, find(part.name));
            read_ahead(*tensor);
            const auto count = tensor->shape[0];
            std::vector<float> read(static_cast<size_t>(count));
            dequantize_row(tensor->dtype, tensor->data, read.data(), count);
            const bool ordered = part.order != nullptr && !part.order->empty();
            for (size_t i = 0; i < read.size(); ++i)
                values.push_back(read[ordered ? static_cast<size_t>((*part.order)[i]) : i]);
            done_with(*tensor);
        }
        const size_t bytes = values.size() * sizeof(float);
        RONDO_ASSIGN(Buffer buffer, device_.allocate(bytes));
        RONDO_TRY(device_.copy(buffer.data(), values.data(), bytes, StreamId::compute));
        RONDO_TRY(device_.drain(StreamId::compute));
        return buffer;
    }

    void done_with(const FileTensor& tensor) {
        file_.done_with(tensor);
        bytes_done_ += tensor.bytes;
        if (progress_)
            progress_(static_cast<double>(bytes_done_) / static_cast<double>(std::max<size_t>(bytes_total_, 1)));
    }

    const ModelSpec& spec_;
    const WeightsFile& file_;
    Device& device_;
    const std::function<void(double)>& progress_;
    std::vector<int32_t> q_order_, k_order_;
    bool only_bf16_ = true;                    // are matrices so far
    std::vector<const FileTensor*> in_order_;  // of loading
    size_t asked_ = 0;                         // of those, how many have been asked for
    size_t bytes_asked_ = 0, bytes_begun_ = 0;
    size_t bytes_total_ = 0;
    size_t bytes_done_ = 0;
};

}  // namespace

size_t Weights::bytes() const {
    size_t total = embedding->bytes() + (head != nullptr ? head->bytes() : 0) + final_norm.bytes();
    for (const LayerWeights& layer : layers) {
        for (const auto* matrix : {&layer.qkv, &layer.output, &layer.gate_up, &layer.down}) total += (*matrix)->bytes();
        for (const auto* vector : {&layer.attention_norm, &layer.qkv_bias, &layer.q_norm, &layer.k_norm,
                                   &layer.output_bias, &layer.ffn_norm, &layer.gate_up_bias, &layer.down_bias}) {
            total += vector->bytes();
        }
    }
    return total;
}

Result<std::unique_ptr<Weights>> load_weights(const ModelSpec& spec, const WeightsFile& file, Device& device,
                                              const std::function<void(double)>& progress) {
    return Loader(spec, file, device, progress).load();
}

}  // namespace rondo
