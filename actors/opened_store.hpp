#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "actors/runtime.hpp"
#include "actors/store_tasks.hpp"
#include "config/settings.hpp"
#include "memory/store/disk_queue.hpp"
#include "memory/store/kv_store.hpp"

namespace rondo {

/// A store's folder, taken over.
struct OpenedStore {
    std::shared_ptr<StoreTasks> tasks;
    std::unique_ptr<DiskQueue> queue;
    std::unique_ptr<KvStore> store;
    int64_t tokens_min = 0;  ///< of a sequence that is put away
};

/// As memory.disk says. An error is one line, and changes nothing in the folder.
Result<OpenedStore> open_store(const DiskSettings& settings, const Runtime& runtime);

/// What the store has done, for whoever asks from another thread.
struct StoreFigures {
    std::atomic<bool> serves{false};  ///< there is one, and it lives
    std::atomic<uint64_t> bytes{0}, records{0};
    std::atomic<uint64_t> bytes_written{0}, bytes_read{0};
    std::atomic<int64_t> written{0}, read{0}, evicted{0}, expired{0}, damaged{0};
    std::array<std::atomic<int64_t>, KvStore::refusals> refused{};
    std::atomic<int64_t> tokens_asked{0}, tokens_found{0}, tokens_restored{0}, tokens_not_worth{0}, tokens_failed{0};
    std::atomic<double> restore_seconds{0.0};
    std::atomic<int64_t> queue_sequences{0};
};

}  // namespace rondo
