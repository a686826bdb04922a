#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "memory/store/kv_bytes.hpp"
#include "memory/store/round_reader.hpp"
#include "memory/store/round_writer.hpp"
#include "tests/memory/store/kv_store_fixture.hpp"
#include "tests/memory/store/stand_in_gpu.hpp"

/// Rounds of a pool, a store they are put into and brought back from, and host memory in front of it.
namespace rondo::testing {

struct RoundCase {
    DType dtype;
    int lower_layers;
    size_t bytes_under_way;
    bool sealed;
    int head_dim = 8;
    enum class Device { cpu, stand_in_gpu, gpu } device = Device::cpu;
    size_t arena_bytes = 0;  ///< 0: none
};

inline std::string name_of_case(const RoundCase& of) {
    static constexpr const char* devices[] = {"", "AsOnAGpu", "OnAGpu"};
    return std::string(traits(of.dtype).name) + (of.sealed ? "Sealed" : "Plain") + (of.head_dim > 8 ? "Wide" : "") +
           devices[static_cast<size_t>(of.device)] +
           (of.arena_bytes == 0 ? "" : "InHostMemory" + std::to_string(of.arena_bytes >> 10) + "Kib");
}

class RoundMovingTest : public StoreTest, public ::testing::WithParamInterface<RoundCase> {
protected:
    void SetUp() override {
        shape_ = {3, GetParam().lower_layers, 2, {GetParam().dtype, GetParam().head_dim}};
        const bool on_gpu = GetParam().device == RoundCase::Device::gpu;
        if (on_gpu && cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
        if (GetParam().device == RoundCase::Device::stand_in_gpu) {
            device_ = std::make_unique<StandInGpu>();
        } else {
            device_ = open_device({on_gpu ? DeviceKind::cuda : DeviceKind::cpu, 0, on_gpu ? 0 : 1}).value();
        }
        most_ = record_tokens_max(shape_);
        const auto blocks = static_cast<size_t>(3 * (2 * most_ + 400) / kv_block_tokens + 64);
        pool_ = std::move(KvPool::create(*device_, shape_, {blocks, blocks})).value();
        options_.kind.dtype = shape_.atom.dtype;
        options_.kind.kv_heads = shape_.kv_heads;
        options_.kind.head_dim = shape_.atom.head_dim;
        options_.kind.layers = shape_.layers;
        if (GetParam().sealed) options_.keys.emplace(some_root());
        start();
    }
    ~RoundMovingTest() override {
        writer_.reset();
        reader_.reset();
        close();  // while there is whoever is told
    }
    /// As another process, whose host memory is empty.
    void start() {
        writer_.reset();
        reader_.reset();
        open();
        const size_t under_way = GetParam().bytes_under_way;
        if (GetParam().arena_bytes > 0) {
            arena_ = std::make_unique<HostArena>(
                *device_, HostArena::Options{GetParam().arena_bytes, disk_alignment, size_t{64} << 10});
            store_->when_gone([this](const StoreName& name) { arena_->drop(name); });
        }
        writer_.emplace(*store_, *pool_, *device_, RoundWriter::Options{under_way, options_.post, arena_.get()});
        reader_.emplace(*store_, *pool_, *device_, RoundReader::Options{under_way, options_.post, arena_.get()});
    }

    /// Rounds that end there, every byte of them random.
    SequenceKv sequence(const std::vector<int64_t>& ends) {
        SequenceKv kv(*pool_);
        kv.plan_rounds(ends);
        EXPECT_TRUE(kv.extend(ends.back()));
        std::mt19937_64 random(7);
        std::vector<std::byte> bytes(block_bytes());
        each_place(kv, [&](int, std::byte* place) {
            for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
            copy(place, bytes.data());
        });
        return kv;
    }
    size_t block_bytes() const { return static_cast<size_t>(shape_.kv_heads) * shape_.atom.bytes(); }
    void copy(std::byte* to, const std::byte* from) {
        EXPECT_TRUE(device_->copy(to, from, block_bytes(), StreamId::compute));
        EXPECT_TRUE(device_->drain(StreamId::compute));
    }
    std::vector<std::byte> block_of(int32_t block, int layer) {
        std::vector<std::byte> bytes(block_bytes());
        copy(bytes.data(), static_cast<std::byte*>(pool_->layer(layer).at(block, 0)));
        return bytes;
    }
    template <class Use>
    void each_place(const SequenceKv& kv, Use use) {
        for (int layer = 0; layer < shape_.layers; ++layer)
            for (const int32_t block : kv.blocks(shape_.group_of(layer)))
                use(layer, static_cast<std::byte*>(pool_->layer(layer).at(block, 0)));
    }
    /// With a copy of what lies there.
    template <class Use>
    void each_block(const SequenceKv& kv, Use use) {
        std::vector<std::byte> bytes(block_bytes());
        each_place(kv, [&](int layer, const std::byte* place) {
            copy(bytes.data(), place);
            use(layer, std::span<const std::byte>(bytes));
        });
    }
    /// What keys of these tokens hold, as bytes of their whole blocks with what nobody wrote taken out.
    std::vector<std::byte> contents(const SequenceKv& kv) {
        std::vector<std::byte> all;
        size_t block = 0;
        each_block(kv, [&](int layer, std::span<const std::byte> bytes) {
            const LayerGroup group = shape_.group_of(layer);
            const auto begins = kv.block_begin(group);
            std::vector<std::byte> copy(bytes.begin(), bytes.end());
            const int32_t keys = begins[block + 1] - begins[block];
            clear_unwritten(shape_.atom, shape_.kv_heads, keys, copy);
            all.insert(all.end(), copy.begin(), copy.end());
            block = block + 1 == kv.blocks(group).size() ? 0 : block + 1;
        });
        return all;
    }

    void put(const SequenceKv& kv) { put(kv, ids_of(kv.tokens())); }
    void put(const SequenceKv& kv, std::vector<int32_t> ids) {
        RoundWriter::Sequence sequence{space_, std::move(ids), kv.share(), 0.001};
        sequence.copied = [this] { ++copied_; };
        sequence.stored = [this](const StoreName&) { ++stored_; };
        writer_->add(std::move(sequence));
    }
    void wait_for_the_writer() {
        bool done = false;
        writer_->when_idle([&done] { done = true; });
        tasks_->run_until([&done] { return done; });
    }
    static std::vector<int32_t> ids_of(int64_t count) {
        std::vector<int32_t> ids(static_cast<size_t>(count));
        std::iota(ids.begin(), ids.end(), 100);
        return ids;
    }
    /// What is stored of so many ids, read behind what is known. Returns the rounds that came.
    size_t bring_back(SequenceKv& kv, int64_t count) { return bring_back(kv, ids_of(count)); }
    size_t bring_back(SequenceKv& kv, const std::vector<int32_t>& ids) {
        WayBack way = way_back(stored_rounds(*store_, shape_, space_, ids), kv, shape_);
        if (way.rounds.empty()) return 0;
        EXPECT_TRUE(keeps_plan_ ? kv.extend(way.end - way.begin).is_ok()
                                : grow_for(kv, way, std::ssize(ids) - kv.tokens()));
        RoundReader::Job job{kv.share(), std::move(way.rounds)};
        std::optional<size_t> whole;
        layers_.clear();
        job.arrived = [this](int layers) {
            layers_.push_back(layers);
            if (on_arrived_) on_arrived_(layers);
        };
        job.over = [&whole](size_t rounds) { whole = rounds; };
        ticket_ = reader_->read(std::move(job));
        if (cancels_) reader_->cancel(ticket_);
        tasks_->run_until([&whole] { return whole.has_value(); });
        return *whole;
    }

    KvShape shape_;
    int64_t most_ = 0;  // tokens of a record
    std::unique_ptr<Device> device_;
    std::unique_ptr<KvPool> pool_;
    std::unique_ptr<HostArena> arena_;
    const PrefixSpace space_{"t"};
    std::optional<RoundWriter> writer_;
    std::optional<RoundReader> reader_;
    RoundReader::Ticket ticket_;
    bool cancels_ = false, keeps_plan_ = false;
    std::function<void(int)> on_arrived_;
    std::vector<int> layers_;  // that had arrived, each time it was told
    int copied_ = 0, stored_ = 0;
};

}  // namespace rondo::testing
