// Reading rounds' KV from the store beside the disk's own rate: 1 MiB reads past the kernel's cache, 32 at a time, of
// the same files, in turn. Plain and sealed; with the rate of checksums on one thread. usage: bench_store [--json]
// [--folder DIR] [--mib N] [--repeat R]
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "config/checked.hpp"
#include "machine/machine.hpp"
#include "memory/store/aligned_bytes.hpp"
#include "memory/store/kv_store.hpp"

namespace rondo::bench {
namespace {

namespace fs = std::filesystem;

constexpr int tokens = 256;
constexpr size_t under_way_max = 32;
constexpr size_t raw_bytes = size_t{1} << 20;

double seconds_now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

[[noreturn]] void fail(const std::string& why) {
    std::fprintf(stderr, "bench_store: %s\n", why.c_str());
    std::exit(1);
}
void need(const Status& status) {
    if (!status) fail(status.error().message);
}
template <class T>
T need(Result<T> result) {
    if (!result) fail(result.error().message);
    return std::move(*result);
}

/// Of one memory, so that it lies in huge pages as the server's does: a virtual disk reads slower into small ones.
std::vector<std::span<std::byte>> pieces_of(const AlignedBytes& memory, size_t bytes) {
    std::vector<std::span<std::byte>> pieces;
    for (size_t at = 0; at < memory.size(); at += bytes) pieces.push_back(memory.span().subspan(at, bytes));
    return pieces;
}

/// What other threads post, run here.
class Tasks {
public:
    void post(std::function<void()> task) {
        const std::lock_guard lock(mutex_);
        tasks_.push_back(std::move(task));
        any_.notify_one();
    }
    void run_until(const std::function<bool()>& done) {
        while (!done()) {
            std::unique_lock lock(mutex_);
            any_.wait(lock, [this] { return !tasks_.empty(); });
            const auto task = std::move(tasks_.front());
            tasks_.pop_front();
            lock.unlock();
            task();
        }
    }

private:
    std::mutex mutex_;
    std::condition_variable any_;
    std::deque<std::function<void()>> tasks_;
};

/// A Qwen2-0.5B's rounds in a store of their own.
class Rounds {
public:
    Rounds(const std::string& folder, size_t bytes, bool sealed) : queue_(need(DiskQueue::open({}))) {
        KvStore::Options options;
        options.path = folder;
        options.bytes_max = 4 * bytes + (uint64_t{1} << 28);
        options.kind = {.model = {}, .dtype = DType::bf16, .layers = 24, .kv_heads = 2, .head_dim = 64};
        options.now = [] { return int64_t{1}; };
        options.post = [this](std::function<void()> task) { tasks_.post(std::move(task)); };
        if (sealed) options.keys.emplace(SealKey::Bytes{});
        store_ = need(KvStore::open(options, *queue_));
        header_.kind = options.kind;
        header_.layers.resize(24);
        layer_bytes_ = round_up<size_t>(header_of(0).layer_bytes(), disk_alignment);
        for (size_t i = 0; i * layer_bytes_ * 24 < bytes; ++i) write(static_cast<int32_t>(i));
    }

    /// All layers of all rounds, in order, so many at a time. Validates them where that is wanted.
    double read_seconds(bool validate) {
        const AlignedBytes memory(under_way_max * layer_bytes_);
        const auto into = pieces_of(memory, layer_bytes_);
        std::vector<size_t> free(into.size());
        std::iota(free.begin(), free.end(), size_t{0});
        const double start = seconds_now();
        for (int32_t round = 0; round < rounds_; ++round) {
            std::optional<KvStore::ReadingPtr> reading;
            const RecordHeader header = header_of(round);
            store_->read(header.name, header.ids, [&](auto read) { reading = need(std::move(read)); });
            tasks_.run_until([&] { return reading.has_value(); });
            for (size_t layer = 0; layer < 24; ++layer) {
                tasks_.run_until([&] { return !free.empty(); });
                const size_t at = free.back();
                free.pop_back();
                store_->read_layer(*reading, layer, {into[at]}, [&, at, round, layer](Status end) {
                    need(end);
                    if (validate && std::memcmp(into[at].data(), bytes_of(round, layer), layer_bytes_) != 0)
                        fail("a layer that was read is not the one that was written");
                    free.push_back(at);
                });
            }
        }
        tasks_.run_until([&] { return free.size() == into.size(); });
        return seconds_now() - start;
    }
    double bytes() const { return static_cast<double>(layer_bytes_) * 24 * rounds_; }
    DiskQueue& queue() { return *queue_; }
    bool direct() const { return store_->direct(); }

private:
    RecordHeader header_of(int32_t round) const {
        RecordHeader header = header_;
        std::memcpy(header.name.data(), &round, sizeof(round));
        header.before.fill(std::byte{0xff});
        for (int i = 0; i < tokens; ++i) header.ids.push_back(round * tokens + i);
        return header;
    }
    /// Of random bytes, a window for each layer.
    std::byte* bytes_of(int32_t round, size_t layer) {
        static std::vector<uint64_t> random;
        if (random.empty()) {
            std::mt19937_64 source(1);
            random.resize(layer_bytes_ / 8 + 4096);
            for (uint64_t& word : random) word = source();
        }
        return reinterpret_cast<std::byte*>(random.data() + (static_cast<size_t>(round) * 24 + layer) % 4096);
    }
    void write(int32_t round) {
        const auto begun = store_->begin(header_of(round), 1.0);
        if (!begun.writing) fail("the store refuses a record");
        int left = 24;
        std::vector<AlignedBytes> layers;
        for (size_t layer = 0; layer < 24; ++layer) {
            layers.emplace_back(layer_bytes_);
            std::memcpy(layers.back().data(), bytes_of(round, layer), layer_bytes_);
            store_->write_layer(begun.writing, layer, layers.back().span(), [&left](const Status& end) {
                need(end);
                --left;
            });
        }
        tasks_.run_until([&left] { return left == 0; });
        bool finished = false;
        store_->finish(begun.writing, [&finished](const Status& end) {
            need(end);
            finished = true;
        });
        tasks_.run_until([&finished] { return finished; });
        ++rounds_;
    }

