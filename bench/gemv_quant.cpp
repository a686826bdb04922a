// Products of one row with quantized weights, type by type: checked against dequantized weights in double, then timed
// over a set of matrices far larger than the caches, next to a plain read of the same bytes in the same minute.
// usage: bench_gemv_quant [--json] [--threads N] [--repeat R] [--type NAME]
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "config/checked.hpp"
#include "kernels/cpu/cpu_features.hpp"
#include "kernels/cpu/packed_quant.hpp"
#include "kernels/cpu/quant_layout.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "kernels/quant.hpp"

namespace {

using namespace rondo;
using cpu::QuantPanels;

constexpr size_t set_bytes = size_t{5} << 28;    // 1.25 GiB: more than four times the whole L3
constexpr size_t part_bytes = size_t{64} << 20;  // timed at once
constexpr size_t near_bytes = size_t{1} << 20;   // half of an L2

struct Options {
    bool json = false;
    int threads = static_cast<int>(std::thread::hardware_concurrency());
    int repeat = 7;
    std::string type;
};

/// Memory as the engine allocates it: aligned to huge pages, which the kernel may use.
class Memory {
public:
    explicit Memory(size_t bytes) : data_(static_cast<std::byte*>(std::aligned_alloc(size_t{2} << 20, bytes))) {
        if (data_ == nullptr) std::abort();
        madvise(data_, bytes, MADV_HUGEPAGE);
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() { std::free(data_); }
    std::byte* data() const { return data_; }

private:
    std::byte* data_;
};

/// Rows of a file: random codes under finite scales.
std::vector<std::byte> random_file(DType type, int64_t rows, int64_t columns) {
    std::vector<std::byte> bytes(bytes_of(type, rows * columns));
    std::mt19937_64 random(1);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() >> 56);
    const auto block_bytes = static_cast<size_t>(traits(type).block_bytes);
    for (size_t at = 0; at < bytes.size(); at += block_bytes) {
        const uint16_t scale = 0x2400;  // 1/64
        std::memcpy(&bytes[at + (type == DType::q6_k ? 208 : 0)], &scale, 2);
        if (quant_offset(type) == 0) std::memcpy(&bytes[at + 2], &scale, 2);
    }
    return bytes;
}

struct Activations {
    explicit Activations(int64_t columns) : values(static_cast<size_t>(columns)), scratch(size_t{2} << 20) {
        std::mt19937 random(2);
        std::normal_distribution<float> normal;
        for (float& value : values) value = normal(random);
        const Tensor x = Tensor::of(values.data(), DType::f32, 1, columns);
        quantized = cpu::quantize_activations(x, {scratch.data(), size_t{2} << 20});
    }
    std::vector<float> values;
    Memory scratch;
    cpu::QuantActivations quantized;
};

/// The largest |y − reference| relative to Σ |w|·|x|, the reference in double over dequantized weights and activations.
double validate(DType type, int64_t columns) {
    constexpr int64_t rows = 70;
    const std::vector<std::byte> file = random_file(type, rows, columns);
    const QuantPanels panels = *QuantPanels::pack_shape(type, rows, columns);
    const Memory storage(round_up<size_t>(panels.bytes(), size_t{2} << 20));
    panels.pack_rows(storage.data(), file.data(), {}, 0, panels.groups());
    const Activations x(columns);
    std::vector<float> y(rows), row(static_cast<size_t>(columns));
    panels.multiply(storage.data(), x.quantized, 0, panels.groups(), y.data(), rows, nullptr, false);
    double worst = 0;
    for (int64_t n = 0; n < rows; ++n) {
        dequantize_row(type, file.data() + bytes_of(type, n * columns), row.data(), columns);
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < columns; ++k) {
            const double a = double{x.quantized.scales[k / 32]} * x.quantized.codes[k];
            sum += row[static_cast<size_t>(k)] * a;
            magnitude += std::abs(row[static_cast<size_t>(k)] * a);
        }
        worst = std::max(worst, std::abs(y[static_cast<size_t>(n)] - sum) / magnitude);
    }
    return worst;
}

