#include "kernels/cpu/cpu_device.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>

#include "config/checked.hpp"
#include "kernels/cpu/bf16_way.hpp"
#include "kernels/cpu/cpu_features.hpp"
#include "kernels/cpu/cpu_ops.hpp"
#include "kernels/cpu/stream_thread.hpp"
#include "kernels/cpu/usable_cores.hpp"

namespace rondo {

namespace {

constexpr int threads_max = 1024;
constexpr size_t page_bytes = 4096;
constexpr size_t huge_page_bytes = size_t{2} << 20;
constexpr size_t region_bytes = size_t{64} << 20;
constexpr int madv_collapse = 25;  // MADV_COLLAPSE, which the C library's headers may not know yet

uintptr_t down_to_huge_page(uintptr_t address) {
    return address / huge_page_bytes * huge_page_bytes;
}

uintptr_t up_to_huge_page(uintptr_t address) {
    return down_to_huge_page(address + huge_page_bytes - 1);
}

/// As the machine's owner set it when it was first asked: MADV_COLLAPSE does not look at that.
bool are_huge_pages_given() {
    static const bool are_given = [] {
        std::string setting;
        std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), setting);
        return !setting.empty() && setting.find("[never]") == std::string::npos;
    }();
    return are_given;
}

std::string_view tier_name(cpu::CpuTier tier) {
    switch (tier) {
        case cpu::CpuTier::portable:
            return "portable";
        case cpu::CpuTier::avx512:
            return "avx512";
        case cpu::CpuTier::amx:
            return "amx";
    }
    return "?";
}

class CpuDevice : public Device {
public:
    CpuDevice(int threads, Bf16Way bf16) : bf16_(bf16), ops_(*this, threads, bf16) {}
    ~CpuDevice() override { close_region(); }

    std::string name() const override {
        const int threads = ops_.threads();
        return "cpu (" + std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") +
               std::string(tier_name(cpu::cpu_tier())) + ", bf16 in " + std::string(cpu::name_of(bf16_)) + ")";
    }
    MemorySpace space() const override { return {DeviceKind::cpu, 0}; }
    Ops& ops() override { return ops_; }
    int host_threads() const override { return ops_.threads(); }
    void run_tasks(int64_t count, const std::function<void(int64_t)>& task) override {
        ops_.pool().run(count, [&](int64_t i, int) { task(i); });
    }

    /// Takes memory straight from the operating system, in regions whose pages appear when they are first written. Huge
    /// pages give a few percent more memory bandwidth. Buffers share a region, because a buffer smaller than a huge
    /// page would get none of its own.
    Result<Buffer> allocate(size_t bytes) override {
        const auto padded = checked_add<size_t>(bytes, page_bytes + region_bytes + huge_page_bytes);
        if (!padded) return no_room(bytes);
        const size_t length = (bytes + page_bytes) / page_bytes * page_bytes;
        std::lock_guard lock(mutex_);
        if (length > region_left_ && !open_region(length)) return no_room(bytes);
        void* const data = region_;
        region_ += length;
        region_left_ -= length;
        return Buffer(data, bytes, space(), [length](void* p, size_t) { munmap(p, length); });
    }

    /// Without huge pages, of which each layer of a pool would take one for a few tokens.
    Result<Buffer> allocate_pool(size_t bytes) override {
        const size_t length = std::max<size_t>(bytes, 1);
        void* const data = map(length);
        if (data == MAP_FAILED) return no_room(bytes);
        madvise(data, length, MADV_NOHUGEPAGE);  // where the system gives them unasked
        return Buffer(data, bytes, space(), [length](void* p, size_t) { munmap(p, length); });
    }
    void expect_pool(std::byte* stretch, size_t from, size_t to) override {
        const auto begin = reinterpret_cast<uintptr_t>(stretch);
        const uintptr_t first = std::max(up_to_huge_page(begin), down_to_huge_page(begin + from));
        const uintptr_t end = down_to_huge_page(begin + to);
        if (first >= end || !are_huge_pages_given()) return;
        madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
        // The beginning lies in small pages. Older kernels leave it there.
        if (first < begin + from) madvise(reinterpret_cast<void*>(first), huge_page_bytes, madv_collapse);
    }

