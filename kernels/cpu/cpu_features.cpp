#include "kernels/cpu/cpu_features.hpp"

#include <hwy/targets.h>

#include <cstdlib>
#include <string>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace rondo::cpu {
namespace {

#if defined(__x86_64__)

bool bit(unsigned word, int index) {
    return (word >> index & 1U) != 0;
}

/// The register state that the operating system saves on a context switch.
unsigned saved_state() {
    unsigned low = 0;
    unsigned high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/// Linux hands out the 8 kB of tile data only to a process that asks; threads made later inherit the right.
bool request_tiles() {
    constexpr int request_permission = 0x1023;
    constexpr int tile_data = 18;
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

CpuFeatures detect() {
    CpuFeatures found;
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || !bit(c, 27)) return found;  // OSXSAVE, without it no xgetbv
    const unsigned saved = saved_state();
    constexpr unsigned avx512_state = 0xE6;  // XMM, YMM, mask registers, both parts of ZMM
    constexpr unsigned tile_state = 3U << 17;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (saved & avx512_state) != avx512_state) return found;
    found.avx512 = bit(b, 16) && bit(b, 17) && bit(b, 30) && bit(b, 31);
    if (!found.avx512) return found;
    found.avx512_vnni = bit(c, 11);
    const bool tiles = bit(d, 22) && bit(d, 24) && (saved & tile_state) == tile_state;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) found.avx512_bf16 = bit(a, 5);
    found.amx_bf16 = tiles && found.avx512_bf16 && request_tiles();
    return found;
}

#else

CpuFeatures detect() {
    return {};
}

#endif

const CpuFeatures& machine() {
    static const CpuFeatures features = detect();
    return features;
}

std::string_view tier_of_environment() {
    const char* const value = std::getenv("RONDO_CPU");
    return value != nullptr ? value : "";
}

CpuFeatures lowered_by_environment(CpuFeatures features) {
    const std::string_view tier = tier_of_environment();
    if (tier == "portable") return {};
    if (tier == "avx2") {
        hwy::DisableTargets(HWY_AVX2 - 1);  // those after AVX2, whose bits are lower
        return {};
    }
    if (tier == "avx512") features.amx_bf16 = false;
    return features;
}

CpuFeatures& current() {
    static CpuFeatures features = lowered_by_environment(machine());
    return features;
}

}  // namespace

const CpuFeatures& cpu_features() {
    return current();
}

Status check_cpu_variable() {
    const std::string_view tier = tier_of_environment();
    for (const std::string_view known : {"", "portable", "avx2", "avx512", "amx"})
        if (tier == known) return Status::ok();
    return make_error(ErrorCode::invalid_argument, "the environment variable RONDO_CPU is \"" + std::string(tier) +
                                                       "\", must be portable, avx2, avx512 or amx");
}

CpuTier cpu_tier() {
    const CpuFeatures& features = current();
    if (features.amx_bf16) return CpuTier::amx;
    return features.avx512 ? CpuTier::avx512 : CpuTier::portable;
}

void override_cpu_features_for_test(const CpuFeatures& features) {
    const CpuFeatures& has = machine();
    CpuFeatures next;
    next.avx512 = has.avx512 && features.avx512;
    next.avx512_bf16 = has.avx512_bf16 && next.avx512 && features.avx512_bf16;
    next.avx512_vnni = has.avx512_vnni && next.avx512 && features.avx512_vnni;
    next.amx_bf16 = has.amx_bf16 && next.avx512_bf16 && features.amx_bf16;
    current() = next;
}

}  // namespace rondo::cpu
