#include "machine/machine.hpp"

#include <immintrin.h>
#include <omp.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <dnnl.hpp>
#include <optional>
#include <utility>

#include "kernels/cpu/thread_pool.hpp"

namespace rondo::bench {

namespace {

constexpr size_t gigabyte = size_t{1} << 30;
constexpr size_t task_bytes = size_t{1} << 20;

/// Reads every cache line, looking ahead as a streaming kernel does, by registers so wide that adding costs nothing.
__attribute__((target("avx2"))) uint64_t read_lines(const char* data, size_t bytes) {
    __m256i sums[8] = {};
    for (size_t at = 0; at < bytes; at += 256) {
        for (size_t line = 0; line < 256; line += 64) _mm_prefetch(data + at + 8192 + line, _MM_HINT_T1);
        for (size_t i = 0; i < 8; ++i) {
            const auto* const from = reinterpret_cast<const __m256i*>(data + at) + i;
            sums[i] = _mm256_add_epi64(sums[i], _mm256_loadu_si256(from));
        }
    }
    uint64_t words[4], total = 0;
    for (const __m256i& sum : sums) {
        std::memcpy(words, &sum, sizeof words);
        for (const uint64_t word : words) total += word;
    }
    return total;
}

/// One matrix of the set: [columns, outputs] in the layout oneDNN chooses.
struct Product {
    dnnl::memory x, weights, out;
    dnnl::matmul primitive;
    double flops;
};

std::optional<Product> make_product(const dnnl::engine& engine, DType type, int64_t rows, int64_t columns,
                                    int64_t outputs) {
    using dnnl::memory;
    const auto element = type == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
    const dnnl::matmul::primitive_desc description(
        {memory::desc({rows, columns}, element, memory::format_tag::ab),
         memory::desc({columns, outputs}, element, memory::format_tag::any),
         memory::desc({rows, outputs}, memory::data_type::f32, memory::format_tag::ab)},
        engine, true);
    if (!description) return std::nullopt;
    Product product{memory(description.src_desc(), engine), memory(description.weights_desc(), engine),
                    memory(description.dst_desc(), engine), dnnl::matmul(description),
                    2.0 * static_cast<double>(rows * columns * outputs)};
    for (memory* side : {&product.x, &product.weights}) {
        auto* const bytes = static_cast<unsigned char*>(side->get_data_handle());
        for (size_t i = 0; i < side->get_desc().get_size(); ++i)
            bytes[i] = static_cast<unsigned char>(i % 61 + 1);  // small, normal
    }
    return product;
}

}  // namespace

double read_rate(int threads, int repeat) {
    void* const memory =
        mmap(nullptr, gigabyte + task_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    madvise(memory, gigabyte + task_bytes, MADV_HUGEPAGE);
    std::memset(memory, 1, gigabyte + task_bytes);
    cpu::ThreadPool pool(threads);
    std::atomic<uint64_t> sum{0};
    const double seconds = seconds_median(repeat, [&] {
        pool.run(gigabyte / task_bytes, [&](int64_t task, int) {
            sum += read_lines(static_cast<const char*>(memory) + static_cast<size_t>(task) * task_bytes, task_bytes);
        });
    });
    munmap(memory, gigabyte + task_bytes);
    return static_cast<double>(gigabyte) / seconds / 1e9;
}

double gemm_rate(DType type, int64_t rows, int threads, int repeat) {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    omp_set_num_threads(threads);
    std::vector<Product> products;
    for (const auto& [columns, outputs] :
         {std::pair<int64_t, int64_t>{896, 1152}, {896, 896}, {896, 9728}, {4864, 896}}) {
        std::optional<Product> product = make_product(engine, type, rows, columns, outputs);
        if (!product) return 0.0;
        products.push_back(std::move(*product));
    }
    double flops = 0.0;
    for (const Product& product : products) flops += product.flops;
    const double seconds = seconds_median(repeat, [&] {
        for (Product& product : products) {
            product.primitive.execute(
                stream, {{DNNL_ARG_SRC, product.x}, {DNNL_ARG_WEIGHTS, product.weights}, {DNNL_ARG_DST, product.out}});
        }
        stream.wait();
    });
    omp_pause_resource_all(omp_pause_hard);  // its threads would go on spinning beside what is timed next
    return flops / seconds / 1e9;
}

double type_loop_rate(DType type, int threads, int repeat) {
    if (is_quantized(type)) return quant_mix_rate(type, threads, repeat);
    const InstructionRates loops = instruction_rates(threads, repeat);
    if (type != DType::bf16) return loops.fma_f32;
    return std::max({loops.fma_f32, loops.dot_bf16, tile_rates(threads, repeat).bf16});
}

double product_ceiling(int64_t rows, int threads, int repeat) {
    // oneDNN imitates bf16 products that the processor has not, slower than products of floats.
    const InstructionRates loops = instruction_rates(threads, repeat);
    return std::max({loops.fma_f32, loops.dot_bf16, gemm_rate(DType::bf16, rows, threads, repeat),
                     gemm_rate(DType::f32, rows, threads, repeat)});
}

}  // namespace rondo::bench
