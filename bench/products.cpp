// Products through Ops::matmul, checked against double and then timed: many rows by every weight type beside loops of
// one instruction, of a type's own mix of them, and oneDNN's rate; one row beside the rate at which memory is read.
// Up to 64 rows stand beside both, since either may bound them. No cache holds their weights; one may hold oneDNN's.
// usage: bench_products [--json] [--threads N] [--repeat R] [--types q4_0,q8_0] [--rows 24,64,512]
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <thread>

#include "kernels/backend.hpp"
#include "kernels/ops.hpp"
#include "kernels/quant.hpp"
#include "machine/machine.hpp"
#include "machine/random_rows.hpp"

namespace {

using namespace rondo;

constexpr DType all_types[] = {DType::f32,  DType::bf16, DType::f16,  DType::q8_0,   DType::q4_0,
                               DType::q4_1, DType::q5_0, DType::q5_1, DType::q2_k,   DType::q3_k,
                               DType::q4_k, DType::q5_k, DType::q6_k, DType::iq4_nl, DType::iq4_xs};

using WeightSet = std::vector<std::unique_ptr<PackedMatrix>>;

/// Medians of rounds, each of which measures both: a shared machine's rate changes by the second.
struct BesideCeiling {
    double rate, ceiling, share;
};

double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
}

constexpr size_t uncached_bytes = size_t{1} << 30;  // of a set of weights that no cache holds

struct Products {
    std::unique_ptr<Device> device;
    int repeat;

    std::unique_ptr<PackedMatrix> pack(const std::vector<std::byte>& rows, DType type, int64_t outputs,
                                       int64_t columns) {
        const HostMatrix part{rows.data(), type, outputs, columns, {}};
        return std::move(device->ops().pack({&part, 1})).value();
    }

    /// ‖Δ‖ / ‖reference‖ of some rows by a small weight; the activations' own rounding is in it.
    double relative_error(DType type, int64_t m) {
        constexpr int64_t columns = 512, outputs = 96;
        const auto file = bench::random_rows(type, outputs, columns);
        const auto w = pack(file, type, outputs, columns);
        std::vector<float> x(static_cast<size_t>(m * columns)), y(static_cast<size_t>(m * outputs)), row(columns);
        std::mt19937 random(3);
        std::normal_distribution<float> normal;
        for (float& value : x) value = normal(random);
        const Tensor out = Tensor::of(y.data(), DType::f32, m, outputs);
        if (!device->ops().matmul({out, Tensor::of(x.data(), DType::f32, m, columns), w.get()}).is_ok()) return 1e9;
        double difference = 0.0, norm = 0.0;
        for (int64_t n = 0; n < outputs; ++n) {
            dequantize_row(type, file.data() + bytes_of(type, n * columns), row.data(), columns);
            for (int64_t i = 0; i < m; ++i) {
                double sum = 0.0;
                for (int64_t k = 0; k < columns; ++k)
                    sum += double{row[static_cast<size_t>(k)]} * x[static_cast<size_t>(i * columns + k)];
                difference += std::pow(sum - y[static_cast<size_t>(i * outputs + n)], 2);
                norm += sum * sum;
            }
        }
        return std::sqrt(difference / norm);
    }

    /// Equal weights of `set_bytes` in all, or a single one where that is 0.
    WeightSet pack_set(DType type, int64_t outputs, int64_t columns, size_t set_bytes) {
        const auto file = bench::random_rows(type, outputs, columns);
        WeightSet set;
        for (size_t held = 0; held < set_bytes || set.empty(); held += set.back()->bytes()) {
            set.push_back(pack(file, type, outputs, columns));
        }
        return set;
    }