template <class F>
double seconds_best(int repeat, F&& work) {
    double best = 1e9;
    for (int i = 0; i < repeat; ++i) {
        const auto start = std::chrono::steady_clock::now();
        work();
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
}

uint64_t sum_of(const std::byte* data, size_t bytes) {
    const auto* words = reinterpret_cast<const uint64_t*>(data);
    uint64_t sums[8] = {};
    for (size_t i = 0; i < bytes / 8; i += 8) {
        __builtin_prefetch(words + i + 1024, 0, 2);  // as far ahead as the product looks
        for (size_t j = 0; j < 8; ++j) sums[j] += words[i + j];
    }
    uint64_t total = 0;
    for (const uint64_t sum : sums) total += sum;
    return total;
}

struct Rates {
    double product = 0, near = 0, read = 0, best_step_us = 0;
};

Rates measure(const Options& options, DType type, int64_t rows, int64_t columns, int threads) {
    const QuantPanels panels = *QuantPanels::pack_shape(type, rows, columns);
    const auto copies = static_cast<int64_t>(ceil_div(set_bytes, panels.bytes()));
    const size_t total = panels.bytes() * static_cast<size_t>(copies);
    const Memory memory(round_up<size_t>(total, size_t{2} << 20));
    {
        const std::vector<std::byte> file = random_file(type, rows, columns);
        panels.pack_rows(memory.data(), file.data(), {}, 0, panels.groups());
    }
    for (int64_t i = 1; i < copies; ++i) {
        std::memcpy(memory.data() + panels.bytes() * static_cast<size_t>(i), memory.data(), panels.bytes());
    }
    const Activations x(columns);
    std::vector<float> y(static_cast<size_t>(rows));
    cpu::ThreadPool pool(threads);
    const int64_t tasks = threads == 1 ? 1 : threads * 4;
    const auto product = [&](int64_t first, int64_t last) {
        for (int64_t copy = first; copy < last; ++copy) {
            const std::byte* storage = memory.data() + panels.bytes() * static_cast<size_t>(copy);
            pool.run(tasks, [&](int64_t task, int) {
                panels.multiply(storage, x.quantized, panels.groups() * task / tasks,
                                panels.groups() * (task + 1) / tasks, y.data(), rows, nullptr, false);
            });
        }
    };
    volatile uint64_t sink = 0;
    const auto read = [&](int64_t first, int64_t last) {
        const size_t part = panels.bytes() * static_cast<size_t>(last - first) / 64 / static_cast<size_t>(tasks) * 64;
        const std::byte* from = memory.data() + panels.bytes() * static_cast<size_t>(first);
        pool.run(tasks, [&](int64_t task, int) { sink = sum_of(from + part * static_cast<size_t>(task), part); });
    };
    // The set is walked in parts, the two taking turns, and the best part counts: neighbours disturb both alike.
    const int64_t copies_a_part = std::min(copies, static_cast<int64_t>(ceil_div(part_bytes, panels.bytes())));
    double product_s = 1e9, read_s = 1e9;
    for (int i = 0; i < 2 * options.repeat; ++i) {
        int64_t part = 0;
        for (int64_t first = 0; first + copies_a_part <= copies; first += copies_a_part, ++part) {
            const bool is_product = (part + i) % 2 == 0;
            double& best = is_product ? product_s : read_s;
            best = std::min(best, seconds_best(1, [&] {
                                is_product ? product(first, first + copies_a_part) : read(first, first + copies_a_part);
                            }));
        }
    }
    const int64_t near_groups =
        std::min(panels.groups(), static_cast<int64_t>(near_bytes * panels.groups() / panels.bytes()));
    const double near_s = seconds_best(20 * options.repeat, [&] {
        panels.multiply(memory.data(), x.quantized, 0, near_groups, y.data(), rows, nullptr, false);
    });
    Rates rates;
    const double part_gb = static_cast<double>(panels.bytes()) * static_cast<double>(copies_a_part) / 1e9;
    rates.product = part_gb / product_s;
    rates.read = part_gb / read_s;
    rates.near = static_cast<double>(panels.bytes()) / panels.groups() * near_groups / near_s / 1e9;
    rates.best_step_us = product_s / static_cast<double>(copies_a_part) * 1e6;
    return rates;
}

/// One thread, which shows the kernel, and all of them, which show the memory.
std::vector<int> thread_counts(int most) {
    return most == 1 ? std::vector{1} : std::vector{1, most};
}

Options parse(int count, char** arguments) {
    Options options;
    for (int i = 1; i < count; ++i) {
        const std::string_view name = arguments[i];
        const bool more = i + 1 < count;
        if (name == "--json") {
            options.json = true;
        } else if (name == "--threads" && more) {
            options.threads = std::max(1, std::atoi(arguments[++i]));
        } else if (name == "--repeat" && more) {
            options.repeat = std::max(1, std::atoi(arguments[++i]));
        } else if (name == "--type" && more) {
            options.type = arguments[++i];
        } else {
            std::fprintf(stderr, "usage: bench_gemv_quant [--json] [--threads N] [--repeat R] [--type NAME]\n");
            std::exit(2);
        }
    }
    return options;
}

}  // namespace

