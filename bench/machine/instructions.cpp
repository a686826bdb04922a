#include "machine/loops.hpp"

#if defined(__x86_64__)
// GCC 12 takes the deliberately undefined operands inside its own intrinsics for a mistake of ours.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

#include "kernels/cpu/cpu_features.hpp"
#include "kernels/quant.hpp"

namespace rondo::bench {

namespace {

constexpr int chains = 12;  // sums that do not wait for each other

#define RONDO_LOOP_512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16")))
#define RONDO_LOOP_256 __attribute__((target("avx2,fma")))

RONDO_LOOP_512 void loop_fma_512() {
    __m512 sums[chains], factor = _mm512_set1_ps(0.5F), addend = _mm512_set1_ps(0.25F);
    for (__m512& sum : sums) sum = factor;
    use(factor);
    for (int64_t i = 0; i < loop_steps; ++i) {
        for (__m512& sum : sums) sum = _mm512_fmadd_ps(factor, addend, sum);
    }
    for (const __m512& sum : sums) use(sum);
}

RONDO_LOOP_256 void loop_fma_256() {
    __m256 sums[chains], factor = _mm256_set1_ps(0.5F), addend = _mm256_set1_ps(0.25F);
    for (__m256& sum : sums) sum = factor;
    use(factor);
    for (int64_t i = 0; i < loop_steps; ++i) {
        for (__m256& sum : sums) sum = _mm256_fmadd_ps(factor, addend, sum);
    }
    for (const __m256& sum : sums) use(sum);
}

RONDO_LOOP_512 void loop_bf16() {
    __m512 sums[chains];
    const auto factor = (__m512bh)_mm512_set1_epi16(0x3f00);
    for (__m512& sum : sums) sum = _mm512_setzero_ps();
    use(factor);
    for (int64_t i = 0; i < loop_steps; ++i) {
        for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, factor, factor);
    }
    for (const __m512& sum : sums) use(sum);
}

RONDO_LOOP_512 void loop_int8() {
    __m512i sums[chains], codes = _mm512_set1_epi8(3), inputs = _mm512_set1_epi8(2);
    for (__m512i& sum : sums) sum = codes;
    use(codes);
    for (int64_t i = 0; i < loop_steps; ++i) {
        for (__m512i& sum : sums) sum = _mm512_dpbusd_epi32(sum, codes, inputs);
    }
    for (const __m512i& sum : sums) use(sum);
}

constexpr int mix_chains = 8;  // beside their totals and a block's codes, all that 32 registers hold

/// Each step is a block of 32 inputs. Its sums of byte products become floats after each `dots` products, times the
/// scale of a weight: the first without a conversion, as the kernels have it (lift in quant_wide.cpp). The scale of an
/// input comes once a block. With minima there is one more product.
template <int dots, bool minima>
RONDO_LOOP_512 void loop_quant() {
    alignas(64) float scales[mix_chains] = {1, 2, 3, 4, 5, 6, 7, 8};
    int32_t inputs[mix_chains] = {1, 2, 3, 4, 5, 6, 7, 8};
    __m512i codes = _mm512_set1_epi8(3);
    __m512 totals[mix_chains], scale = _mm512_set1_ps(0.5F);
    for (__m512& total : totals) total = scale;
    for (int64_t i = 0; i < loop_steps / 8; ++i) {
        use(inputs);
        __m512 scaled[mix_chains];
        for (int done = 0; done < 8; done += dots) {
            __m512i sums[mix_chains];
            for (__m512i& sum : sums) sum = _mm512_castps_si512(_mm512_set1_ps(0x1.8p23F));
            for (int d = 0; d < dots; ++d) {
                for (int c = 0; c < mix_chains; ++c) {
                    sums[c] = _mm512_dpbusd_epi32(sums[c], codes, _mm512_set1_epi32(inputs[c]));
                }
            }
            for (int c = 0; c < mix_chains; ++c) {
                const __m512 input_scale = _mm512_set1_ps(scales[c]);
                scaled[c] = done == 0 ? _mm512_fmadd_ps(_mm512_castsi512_ps(sums[c]), scale, scale)
                                      : _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[c]), scale, scaled[c]);
                if (done + dots == 8) totals[c] = _mm512_fmadd_ps(scaled[c], input_scale, totals[c]);
                if (minima) totals[c] = _mm512_fmadd_ps(scale, input_scale, totals[c]);
            }
            use(scales);
            use(inputs);
        }
    }
    for (const __m512& total : totals) use(total);
}

}  // namespace

InstructionRates instruction_rates(int threads, int repeat) {
    const cpu::CpuFeatures& has = cpu::cpu_features();
    InstructionRates rates;
    rates.fma_f32 = has.avx512 ? loop_rate(threads, repeat, 32 * chains, loop_fma_512)
                               : loop_rate(threads, repeat, 16 * chains, loop_fma_256);
    if (has.avx512_bf16) rates.dot_bf16 = loop_rate(threads, repeat, 64 * chains, loop_bf16);
    if (has.avx512_vnni) {
        rates.dot_int8 = loop_rate(threads, repeat, 128 * chains, loop_int8);
    } else if (!has.avx512) {
        rates.dot_int8 = byte_pair_rate(threads, repeat);
    }
    return rates;
}

double quant_mix_rate(DType type, int threads, int repeat) {
    const cpu::CpuFeatures& has = cpu::cpu_features();
    if (!has.avx512_vnni) return has.avx512 ? 0.0 : byte_pair_mix_rate(type, threads, repeat);
    const bool halves = quant_subblock(type) == 16, minima = quant_offset(type) == 0;
    constexpr double operations = 128 * mix_chains;
    if (halves) return loop_rate(threads, repeat, operations, minima ? loop_quant<4, true> : loop_quant<4, false>);
    return loop_rate(threads, repeat, operations, minima ? loop_quant<8, true> : loop_quant<8, false>);
}

}  // namespace rondo::bench

#else

namespace rondo::bench {

InstructionRates instruction_rates(int, int) {
    return {};
}

double quant_mix_rate(DType, int, int) {
    return 0.0;
}

}  // namespace rondo::bench

#endif
