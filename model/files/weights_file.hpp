#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"
#include "kernels/dtype.hpp"

namespace rondo {

/// One tensor of a model file: bytes inside a mapping that the WeightsFile owns. Shape is outermost first.
struct FileTensor {
    std::string
        name;  ///< Hugging Face's name, whichever format the file has ("model.layers.0.self_attn.q_proj.weight")
    DType dtype = DType::f32;
    std::string file_type;  ///< the type as the file names it ("BF16", "Q4_K")
    bool usable = true;     ///< false: a type without a DType; `dtype` means nothing and `data` may be null
    std::vector<int64_t> shape;
    const std::byte* data = nullptr;  ///< at any address: old safetensors files do not align their tensors
    size_t bytes = 0;
};

/// The tensors of a model, mapped read-only. Implementations: safetensors (single file or sharded index), GGUF, random.
/// A reader calls will_need, reads, calls done_with. A tensor's bytes may be away until will_need or find was called
/// for it, and after done_with: random weights are made on demand. So each thread that reads a tensor calls both.
class WeightsFile {
public:
    virtual ~WeightsFile() = default;
    /// nullptr when there is none of that name.
    virtual const FileTensor* find(std::string_view name) const = 0;
    virtual const std::vector<FileTensor>& tensors() const = 0;
    /// Tells the kernel that the pages of this tensor are wanted soon / not wanted any more.
    virtual void will_need(const FileTensor& tensor) const = 0;
    virtual void done_with(const FileTensor& tensor) const = 0;
};

}  // namespace rondo