int main(int count, char** arguments) {
    const Options options = parse(count, arguments);
    constexpr DType types[] = {DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0,
                               DType::q5_1, DType::q4_k, DType::q5_k, DType::q6_k};
    const char* kernel = cpu::cpu_features().avx512_vnni ? "vnni" : "portable";
    if (!options.json) {
        std::printf("kernel %s; GB/s: product and plain read over %zu MiB, product within L2 (1 thread)\n", kernel,
                    set_bytes >> 20);
        std::printf("%-5s %15s %8s %9s %9s %6s %9s %9s\n", "type", "shape", "threads", "product", "read", "%", "in L2",
                    "us");
    }
    for (const DType type : types) {
        if (!options.type.empty() && options.type != traits(type).name) continue;
        const int64_t columns = traits(type).block_elements == 256 ? 1024 : 896;
        const double error = validate(type, columns);
        if (!(error <= 2e-6)) {
            std::fprintf(stderr, "%s: product is off by %g of the sum of magnitudes\n", traits(type).name.data(),
                         error);
            return 1;
        }
        for (const int64_t rows : {int64_t{4864}, int64_t{151936}}) {
            for (const int threads : thread_counts(options.threads)) {
                const Rates rates = measure(options, type, rows, columns, threads);
                const double percent = 100 * rates.product / rates.read;
                if (options.json) {
                    std::printf(
                        "{\"bench\":\"gemv_quant\",\"kernel\":\"%s\",\"type\":\"%s\",\"rows\":%lld,\"columns\":%lld,"
                        "\"threads\":%d,\"product_gb_per_s\":%.2f,\"read_gb_per_s\":%.2f,\"l2_gb_per_s\":%.2f,"
                        "\"product_us\":%.1f,\"error\":%.2e}\n",
                        kernel, traits(type).name.data(), static_cast<long long>(rows), static_cast<long long>(columns),
                        threads, rates.product, rates.read, rates.near, rates.best_step_us, error);
                } else {
                    std::printf("%-5s %8lldx%-6lld %8d %9.1f %9.1f %5.0f%% %9.1f %9.1f\n", traits(type).name.data(),
                                static_cast<long long>(rows), static_cast<long long>(columns), threads, rates.product,
                                rates.read, percent, rates.near, rates.best_step_us);
                }
                std::fflush(stdout);
            }
        }
    }
    return 0;
}