    /// Of products [m, K] × [N, K] with a set of weights, which are multiplied one after another. `work` is what one of
    /// them does, in the ceiling's unit.
    BesideCeiling measure(DType type, int64_t m, std::span<const std::unique_ptr<PackedMatrix>> set, double work,
                          const std::function<double()>& ceiling) {
        const int64_t outputs = set[0]->outputs(), columns = set[0]->inputs();
        const DType inner = type == DType::bf16 ? DType::bf16 : DType::f32;  // as a model's activations are
        // From the device, as a model's are: rows begin with a cache line.
        const Buffer x = std::move(device->allocate(static_cast<size_t>(m * columns) * sizeof(float))).value();
        const Buffer y = std::move(device->allocate(static_cast<size_t>(m * outputs) * sizeof(float))).value();
        std::fill_n(x.as<float>(), m * columns, 0.01F);
        std::fill_n(y.as<float>(), m * outputs, 0.0F);
        const Tensor x_tensor = Tensor::of(x.as<float>(), inner, m, columns);
        const Tensor y_tensor = Tensor::of(y.as<float>(), DType::f32, m, outputs);
        const auto multiply_all = [&] {
            for (const auto& w : set) (void)device->ops().matmul({y_tensor, x_tensor, w.get()}).is_ok();
        };
        std::vector<double> rates, ceilings, shares;
        const int rounds = set.size() > 1 ? repeat : 4 * repeat;  // a single product takes no time
        for (int round = 0; round < rounds; ++round) {
            ceilings.push_back(ceiling());
            rates.push_back(work * static_cast<double>(set.size()) / bench::seconds_median(1, multiply_all));
            shares.push_back(ceilings.back() > 0.0 ? rates.back() / ceilings.back() : 0.0);
        }
        return {median(rates), median(ceilings), median(shares)};
    }
};

struct Options {
    bool json = false;
    int threads = static_cast<int>(std::thread::hardware_concurrency());
    int repeat = 5;
    std::vector<std::string> type_names;
    std::vector<int64_t> rows{1, 2, 4, 8, 16, 24, 32, 64, 512};

    void add_to(CLI::App& app) {
        app.add_flag("--json", json);
        app.add_option("--threads", threads)->check(CLI::Range(1, 1024));
        app.add_option("--repeat", repeat)->check(CLI::Range(1, 1000));
        app.add_option("--types", type_names, "which weight types (default: all)")->delimiter(',');
        app.add_option("--rows", rows, "rows of the products of many")->delimiter(',')->check(CLI::Range(1, 65536));
    }
    std::vector<DType> types() const {
        std::vector<DType> some;
        for (const DType type : all_types) {
            if (type_names.empty() || std::ranges::count(type_names, traits(type).name) != 0) some.push_back(type);
        }
        return some;
    }
};

using Json = nlohmann::ordered_json;

void print_heads_of_gemm(const Products& products, const bench::InstructionRates& rates,
                         const bench::TileRates& tiles) {
    std::printf("%s\nloops of one instruction, GOP/s: f32 FMA %.0f, bf16 pairs %.0f, int8 fours %.0f\n",
                products.device->name().c_str(), rates.fma_f32, rates.dot_bf16, rates.dot_int8);
    if (tiles.bf16 > 0.0) {
        std::printf("loops of tiles, GOP/s: bf16 %.0f, int8 %.0f, int8 with a scale for each 32 inputs %.0f\n",
                    tiles.bf16, tiles.int8, tiles.int8_scaled);
    }
    std::printf("%-8s %6s %10s %10s %8s %10s %10s %12s %8s\n", "GEMM", "rows", "GOP/s", "loop", "share", "oneDNN",
                "GB/s", "memory read", "share");
}

/// Both memory and a loop may bound products of so few rows.
bool is_few(int64_t rows) {
    return rows > 1 && rows <= 64;
}

void print_gemm(const Json& row) {
    const double loop = row["loop_gop_per_s"], library = row["onednn_gflop_per_s"], rate = row["gflop_per_s"];
    const double share = row["of_loop"];
    const auto or_none = [](double value, const char* unit = "") {
        return value > 0.0 ? std::to_string(std::lround(value)) + unit : std::string("-");
    };
    std::printf("%-8s %6ld %10.0f %10s %8s %10s", row["type"].get<std::string>().c_str(),
                static_cast<long>(row["rows"].get<int64_t>()), rate, or_none(loop).c_str(),
                or_none(100 * share, "%").c_str(), or_none(library).c_str());
    if (row.contains("gb_per_s")) {
        const double read = row["gb_per_s"], ceiling = row["read_gb_per_s"];
        std::printf(" %10.1f %12.1f %7.0f%%", read, ceiling, 100 * read / ceiling);
    }
    std::printf("\n");
}

