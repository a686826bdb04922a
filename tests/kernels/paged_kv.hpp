#pragma once

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "tests/kernels/op_fixture.hpp"

namespace rondo::test {

/// One sequence's keys in blocks. Each round starts on a fresh block, so blocks in the middle may be partly filled.
struct PagedSequence {
    std::vector<int32_t> blocks;
    std::vector<int32_t> block_begin = {0};  ///< one more entry than blocks

    int64_t keys() const { return block_begin.back(); }

    int32_t slot(int64_t key) const {
        const auto after = std::upper_bound(block_begin.begin(), block_begin.end(), static_cast<int32_t>(key));
        const int64_t i = after - block_begin.begin() - 1;
        const int64_t token = key - block_begin[static_cast<size_t>(i)];
        return static_cast<int32_t>(blocks[static_cast<size_t>(i)] * kv_block_tokens + token);
    }

    /// Slots of keys [first, first + count).
    std::vector<int32_t> slots(int64_t first, int64_t count) const {
        std::vector<int32_t> out;
        for (int64_t key = first; key < first + count; ++key) out.push_back(slot(key));
        return out;
    }
};

/// Hands out the blocks of a pool in shuffled order.
class BlockDealer {
public:
    BlockDealer(int blocks, uint64_t seed) : free_(static_cast<size_t>(blocks)) {
        std::iota(free_.begin(), free_.end(), 0);
        std::shuffle(free_.begin(), free_.end(), std::mt19937_64(seed));
    }

    PagedSequence deal(const std::vector<int64_t>& rounds) {
        PagedSequence sequence;
        for (int64_t left : rounds) {
            while (left > 0) {
                const int64_t taken = std::min<int64_t>(left, kv_block_tokens);
                sequence.blocks.push_back(free_.at(next_++));
                sequence.block_begin.push_back(sequence.block_begin.back() + static_cast<int32_t>(taken));
                left -= taken;
            }
        }
        return sequence;
    }

private:
    std::vector<int32_t> free_;
    size_t next_ = 0;
};

/// Tests over the middle one of three layers of a pool, which holds nothing but poison at first: NaN in every slot that
/// nobody wrote, in f32 and bf16 themselves and in the scales of i8.
class PagedTest : public OpTest {
protected:
    KvLayer make_layer(DType dtype, int heads, int head_dim, int blocks) {
        KvLayer kv;
        kv.atom = {dtype, head_dim};
        kv.heads = heads;
        const size_t layer_bytes = static_cast<size_t>(heads) * kv.atom.bytes();
        kv.block_stride = layers * layer_bytes;
        const std::vector<std::byte> poison(static_cast<size_t>(blocks) * kv.block_stride, std::byte{0xff});
        pool_ = const_cast<std::byte*>(upload(poison));
        pool_bytes_ = poison.size();
        kv.base = pool_ + layer_bytes;
        return kv;
    }

    /// All layers' bytes; the layer's own view of such an image.
    std::vector<std::byte> pool_image() { return download_bytes(pool_, pool_bytes_); }
    KvLayer layer_of(std::vector<std::byte>& image, KvLayer kv) {
        kv.base = image.data() + (kv.base - pool_);
        return kv;
    }

    void append(const KvLayer& kv, const Matrix& k, const Matrix& v, const std::vector<int32_t>& slots,
                DType dtype = DType::f32) {
        expect_ok(ops().append_kv(kv, upload(k, dtype), upload(v, dtype), upload(slots)));
    }

    struct KeysAndValues {
        Matrix k;
        Matrix v;
    };
    KeysAndValues read(const KvLayer& kv, const std::vector<int32_t>& slots) {
        const int64_t columns = int64_t{kv.heads} * kv.atom.head_dim;
        const Tensor k = poisoned(DType::f32, std::ssize(slots), columns);
        const Tensor v = poisoned(DType::f32, std::ssize(slots), columns);
        expect_ok(ops().read_kv(k, v, kv, upload(slots)));
        return {download(k), download(v)};
    }

private:
    static constexpr size_t layers = 3;

    std::byte* pool_ = nullptr;
    size_t pool_bytes_ = 0;
};

inline constexpr DType kv_types[] = {DType::f32, DType::bf16, DType::i8};

}  // namespace rondo::test
