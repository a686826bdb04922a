#pragma once

#include <memory>
#include <vector>

#include "config/result.hpp"
#include "kernels/device.hpp"
#include "kernels/ops.hpp"
#include "model/files/spec.hpp"
#include "model/files/weights_file.hpp"

namespace rondo {

/// One layer on a device. Norms and biases are f32 vectors; a Buffer without bytes is one the architecture does not
/// have.
struct LayerWeights {
    Buffer attention_norm;                  ///< [D]
    std::unique_ptr<PackedMatrix> qkv;      ///< [(H + 2G)·d, D]
    Buffer qkv_bias;                        ///< [(H + 2G)·d]
    Buffer q_norm, k_norm;                  ///< [d]
    std::unique_ptr<PackedMatrix> output;   ///< [D, H·d]
    Buffer output_bias;                     ///< [D]
    Buffer ffn_norm;                        ///< [D]
    std::unique_ptr<PackedMatrix> gate_up;  ///< [2F, D]
    Buffer gate_up_bias;                    ///< [2F]
    std::unique_ptr<PackedMatrix> down;     ///< [D, F]
    Buffer down_bias;                       ///< [D]
};

/// A model's weights in one memory space, immutable; devices of that space share them.
struct Weights {
    ModelSpec spec;
    DType activation = DType::bf16;           ///< of what flows into products: bf16 where all weights are, else f32
    std::unique_ptr<PackedMatrix> embedding;  ///< [V, D]
    std::unique_ptr<PackedMatrix> head;       ///< [V, D]; none when tied
    Buffer final_norm;                        ///< [D]
    std::vector<LayerWeights> layers;

    const PackedMatrix& output_head() const { return head != nullptr ? *head : *embedding; }
    size_t bytes() const;
};

/// Packs a file's tensors for a device, one after the other. The pages of a tensor are given up as soon as it is
/// packed, so two copies of the model never exist. `progress` hears the share done; it may be empty.
Result<std::unique_ptr<Weights>> load_weights(const ModelSpec& spec, const WeightsFile& file, Device& device,
                                              const std::function<void(double)>& progress = {});

}  // namespace rondo