/// Products of many rows. False where one is wrong.
bool time_gemm(Products& products, const Options& options, DType type, Json& out) {
    const std::string name(traits(type).name);
    const bool any_few = std::ranges::any_of(options.rows, is_few);
    const double memory = any_few ? bench::read_rate(options.threads, options.repeat) : 0.0;
    // K is 1024 for all, so that K types are among them.
    const WeightSet set = products.pack_set(type, 9728, 1024, any_few ? uncached_bytes : 0);
    for (const int64_t m : options.rows) {
        if (const double error = products.relative_error(type, m); !(error < (is_quantized(type) ? 2e-2 : 1e-2))) {
            std::fprintf(stderr, "%s at %ld rows is wrong: relative error %g\n", name.c_str(), static_cast<long>(m),
                         error);
            return false;
        }
        const double gop = 2.0 * static_cast<double>(m * 9728 * 1024) / 1e9;
        const BesideCeiling timed = products.measure(type, m, std::span(set).first(is_few(m) ? set.size() : 1), gop,
                                                     [&] { return bench::type_loop_rate(type, options.threads, 1); });
        const double library = type == DType::bf16 || type == DType::f32
                                   ? bench::gemm_rate(type, m, options.threads, options.repeat)
                                   : 0.0;
        Json row = {{"kind", "gemm"},
                    {"type", name},
                    {"rows", m},
                    {"gflop_per_s", timed.rate},
                    {"loop_gop_per_s", timed.ceiling},
                    {"of_loop", timed.share},
                    {"onednn_gflop_per_s", library}};
        if (is_few(m)) {
            row["gb_per_s"] = static_cast<double>(set[0]->bytes()) / 1e9 * timed.rate / gop;
            row["read_gb_per_s"] = memory;
        }
        if (!options.json) print_gemm(row);
        out.push_back(std::move(row));
    }
    return true;
}

/// The product of one row, by weights that no cache holds. False where it is wrong.
bool time_gemv(Products& products, const Options& options, DType type, Json& out) {
    const std::string name(traits(type).name);
    if (const double error = products.relative_error(type, 1); !(error < 2e-2)) {
        std::fprintf(stderr, "%s is wrong: relative error %g\n", name.c_str(), error);
        return false;
    }
    const WeightSet set = products.pack_set(type, 4864, 1024, uncached_bytes);
    const BesideCeiling timed = products.measure(type, 1, set, static_cast<double>(set[0]->bytes()) / 1e9,
                                                 [&] { return bench::read_rate(options.threads, 1); });
    out.push_back({{"kind", "gemv"},
                   {"type", name},
                   {"rows", 1},
                   {"gb_per_s", timed.rate},
                   {"read_gb_per_s", timed.ceiling},
                   {"of_read", timed.share}});
    if (!options.json)
        std::printf("%-8s %6d %14.1f %14.1f %7.0f%%\n", name.c_str(), 1, timed.rate, timed.ceiling, 100 * timed.share);
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{"GEMM and GEMV beside the machine's ceilings"};
    Options options;
    options.add_to(app);
    CLI11_PARSE(app, argc, argv);
    Products products{std::move(open_device({DeviceKind::cpu, 0, options.threads})).value(), options.repeat};

    const bench::InstructionRates rates = bench::instruction_rates(options.threads, options.repeat);
    const bench::TileRates tiles = bench::tile_rates(options.threads, options.repeat);
    Json out = Json::array();
    out.push_back({{"kind", "instructions"},
                   {"fma_f32_gop_per_s", rates.fma_f32},
                   {"dot_bf16_gop_per_s", rates.dot_bf16},
                   {"dot_int8_gop_per_s", rates.dot_int8},
                   {"tiles_bf16_gop_per_s", tiles.bf16},
                   {"tiles_int8_gop_per_s", tiles.int8},
                   {"tiles_int8_scaled_gop_per_s", tiles.int8_scaled}});
    if (!options.json) print_heads_of_gemm(products, rates, tiles);
    for (const DType type : options.types())
        if (!time_gemm(products, options, type, out)) return 1;
    if (!options.json) std::printf("%-8s %6s %14s %14s %8s\n", "GEMV", "rows", "GB/s", "memory read", "share");
    for (const DType type : options.types())
        if (!time_gemv(products, options, type, out)) return 1;
    if (options.json) std::printf("%s\n", out.dump().c_str());
    return 0;
}
