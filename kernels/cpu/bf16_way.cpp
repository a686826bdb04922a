#include "kernels/cpu/bf16_way.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>

#include "kernels/cpu/cpu_features.hpp"
#include "kernels/cpu/dense_panels.hpp"
#include "kernels/cpu/gemm_amx.hpp"
#include "kernels/cpu/gemm_bf16.hpp"
#include "kernels/cpu/gemm_rows.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace rondo::cpu {

namespace {

constexpr double clearly = 1.2;  // times as fast
constexpr int rounds = 24;
constexpr int64_t rows = 64, columns = 512;

/// Aligned memory of one problem: rows and a panel as bf16, the rows as floats too, and what comes out.
struct Problem {
    struct Arrays {
        alignas(64) uint16_t x[rows * columns];
        alignas(64) float x_f32[rows * columns];
        alignas(64) uint16_t panel[columns * panel_outputs];
        alignas(64) float out[rows * panel_outputs];
        alignas(64) float sums[tile_sums(rows)];
    };
    Problem() : arrays(new (std::align_val_t{64}) Arrays) {
        std::fill(std::begin(arrays->x), std::end(arrays->x), uint16_t{0x3f80});
        std::fill(std::begin(arrays->x_f32), std::end(arrays->x_f32), 1.0F);
        std::fill(std::begin(arrays->panel), std::end(arrays->panel), uint16_t{0x3c00});
    }
    Problem(const Problem&) = delete;
    Problem& operator=(const Problem&) = delete;
    ~Problem() { ::operator delete (arrays, std::align_val_t{64}); }

    void multiply(Bf16Way way) const {
        const ProductOut out{reinterpret_cast<std::byte*>(arrays->out), DType::f32, panel_outputs, panel_outputs};
        if (way == Bf16Way::tiles) {
            amx_add({arrays->x, rows, columns}, 0, columns, TileWeights::of_panel(arrays->panel, 0), arrays->sums, out,
                    {});
        } else if (way == Bf16Way::pairs) {
            bf16_rows_panel(arrays->x, columns, rows, arrays->panel, columns, out);
        } else {
            rows_panel(DType::bf16, arrays->x_f32, columns, rows, reinterpret_cast<const std::byte*>(arrays->panel),
                       columns, out);
        }
    }

    Arrays* arrays;
};

Bf16Way measure(const std::vector<Bf16Way>& ways) {
    using Clock = std::chrono::steady_clock;
    const Problem problem;
    return fastest_way(ways, [&problem](Bf16Way way) {
        const auto start = Clock::now();
        problem.multiply(way);
        return std::chrono::duration<double>(Clock::now() - start).count();
    });
}

/// The name of the file that keeps the choice: what the build does to the kernels' speed, the processor's signature and
/// the features that it may use now.
std::string machine_key(const std::vector<Bf16Way>& ways) {
    std::string key = "2";  // raised when a kernel changes so much that old choices may be wrong
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    key += "-sanitized";
#endif
#if !defined(__OPTIMIZE__)
    key += "-unoptimized";
#endif
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) != 0) key.append("-").append(std::to_string(a));
#endif
    for (const Bf16Way way : ways) key.append("-").append(name_of(way));
    return key;
}

std::optional<Bf16Way> read_kept(const std::filesystem::path& file, const std::vector<Bf16Way>& ways) {
    std::ifstream in(file);
    std::string word;
    if (!(in >> word)) return std::nullopt;
    for (const Bf16Way way : ways) {
        if (name_of(way) == word) return way;
    }
    return std::nullopt;
}