    Tasks tasks_;
    std::unique_ptr<DiskQueue> queue_;
    std::unique_ptr<KvStore> store_;
    RecordHeader header_;
    size_t layer_bytes_ = 0;
    int32_t rounds_ = 0;
};

/// Reads all segments of a folder once; bytes a second.
double raw_rate(const std::string& folder, DiskQueue& queue) {
    struct Piece {
        int file;
        uint64_t offset;
        size_t bytes;
    };
    std::vector<Piece> pieces;
    std::vector<int> files;
    double all = 0.0;
    for (const auto& entry : fs::directory_iterator(folder)) {
        if (!entry.is_regular_file()) continue;
        const int file = open(entry.path().c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
        if (file < 0) fail("O_DIRECT is refused in " + folder);
        files.push_back(file);
        for (uint64_t at = 0; at + raw_bytes <= entry.file_size(); at += raw_bytes)
            pieces.push_back({file, at, raw_bytes});
    }
    const AlignedBytes memory(under_way_max * raw_bytes);
    const auto into = pieces_of(memory, raw_bytes);
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<size_t> free(into.size());
    std::iota(free.begin(), free.end(), size_t{0});
    const double start = seconds_now();
    std::unique_lock lock(mutex);
    for (const Piece& piece : pieces) {
        changed.wait(lock, [&] { return !free.empty(); });
        const size_t at = free.back();
        free.pop_back();
        all += static_cast<double>(piece.bytes);
        queue.submit({DiskWork::Kind::read, piece.file, piece.offset, {into[at]}, [&, at](Status end) {
                          need(end);
                          const std::lock_guard held(mutex);
                          free.push_back(at);
                          changed.notify_one();
                      }});
    }
    changed.wait(lock, [&] { return free.size() == into.size(); });
    const double seconds = seconds_now() - start;
    for (const int file : files) close(file);
    return all / seconds;
}

nlohmann::ordered_json measure(const std::string& folder, size_t bytes, bool sealed, int repeat) {
    const std::string path = folder + (sealed ? "/sealed" : "/plain");
    Rounds rounds(path, bytes, sealed);
    rounds.read_seconds(true);
    std::vector<double> ratios, rates, raws;
    for (int i = 0; i < repeat; ++i) {
        raws.push_back(raw_rate(path, rounds.queue()));
        rates.push_back(rounds.bytes() / rounds.read_seconds(false));
        ratios.push_back(rates.back() / raws.back());
    }
    for (auto* all : {&ratios, &rates, &raws}) std::ranges::sort(*all);
    const size_t middle = ratios.size() / 2;
    return {{"sealed", sealed},
            {"io_uring", rounds.queue().way() == DiskQueue::Way::io_uring},
            {"direct", rounds.direct()},
            {"raw_gb_per_s", raws[middle] / 1e9},
            {"read_gb_per_s", rates[middle] / 1e9},
            {"of_raw", ratios[middle]},
            {"of_raw_least", ratios.front()},
            {"of_raw_most", ratios.back()}};
}

double checksum_rate(int repeat) {
    const std::vector<std::byte> bytes(size_t{64} << 20, std::byte{5});
    uint64_t sum = 0;
    const double seconds = seconds_median(repeat, [&] { sum += checksum_of(bytes, sum); });
    return sum == 1 ? 0.0 : static_cast<double>(bytes.size()) / seconds;
}

}  // namespace
}  // namespace rondo::bench

int main(int argc, char** argv) {
    CLI::App app{"reading rounds' KV from the store, beside the disk's own rate"};
    bool json = false;
    std::string folder = std::filesystem::temp_directory_path();
    size_t mib = 512;
    int repeat = 5;
    app.add_flag("--json", json);
    app.add_option("--folder", folder, "on the disk that is measured");
    app.add_option("--mib", mib)->check(CLI::Range(64, 65536));
    app.add_option("--repeat", repeat)->check(CLI::Range(1, 1000));
    CLI11_PARSE(app, argc, argv);
    std::string own = folder + "/rondo-bench-store-XXXXXX";
    if (mkdtemp(own.data()) == nullptr) {
        std::fprintf(stderr, "bench_store: nothing can be made in %s\n", folder.c_str());
        return 1;
    }
    nlohmann::ordered_json out = {{"checksum_gb_per_s", rondo::bench::checksum_rate(repeat) / 1e9}};
    for (const bool sealed : {false, true})
        out["reads"].push_back(rondo::bench::measure(own, mib << 20, sealed, repeat));
    std::filesystem::remove_all(own);
    if (json) {
        std::printf("%s\n", out.dump().c_str());
        return 0;
    }
    std::printf("checksums on one thread %8.2f GB/s\n", out["checksum_gb_per_s"].get<double>());
    for (const auto& read : out["reads"])
        std::printf("%-6s read %6.2f GB/s, raw %6.2f GB/s: %.2f of it (%.2f to %.2f)\n",
                    read["sealed"].get<bool>() ? "sealed" : "plain", read["read_gb_per_s"].get<double>(),
                    read["raw_gb_per_s"].get<double>(), read["of_raw"].get<double>(),
                    read["of_raw_least"].get<double>(), read["of_raw_most"].get<double>());
    return 0;
}
