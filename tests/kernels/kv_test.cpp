#include <cmath>
#include <thread>

#include "kernels/cpu/append_kv.hpp"
#include "tests/kernels/paged_kv.hpp"

namespace rondo::test {
namespace {

class Kv : public PagedTest {
protected:
    /// Checks one written token of an i8 atom by value, since a tie may round either way between backends. Then it
    /// makes both images agree on those bytes, so that the rest can be compared exactly.
    void settle_codes(const KvAtom& layout, std::byte* got, int token, std::span<const double> k,
                      std::span<const double> v) {
        std::vector<double> k_read(k.size());
        std::vector<double> v_read(v.size());
        reference::read_token(layout, got, token, k_read, v_read);
        expect_within_half_a_code(k_read, k);
        expect_within_half_a_code(v_read, v);
        reference::write_token(layout, got, token, k, v);
    }

    /// The layout itself: the image after the append against one written by the reference.
    void expect_image(const KvLayer& kv, std::vector<std::byte> image, const Matrix& k, const Matrix& v,
                      const std::vector<int32_t>& slots) {
        std::vector<std::byte> got = pool_image();
        const KvLayer expected_layer = layer_of(image, kv);
        const KvLayer got_layer = layer_of(got, kv);
        const int64_t d = kv.atom.head_dim;
        for (int64_t r = 0; r < k.rows; ++r) {
            for (int h = 0; h < kv.heads; ++h) {
                const int32_t slot = slots[static_cast<size_t>(r)];
                const int token = slot % kv_block_tokens;
                const std::span<const double> k_head(&k.values[static_cast<size_t>(r * k.columns + h * d)], d);
                const std::span<const double> v_head(&v.values[static_cast<size_t>(r * v.columns + h * d)], d);
                reference::write_token(kv.atom, expected_layer.at(slot / kv_block_tokens, h), token, k_head, v_head);
                if (kv.atom.dtype != DType::i8) continue;
                settle_codes(kv.atom, got_layer.at(slot / kv_block_tokens, h), token, k_head, v_head);
            }
        }
        EXPECT_TRUE(got == image) << "first difference at byte "
                                  << std::mismatch(got.begin(), got.end(), image.begin()).first - got.begin();
    }

private:
    static void expect_within_half_a_code(std::span<const double> read, std::span<const double> written) {
        double largest = 0.0;
        for (double value : written) largest = std::max(largest, std::abs(value));
        for (size_t c = 0; c < read.size(); ++c) {
            EXPECT_NEAR(read[c], written[c], largest / 127.0 * 0.50001) << "channel " << c;
        }
    }
};
RONDO_ON_EVERY_DEVICE(Kv);

constexpr int blocks = 5;

/// 23 of the 80 slots, in no order: among them pairs, halves of pairs and whole gaps.
std::vector<int32_t> scattered_slots(uint64_t seed) {
    std::vector<int32_t> all(blocks * kv_block_tokens);
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), std::mt19937_64(seed));
    all.resize(23);
    return all;
}

TEST_P(Kv, AppendWritesTheStatedBytesAndNoOthers) {
    const std::vector<int32_t> slots = scattered_slots(51);
    for (DType stored : kv_types) {
        for (DType given : activation_types) {
            for (int heads : {1, 2, 7}) {
                for (int d : {16, 32, 64, 96, 128}) {
                    SCOPED_TRACE(testing::Message() << traits(given).name << " to " << traits(stored).name << ", "
                                                    << heads << " heads of " << d);
                    const KvLayer kv = make_layer(stored, heads, d, blocks);
                    const Matrix k = rounded(random_matrix(23, heads * d, 52), given);
                    const Matrix v = rounded(random_matrix(23, heads * d, 53, 20.0), given);
                    std::vector<std::byte> before = pool_image();
                    append(kv, k, v, slots, given);
                    expect_image(kv, std::move(before), k, v, slots);
                }
            }
        }
    }
}

TEST_P(Kv, RewritingATokenLeavesItsNeighboursAlone) {
    for (DType stored : kv_types) {
        const KvLayer kv = make_layer(stored, 2, 64, blocks);
        std::vector<int32_t> all(blocks * kv_block_tokens);
        std::iota(all.begin(), all.end(), 0);
        append(kv, random_matrix(std::ssize(all), 128, 54), random_matrix(std::ssize(all), 128, 55), all);
        for (int32_t slot : {0, 15, 16, 34, 35, 79}) {
            SCOPED_TRACE(testing::Message() << traits(stored).name << ", slot " << slot);
            const Matrix k = random_matrix(1, 128, 56);
            const Matrix v = random_matrix(1, 128, 57);
            std::vector<std::byte> before = pool_image();
            append(kv, k, v, {slot});
            expect_image(kv, std::move(before), k, v, {slot});
        }
    }
}

