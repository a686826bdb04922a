#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/result.hpp"
#include "model/files/spec.hpp"
#include "model/files/weights_file.hpp"

namespace rondo {

/// A tensor that a model of some spec is made of, under Hugging Face's name.
struct SpecTensor {
    enum class Kind { matrix, norm, bias };
    std::string name;
    Kind kind = Kind::matrix;
    std::vector<int64_t> shape;  ///< outermost first; matrices are [outputs, inputs]

    int64_t elements() const {
        int64_t product = 1;
        for (const int64_t dimension : shape) product *= dimension;
        return product;
    }
};

/// All of them, in the order in which a forward pass reads them. A tied model has no lm_head.weight.
std::vector<SpecTensor> spec_tensors(const ModelSpec& spec);

/// Whether the file holds exactly what the spec needs: each tensor is there, with its shape and a type that can be used
/// in its place (norms and biases are not quantized). A tensor that the spec has no place for is an error too, because
/// leaving it out would change the model's answers. Only lm_head.weight of a tied model and stored RoPE tables are
/// passed over.
Status check_weights(const ModelSpec& spec, const WeightsFile& weights, const std::string& where);

}  // namespace rondo
