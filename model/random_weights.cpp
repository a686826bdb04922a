#include "model/random_weights.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "config/checked.hpp"
#include "config/mix_bits.hpp"
#include "memory/machine_memory.hpp"
#include "model/files/spec_tensors.hpp"

namespace rondo {
namespace {

constexpr size_t table_elements = 1 << 16;
constexpr size_t run_elements = 256;  // a weight is made of runs of the table, each from a place of its own

/// One of SplitMix64's numbers.
uint64_t mixed(uint64_t x) {
    return mix_bits(x + mix_step);
}

/// Deviation 0.02. The sum of four uniforms stands in for a normal: its bits are the same on every machine.
float about_normal(uint64_t bits) {
    constexpr double scale = 0.02 * 0.8660254037844386 / 65536.0;  // four uniforms of [-1, 1] have variance 4/3
    int64_t sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<int64_t>((bits >> (16 * i)) & 0xFFFF) * 2 - 0xFFFF;
    return static_cast<float>(static_cast<double>(sum) * scale);
}

void store(std::byte* to, float value, DType dtype) {
    auto bits = std::bit_cast<uint32_t>(value);
    if (dtype == DType::f32) {
        std::memcpy(to, &bits, sizeof(bits));
        return;
    }
    const auto rounded = static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
    std::memcpy(to, &rounded, sizeof(rounded));
}

size_t page_bytes() {
    return static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

class RandomWeights final : public WeightsFile {
public:
    /// Takes over `memory`, where each tensor starts on a page of its own.
    RandomWeights(std::byte* memory, size_t bytes, std::vector<FileTensor> tensors, std::vector<SpecTensor> described,
                  uint64_t seed)
        : memory_(memory),
          bytes_(bytes),
          tensors_(std::move(tensors)),
          described_(std::move(described)),
          use_(tensors_.size()),
          seed_(mixed(seed)),
          dtype_(tensors_.front().dtype),
          width_(bytes_of(dtype_, 1)),
          table_((table_elements + run_elements) * width_) {
        for (size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
        for (size_t i = 0; i < table_.size() / width_; ++i) {
            store(table_.data() + i * width_, about_normal(mixed(seed_ + i)), dtype_);
        }
    }
    ~RandomWeights() override { ::munmap(memory_, bytes_); }
    RandomWeights(const RandomWeights&) = delete;
    RandomWeights& operator=(const RandomWeights&) = delete;

    const FileTensor* find(std::string_view name) const override {
        const auto found = index_.find(name);
        if (found == index_.end()) return nullptr;
        const std::lock_guard lock(mutex_);
        make(found->second);
        return &tensors_[found->second];
    }

    const std::vector<FileTensor>& tensors() const override { return tensors_; }

    void will_need(const FileTensor& tensor) const override {
        const size_t i = index_.at(tensor.name);
        const std::lock_guard lock(mutex_);
        ++use_[i].readers;
        make(i);
    }

    void done_with(const FileTensor& tensor) const override {
        const size_t i = index_.at(tensor.name);
        const std::lock_guard lock(mutex_);
        if (use_[i].readers > 0 && --use_[i].readers > 0) return;
        ::madvise(const_cast<std::byte*>(tensor.data), tensor.bytes, MADV_DONTNEED);
        use_[i].made = false;
    }

private:
    struct Use {
        bool made = false;
        int readers = 0;
    };

    void make(size_t i) const {
        if (std::exchange(use_[i].made, true)) return;
        auto* to = const_cast<std::byte*>(tensors_[i].data);
        const auto elements = static_cast<size_t>(described_[i].elements());
        if (described_[i].kind == SpecTensor::Kind::norm) {
            for (size_t e = 0; e < elements; ++e) store(to + e * width_, 1.0F, dtype_);
            return;
        }
        const uint64_t key = mixed(seed_ ^ mixed(i));
        for (size_t e = 0; e < elements; e += run_elements) {
            const size_t from = mixed(key + e) % table_elements;
            std::memcpy(to + e * width_, table_.data() + from * width_, std::min(run_elements, elements - e) * width_);
        }
    }

    std::byte* memory_;
    size_t bytes_;
    std::vector<FileTensor> tensors_;
    std::vector<SpecTensor> described_;                   // the same, in the same order
    std::unordered_map<std::string_view, size_t> index_;  // views into tensors_, which never changes
    mutable std::mutex mutex_;                            // guards use_ and the making of bytes
    mutable std::vector<Use> use_;
    uint64_t seed_;
    DType dtype_;
    size_t width_;  // bytes of an element
    std::vector<std::byte> table_;
};

/// Where each tensor begins, and the end; nothing when the sum does not fit.
std::optional<std::vector<size_t>> layout(const std::vector<SpecTensor>& described, DType dtype) {
    std::vector<size_t> begin{0};
    for (const SpecTensor& tensor : described) {
        std::optional<size_t> bytes = bytes_of(dtype, 1);
        for (const int64_t dimension : tensor.shape) {
            bytes = bytes ? checked_mul(*bytes, static_cast<size_t>(dimension)) : bytes;
        }
        const auto end = bytes ? checked_add(begin.back(), *bytes) : bytes;
        const auto padded = end ? checked_add(*end, page_bytes()) : end;
        if (!padded) return std::nullopt;
        begin.push_back(round_up(*end, page_bytes()));
    }
    return begin;
}

}  // namespace

Result<std::unique_ptr<WeightsFile>> random_weights(const ModelSpec& spec, uint64_t seed, DType dtype,
                                                    const std::string& where) {
    assert(dtype == DType::f32 || dtype == DType::bf16);
    std::vector<SpecTensor> described = spec_tensors(spec);
    const auto begin = layout(described, dtype);
    const size_t machine_bytes = machine_memory_bytes();
    if (!begin || begin->back() > machine_bytes) {
        return make_error(ErrorCode::out_of_memory,
                          where + ": random weights need " +
                              (begin ? std::to_string(begin->back() >> 20) + " MiB" : std::string("2^64 bytes")) +
                              "; this machine has " + std::to_string(machine_bytes >> 20) + " MiB");
    }
    void* memory =
        ::mmap(nullptr, begin->back(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return make_error(ErrorCode::out_of_memory, where + ": no address space for " +
                                                        std::to_string(begin->back() >> 20) + " MiB of random weights");
    }
    std::vector<FileTensor> tensors;
    tensors.reserve(described.size());
    for (size_t i = 0; i < described.size(); ++i) {
        FileTensor& tensor = tensors.emplace_back();
        tensor.name = described[i].name;
        tensor.dtype = dtype;
        tensor.file_type = dtype == DType::f32 ? "F32" : "BF16";
        tensor.shape = described[i].shape;
        tensor.data = static_cast<const std::byte*>(memory) + (*begin)[i];
        tensor.bytes = bytes_of(dtype, described[i].elements());
    }
    return std::unique_ptr<WeightsFile>(std::make_unique<RandomWeights>(
        static_cast<std::byte*>(memory), begin->back(), std::move(tensors), std::move(described), seed));
}

}  // namespace rondo
