#include "model/files/safetensors.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "model/files/mapped_file.hpp"
#include "model/files/mapped_weights.hpp"
#include "tests/model/model_bytes.hpp"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t size_max);

/// Starts from a whole small file, which chance would not find, and goes on by libFuzzer's own mutations.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t size_max, unsigned) {
    if (size >= 16) return LLVMFuzzerMutate(data, size, size_max);
    static const std::string whole = rondo::testing::safetensors_file(
        R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[12,20]},)"
        R"("a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]}})",
        20);
    const size_t copied = std::min(whole.size(), size_max);
    std::memcpy(data, whole.data(), copied);
    return copied;
}

/// A safetensors file: whatever the header says, an accepted tensor lies inside the file and its bytes can be read.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
    auto tensors = rondo::parse_safetensors(bytes, "fuzz");
    if (!tensors) return 0;
    const rondo::MappedFile file = rondo::MappedFile::over(bytes);
    unsigned sum = 0;
    for (const rondo::FileTensor& tensor : *tensors) {
        if (!file.contains({tensor.data, tensor.bytes})) std::abort();
        for (size_t i = 0; i < tensor.bytes; ++i) sum += static_cast<unsigned>(tensor.data[i]);
    }
    volatile unsigned read = sum;
    (void)read;
    const std::string name = tensors->empty() ? "" : tensors->front().name;
    const auto weights = rondo::make_mapped_weights({}, std::move(*tensors), "fuzz");
    if (!weights || (!name.empty() && (*weights)->find(name) == nullptr)) std::abort();
    return 0;
}