TEST_P(Kv, ReadGivesBackWhatTheLayoutHolds) {
    const std::vector<int32_t> slots = scattered_slots(58);
    for (DType stored : kv_types) {
        for (int heads : {1, 7}) {
            for (int d : {16, 96, 128}) {
                SCOPED_TRACE(testing::Message() << traits(stored).name << ", " << heads << " heads of " << d);
                const KvLayer kv = make_layer(stored, heads, d, blocks);
                append(kv, random_matrix(23, heads * d, 59), random_matrix(23, heads * d, 60), slots);
                const KeysAndValues got = read(kv, slots);
                std::vector<std::byte> image = pool_image();
                const KvLayer layer = layer_of(image, kv);
                KeysAndValues expected{Matrix(23, heads * d), Matrix(23, heads * d)};
                for (int64_t r = 0; r < 23; ++r) {
                    const int32_t slot = slots[static_cast<size_t>(r)];
                    for (int h = 0; h < heads; ++h) {
                        reference::read_token(kv.atom, layer.at(slot / kv_block_tokens, h), slot % kv_block_tokens,
                                              std::span(&expected.k.at(r, h * d), d),
                                              std::span(&expected.v.at(r, h * d), d));
                    }
                }
                // f32 and bf16 come back as they are; i8 is one product, rounded to f32.
                EXPECT_LE(relative_error(got.k, expected.k), stored == DType::i8 ? 0x1p-24 : 0.0);
                EXPECT_LE(relative_error(got.v, expected.v), stored == DType::i8 ? 0x1p-24 : 0.0);
            }
        }
    }
}

TEST_P(Kv, NegativeSlotsAreNeitherWrittenNorRead) {
    for (DType stored : kv_types) {
        SCOPED_TRACE(traits(stored).name);
        const KvLayer kv = make_layer(stored, 2, 32, 2);
        const Matrix k = random_matrix(3, 64, 64);
        const Matrix v = random_matrix(3, 64, 65);
        std::vector<std::byte> before = pool_image();
        append(kv, k, v, {-1, 17, -1});
        expect_image(kv, std::move(before), k.slice_rows(1, 1), v.slice_rows(1, 1), {17});
        const KeysAndValues got = read(kv, {-1, 17, -1});
        for (int64_t c = 0; c < 64; ++c) {
            EXPECT_TRUE(std::isnan(got.k.at(0, c)) && std::isnan(got.v.at(2, c)));  // still the output's own poison
            EXPECT_FALSE(std::isnan(got.k.at(1, c)) || std::isnan(got.v.at(1, c)));
        }
    }
}

TEST_P(Kv, QuantizedRowsOfZerosAndOfVanishingValuesReadAsZero) {
    const KvLayer kv = make_layer(DType::i8, 1, 32, 1);
    Matrix k(2, 32);
    k.at(1, 3) = 0x1p-149;
    const Matrix v = random_matrix(2, 32, 61);
    append(kv, k, v, {2, 3});
    for (double value : read(kv, {2, 3}).k.values) EXPECT_EQ(value, 0.0);
    std::vector<std::byte> image = pool_image();
    float scale = 1.0F;
    std::memcpy(&scale, layer_of(image, kv).at(0, 0) + kv.atom.scales_offset() + 2 * sizeof(float), sizeof(scale));
    EXPECT_EQ(scale, 0.0F);
}

TEST_P(Kv, ANanIsNeverReadBackAsANumber) {
    for (DType stored : kv_types) {
        const KvLayer kv = make_layer(stored, 1, 32, 1);
        Matrix k = random_matrix(1, 32, 62);
        k.at(0, 5) = std::nan("");
        append(kv, k, random_matrix(1, 32, 63), {7});
        const KeysAndValues got = read(kv, {7});
        EXPECT_TRUE(std::isnan(got.k.at(0, 5))) << traits(stored).name;
        for (double value : got.v.values) EXPECT_FALSE(std::isnan(value)) << traits(stored).name;
    }
}

/// The two tokens of a bf16 pair share every four bytes of V, and two conversations' threads may write them at once.
TEST(KvPairs, TwoThreadsMayWriteTheTokensOfOnePair) {
    constexpr int d = 128;
    const KvAtom atom{DType::bf16, d};
    std::vector<std::byte> bytes(atom.bytes());
    const KvLayer kv{bytes.data(), bytes.size(), 1, atom};
    const auto write = [&](int token, float value) {
        const std::vector<float> row(d, value);
        float* data = const_cast<float*>(row.data());
        const Tensor tensor = Tensor::of(data, DType::f32, 1, d);
        const int32_t slot = token;
        for (int i = 0; i < 20000; ++i) cpu::append_kv_rows(kv, tensor, tensor, &slot, 0, 1);
    };
    for (int attempt = 0; attempt < 5; ++attempt) {
        std::fill(bytes.begin(), bytes.end(), std::byte{0});
        std::thread even(write, 4, 1.0F);
        std::thread odd(write, 5, 2.0F);
        even.join();
        odd.join();
        std::vector<double> k(d);
        std::vector<double> v(d);
        reference::read_token(atom, bytes.data(), 4, k, v);
        EXPECT_EQ(v, std::vector<double>(d, 1.0));
        reference::read_token(atom, bytes.data(), 5, k, v);
        EXPECT_EQ(v, std::vector<double>(d, 2.0));
    }
}

}  // namespace
}  // namespace rondo::test
