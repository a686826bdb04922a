// What this machine can do: the rate at which memory is read, and the greatest of oneDNN's GEMM rates at
// 512 rows and loops of floats' and bf16's products.
// usage: bench_ceilings [--json] [--threads N] [--repeat R]
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "machine/machine.hpp"

int main(int argc, char** argv) {
    CLI::App app{"the machine's ceilings"};
    bool json = false;
    int threads = static_cast<int>(std::thread::hardware_concurrency());
    int repeat = 9;
    app.add_flag("--json", json);
    app.add_option("--threads", threads)->check(CLI::Range(1, 1024));
    app.add_option("--repeat", repeat)->check(CLI::Range(1, 1000));
    CLI11_PARSE(app, argc, argv);

    const nlohmann::ordered_json out = {
        {"threads", threads},
        {"read_gb_per_s", rondo::bench::read_rate(threads, repeat)},
        {"gemm_gflop_per_s", rondo::bench::product_ceiling(512, threads, repeat)},
        {"gemm_f32_gflop_per_s", rondo::bench::gemm_rate(rondo::DType::f32, 512, threads, repeat)}};
    if (json) {
        std::printf("%s\n", out.dump().c_str());
        return 0;
    }
    for (const auto& [key, value] : out.items()) std::printf("%-24s %10.1f\n", key.c_str(), value.get<double>());
    return 0;
}