    Status copy(void* dst, const void* src, size_t bytes, StreamId stream) override {
        if (bytes == 0) return Status::ok();  // an empty table may have no address, which memcpy must not see
        if (stream == StreamId::compute) {
            std::memcpy(dst, src, bytes);
        } else {
            side(stream).post([dst, src, bytes] { std::memcpy(dst, src, bytes); });
        }
        return Status::ok();
    }

    /// In one piece of a side's work: to hand over each would take as long as a small copy.
    Status copy_all(std::span<const Copy> copies, StreamId stream) override {
        if (stream == StreamId::compute) return Device::copy_all(copies, stream);
        side(stream).post([all = std::vector<Copy>(copies.begin(), copies.end())] {
            for (const Copy& one : all)
                if (one.bytes > 0) std::memcpy(one.to, one.from, one.bytes);
        });
        return Status::ok();
    }

    Result<Buffer> allocate_host(size_t bytes) override { return allocate(bytes); }

    /// Compute is done when it returns.
    Result<Mark> record(StreamId stream) override {
        return Mark{stream, stream == StreamId::compute ? 0 : side(stream).posted()};
    }
    Status wait(StreamId stream, Mark mark) override {
        if (mark.stream == StreamId::compute || mark.stream == stream) return Status::ok();
        if (stream == StreamId::compute) return reach(mark);
        side(stream).post([this, mark] { (void)reach(mark); });
        return Status::ok();
    }
    Status reach(Mark mark) override {
        if (mark.stream != StreamId::compute) side(mark.stream).wait_for(mark.number);
        return Status::ok();
    }

    Status notify(StreamId stream, std::function<void(Status)> done) override {
        if (stream == StreamId::compute) {
            done(Status::ok());
        } else {
            side(stream).post([done = std::move(done)] { done(Status::ok()); });
        }
        return Status::ok();
    }

    Status drain(StreamId stream) override {
        return reach(Mark{stream, stream == StreamId::compute ? 0 : side(stream).posted()});
    }

private:
    static void* map(size_t length) {
        return mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    static Error no_room(size_t bytes) {
        return make_error(ErrorCode::out_of_memory, "the host has no room for " + std::to_string(bytes) + " bytes");
    }
    /// A region, aligned to huge pages, with room for `length` bytes and for small buffers after them.
    bool open_region(size_t length) {
        const size_t reserved = std::max(length, region_bytes) + huge_page_bytes;
        void* const data = map(reserved);
        if (data == MAP_FAILED) return false;
        close_region();
        const size_t skipped = huge_page_bytes - reinterpret_cast<uintptr_t>(data) % huge_page_bytes;
        munmap(data, skipped);
        region_ = static_cast<std::byte*>(data) + skipped;
        region_left_ = reserved - skipped;
        madvise(region_, region_left_, MADV_HUGEPAGE);
        return true;
    }
    void close_region() {
        if (region_left_ > 0) munmap(region_, region_left_);
        region_left_ = 0;
    }

    cpu::StreamThread& side(StreamId stream) { return stream == StreamId::load ? load_ : store_; }

    Bf16Way bf16_;
    cpu::CpuOps ops_;
    cpu::StreamThread load_, store_;
    std::mutex mutex_;
    std::byte* region_ = nullptr;  // where the next buffer goes; a buffer's part of a region is its own
    size_t region_left_ = 0;
};

}  // namespace

Result<std::unique_ptr<Device>> make_cpu_device(int threads, Bf16Way bf16) {
    if (threads < 0 || threads > threads_max) {
        return make_error(ErrorCode::out_of_range, "threads of a CPU device are " + std::to_string(threads) +
                                                       ", must be 0 (all cores) to " + std::to_string(threads_max));
    }
    RONDO_TRY(cpu::check_cpu_variable());
    RONDO_ASSIGN(const Bf16Way way, cpu::choose_bf16_way(bf16, cpu::cache_folder()));
    if (threads == 0) threads = cpu::usable_cores();
    try {
        return std::unique_ptr<Device>(std::make_unique<CpuDevice>(threads, way));
    } catch (const std::exception& error) {
        return make_error(ErrorCode::out_of_memory,
                          "a CPU device of " + std::to_string(threads) + " threads cannot start: " + error.what());
    }
}

}  // namespace rondo
