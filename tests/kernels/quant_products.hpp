#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstring>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_features.hpp"
#include "kernels/cpu/packed_quant.hpp"
#include "kernels/cpu/quant_kernels.hpp"
#include "tests/kernels/quant_rows.hpp"

/// Products of packed quantized weights, as the CPU's kernels make them without `Ops`.
namespace rondo::test {

/// Storage of 64-byte alignment whose end a sanitizer watches.
struct AlignedBytes {
    explicit AlignedBytes(size_t size)
        : data(static_cast<std::byte*>(::operator new (size, std::align_val_t{64}))), size(size) {}
    AlignedBytes(const AlignedBytes&) = delete;
    AlignedBytes& operator=(const AlignedBytes&) = delete;
    ~AlignedBytes() { ::operator delete (data, std::align_val_t{64}); }
    std::byte* data;
    size_t size;
};

/// Runs `body` once for every way this machine can compute: each Highway target, then VNNI.
inline void for_each_tier(const std::function<void(const std::string&, bool fused)>& body) {
    const cpu::CpuFeatures machine = cpu::cpu_features();
    cpu::override_cpu_features_for_test({});
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
        hwy::GetChosenTarget().Update(target);
        SCOPED_TRACE(std::string("portable, Highway ") + hwy::TargetName(target));
        body(hwy::TargetName(target), target < HWY_SSE4);
    }
    hwy::GetChosenTarget().DeInit();
    cpu::override_cpu_features_for_test(machine);
    if (!machine.avx512_vnni) return;
    SCOPED_TRACE("VNNI");
    body("VNNI", true);
}

struct Packed {
    Packed(const QuantRows& rows, std::span<const int32_t> order)
        : panels(*cpu::QuantPanels::pack_shape(rows.type, rows.rows, rows.columns)), storage(panels.bytes()) {
        std::memset(storage.data, 0xA5, storage.size);
        const int64_t middle = panels.groups() / 2;  // in two parts, as threads would
        panels.pack_rows(storage.data, rows.bytes.data(), order, middle, panels.groups());
        panels.pack_rows(storage.data, rows.bytes.data(), order, 0, middle);
    }
    cpu::QuantPanels panels;
    AlignedBytes storage;
};

struct Activations {
    Activations(const std::vector<float>& x, int64_t columns)
        : scratch(cpu::activation_bytes(static_cast<int64_t>(x.size()) / columns, columns)),
          codes(cpu::quantize_activations(
              Tensor::of(const_cast<float*>(x.data()), DType::f32, static_cast<int64_t>(x.size()) / columns, columns),
              {scratch.data, scratch.size})) {}
    double value(int64_t m, int64_t k) const {
        return static_cast<double>(scale(m, k)) * codes.codes[m * codes.columns + k];
    }
    float scale(int64_t m, int64_t k) const { return codes.scales[m * (codes.columns / 32) + k / 32]; }
    AlignedBytes scratch;
    cpu::QuantActivations codes;
};

/// [rows of x, outputs]
inline std::vector<float> product(const Packed& packed, const cpu::QuantActivations& x) {
    std::vector<float> y(static_cast<size_t>(x.rows * packed.panels.rows()));
    packed.panels.multiply(packed.storage.data, x, 0, packed.panels.groups(), y.data(), packed.panels.rows(), nullptr,
                           false);
    return y;
}

/// The product in one way; x lies one row behind another.
inline void multiply_in(cpu::QuantWay way, cpu::QuantProduct product, const cpu::QuantActivations& x) {
    product.way = way;
    if (way != cpu::QuantWay::widened) return cpu::multiply_vnni(product, x);
    const AlignedBytes strips(cpu::activation_bytes(x.rows, x.columns, cpu::strip_rows));
    cpu::multiply_vnni(product, cpu::copy_rows(x, 0, x.rows, {strips.data, strips.size}, cpu::strip_rows));
}

/// The product in each way that the tier has: VNNI has three, any other tier has one.
inline std::vector<std::vector<float>> products(const Packed& packed, const cpu::QuantActivations& x) {
    if (!cpu::cpu_features().avx512_vnni) return {product(packed, x)};
    const cpu::QuantPanels& panels = packed.panels;
    const AlignedBytes wide(static_cast<size_t>(cpu::wide_bytes(panels.type(), panels.columns(), x.rows)));
    std::vector<std::vector<float>> all;
    for (const cpu::QuantWay way : {cpu::QuantWay::alone, cpu::QuantWay::in_pairs, cpu::QuantWay::widened}) {
        std::vector<float>& y = all.emplace_back(static_cast<size_t>(x.rows * panels.rows()));
        cpu::QuantProduct one;
        one.type = panels.type();
        one.outputs = one.y_stride = panels.rows();
        one.columns = panels.columns();
        one.storage = packed.storage.data;
        one.group_end = panels.groups();
        one.y = y.data();
        one.wide = wide.data;
        multiply_in(way, one, x);
    }
    return all;
}

}  // namespace rondo::test
