#include "machine/loops.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>

#include "kernels/cpu/quant_layout.hpp"

namespace rondo::bench {

namespace {

#define RONDO_LOOP_AVX2 __attribute__((target("avx2,fma")))

constexpr int chains = 4;  // rows that share a reading of the codes, as in quant_portable.cpp

/// A number that the compiler does not know to be the same each time.
RONDO_LOOP_AVX2 inline __m256i unknown(__m256i value) {
    __asm__ volatile("" : "+x"(value));
    return value;
}

/// What becomes of a sum of byte products: pairs are added in 16 bits as long as those hold them (`together` products),
/// then in 32. Without `together` codes are signed, and each product goes to 32 bits at once.
template <int together>
RONDO_LOOP_AVX2 inline __m256i add_products(__m256i sum, __m256i codes, __m256i inputs) {
    __m256i pairs = _mm256_setzero_si256();
    for (int i = 0; i < std::max(together, 1); ++i) {
        const __m256i one = together == 0 ? _mm256_sign_epi8(unknown(inputs), codes) : unknown(inputs);
        const __m256i products = _mm256_maddubs_epi16(codes, one);
        pairs = i == 0 ? products : _mm256_add_epi16(pairs, products);
    }
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

template <int together>
RONDO_LOOP_AVX2 void loop_bytes() {
    __m256i sums[chains], codes = _mm256_set1_epi8(3), inputs = _mm256_set1_epi8(2);
    for (__m256i& sum : sums) sum = codes;
    use(codes);
    for (int64_t i = 0; i < loop_steps / 8; ++i) {
        for (__m256i& sum : sums) sum = add_products<together>(sum, codes, inputs);
    }
    for (const __m256i& sum : sums) use(sum);
}

/// Each step is a block of 32 inputs; its sums become floats after each `dots` products, times the scale of a weight.
/// The scale of an input comes once a block. With minima there is one more product.
template <int dots, int together, bool minima>
RONDO_LOOP_AVX2 void loop_block() {
    float scales[chains] = {1, 2, 3, 4};
    int32_t inputs[chains] = {1, 2, 3, 4};
    const __m256i codes = _mm256_set1_epi8(3);
    const __m256 scale = _mm256_set1_ps(0.5F);
    __m256 totals[chains];
    for (__m256& total : totals) total = scale;
    for (int64_t i = 0; i < loop_steps / 8; ++i) {
        use(inputs);
        use(scales);
        __m256 scaled[chains];
        for (int done = 0; done < 8; done += dots) {
            for (int c = 0; c < chains; ++c) {
                __m256i sum = _mm256_setzero_si256();
                for (int d = 0; d < dots; d += std::max(together, 1))
                    sum = add_products<together>(sum, codes, _mm256_set1_epi32(inputs[c]));
                const __m256 floats = _mm256_cvtepi32_ps(sum), input_scale = _mm256_set1_ps(scales[c]);
                scaled[c] = done == 0 ? _mm256_mul_ps(floats, scale) : _mm256_fmadd_ps(floats, scale, scaled[c]);
                if (done + dots == 8) totals[c] = _mm256_fmadd_ps(scaled[c], input_scale, totals[c]);
                if (minima) totals[c] = _mm256_fmadd_ps(scale, input_scale, totals[c]);
            }
        }
    }
    for (const __m256& total : totals) use(total);
}

template <int dots, int together>
double block_rate(bool minima, int threads, int repeat) {
    return loop_rate(threads, repeat, 64 * chains,
                     minima ? loop_block<dots, together, true> : loop_block<dots, together, false>);
}

}  // namespace

double byte_pair_rate(int threads, int repeat) {
    return loop_rate(threads, repeat, 64 * chains, loop_bytes<8>);
}

double byte_pair_mix_rate(DType type, int threads, int repeat) {
    const cpu::QuantLayout layout = cpu::quant_layout(type);
    if (layout.subblocks == 2) {
        return layout.code_bits == 6 ? block_rate<4, 2>(layout.minima, threads, repeat)
                                     : block_rate<4, 4>(layout.minima, threads, repeat);
    }
    if (layout.code_bits == 8 || layout.codebook) return block_rate<8, 0>(layout.minima, threads, repeat);
    return layout.code_bits == 5 ? block_rate<8, 4>(layout.minima, threads, repeat)
                                 : block_rate<8, 8>(layout.minima, threads, repeat);
}

}  // namespace rondo::bench

#endif