/// Keeps a choice where none is kept yet. What is kept then, perhaps by another process that started at the same time:
/// a link, other than a renaming, does not replace what stands there. Nothing where the folder cannot be used.
std::optional<Bf16Way> keep(const std::filesystem::path& file, Bf16Way way, const std::vector<Bf16Way>& ways) {
    std::error_code failed;
    std::filesystem::create_directories(file.parent_path(), failed);
    // Containers that share a folder may have the same process number, so the time is part of the name too.
    const std::filesystem::path fresh = file.string() + "." + std::to_string(::getpid()) + "-" +
                                        std::to_string(std::chrono::steady_clock::now().time_since_epoch().count());
    std::ofstream out(fresh);
    out << name_of(way) << "\n";
    out.close();  // which writes
    if (out) {
        std::filesystem::create_hard_link(fresh, file, failed);
        // What stands there is damaged, or the file system has no links.
        if (failed && !read_kept(file, ways)) std::filesystem::rename(fresh, file, failed);
    }
    std::filesystem::remove(fresh, failed);
    return read_kept(file, ways);
}

/// The first choice of this process that no folder could keep.
Bf16Way first_in_process(const std::string& key, Bf16Way way) {
    static std::mutex mutex;
    static std::map<std::string, Bf16Way> ways;
    const std::lock_guard lock(mutex);
    return ways.try_emplace(key, way).first->second;
}

}  // namespace

std::string_view name_of(Bf16Way way) {
    switch (way) {
        case Bf16Way::measured:
            return "measured";
        case Bf16Way::tiles:
            return "tiles";
        case Bf16Way::pairs:
            return "pairs";
        case Bf16Way::floats:
            return "floats";
    }
    return "?";
}

std::vector<Bf16Way> bf16_ways_here() {
    const CpuFeatures& has = cpu_features();
    std::vector<Bf16Way> ways;
    if (has.amx_bf16) ways.push_back(Bf16Way::tiles);
    if (has.avx512 && has.avx512_bf16) ways.push_back(Bf16Way::pairs);
    ways.push_back(Bf16Way::floats);
    return ways;
}

Bf16Way fastest_way(const std::vector<Bf16Way>& ways, const std::function<double(Bf16Way)>& seconds) {
    if (ways.size() == 1) return ways.front();
    std::vector<double> taken(ways.size(), 1e9);
    for (int round = 0; round < rounds; ++round) {
        for (size_t i = 0; i < ways.size(); ++i) taken[i] = std::min(taken[i], seconds(ways[i]));
    }
    size_t first = 0;
    while (*std::min_element(taken.begin() + static_cast<std::ptrdiff_t>(first), taken.end()) * clearly < taken[first])
        ++first;
    return ways[first];
}

Result<Bf16Way> choose_bf16_way(Bf16Way wanted, const std::filesystem::path& folder, const Bf16Race& race) {
    const std::vector<Bf16Way>& ways = race.ways;
    if (wanted != Bf16Way::measured) {
        if (std::ranges::count(ways, wanted) != 0) return wanted;
        std::string has;
        for (const Bf16Way way : ways) has += (has.empty() ? "" : " or ") + std::string(name_of(way));
        return make_error(ErrorCode::unsupported, "bf16 in " + std::string(name_of(wanted)) +
                                                      ": not on this processor, must be measured or " + has);
    }
    if (ways.size() == 1) return ways.front();
    const std::string key = machine_key(ways);
    const std::filesystem::path file = folder.empty() ? folder : folder / ("bf16-" + key);
    if (const auto kept = file.empty() ? std::nullopt : read_kept(file, ways)) return *kept;
    const Bf16Way way = race.seconds ? fastest_way(ways, race.seconds) : measure(ways);
    const auto kept = file.empty() ? std::nullopt : keep(file, way, ways);
    return kept ? *kept : first_in_process(key, way);
}

std::filesystem::path cache_folder() {
    const char* const cache = std::getenv("XDG_CACHE_HOME");
    if (cache != nullptr && cache[0] == '/') return std::filesystem::path(cache) / "rondo";
    const char* const home = std::getenv("HOME");
    if (home != nullptr && home[0] == '/') return std::filesystem::path(home) / ".cache" / "rondo";
    return {};
}

}  // namespace rondo::cpu
