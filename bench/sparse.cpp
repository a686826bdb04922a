// The kernels of sparse attention on synthetic choices of fixed density, beside dense attention in the same run: each
// checked against double and against dense, then timed in turn with the others.
//
// usage: bench_sparse [--json] [--threads N] [--repeat R] [--only prefill,scoring,decode]
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.hpp"
#include "machine/machine.hpp"
#include "sparse/parts.hpp"

int main(int argc, char** argv) {
    using namespace rondo;
    CLI::App app{"sparse attention's kernels beside dense attention and the machine's ceilings"};
    std::vector<std::string> only{"prefill", "scoring", "decode"};
    int threads = 2, repeat = 3;
    bool json = false;
    app.add_flag("--json", json);
    app.add_option("--threads", threads)->check(CLI::Range(1, 1024));
    app.add_option("--repeat", repeat, "rounds of prefill; the others, which are short, take three times as many")
        ->check(CLI::Range(1, 1000));
    app.add_option("--only", only, "which parts")->delimiter(',')->check(CLI::IsMember(only));
    CLI11_PARSE(app, argc, argv);
    const auto device = std::move(open_device({DeviceKind::cpu, 0, threads})).value();
    const bench::Setting setting{*device, repeat, bench::read_rate(threads, 3),
                                 bench::product_ceiling(512, threads, 5)};
    nlohmann::ordered_json out{{"device", device->name()},
                               {"threads", threads},
                               {"read_gb_per_s", setting.read_gb_per_s},
                               {"gemm_gflop_per_s", setting.gemm_gflop_per_s}};
    if (!json)
        std::printf("%s\nread %.1f GB/s, GEMM %.1f GFLOP/s\n", device->name().c_str(), setting.read_gb_per_s,
                    setting.gemm_gflop_per_s);
    const std::pair<const char*, void (*)(const bench::Setting&, const bench::KvStore&, const bench::AddRow&)> parts[] =
        {{"prefill", bench::bench_prefill}, {"scoring", bench::bench_scoring}, {"decode", bench::bench_decode}};
    for (const bench::AttentionShape& shape :
         {bench::AttentionShape{"llama-mha", 16, 16, 64}, bench::AttentionShape{"qwen2-0.5b", 14, 2, 64}}) {
        const bench::KvStore store(*device, shape, 32768, size_t{512} << 20);  // more than caches hold
        for (const auto& [name, part] : parts) {
            if (std::ranges::count(only, name) == 0) continue;
            nlohmann::ordered_json& rows = out[name];
            part(setting, store, [&, first = true](nlohmann::ordered_json row) mutable {
                if (!json) bench::print_row(row, std::exchange(first, false));
                rows.push_back(std::move(row));
            });
        }
    }
    if (json) std::printf("%s\n", out.dump().c_str());
    return 0;
}
