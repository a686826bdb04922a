#pragma once

#include <functional>
#include <memory>

#include "actors/kept_conversations.hpp"
#include "actors/runtime.hpp"
#include "actors/store_tasks.hpp"
#include "config/settings.hpp"
#include "memory/store/disk_meter.hpp"
#include "memory/store/kv_store.hpp"

namespace rondo {

/// A store's folder, taken over.
struct OpenedStore {
    std::shared_ptr<StoreTasks> tasks;
    std::unique_ptr<DiskMeter> queue;
    std::unique_ptr<KvStore> store;
    std::unique_ptr<KeptConversations> conversations;
    std::vector<ConversationHead> heads;                 ///< of those that were kept, in order of their numbers
    std::function<bool(const ConversationName&)> newer;  ///< KeptConversations::newer
    int64_t tokens_min = 0;                              ///< of a sequence that is put away
    uint64_t host_bytes_max = 0;                         ///< of records that lie in host memory as well
};

/// As memory.disk and memory.host_kv_mib say, on this disk; null: the system's. An error is one line, and changes
/// nothing in the folder.
Result<OpenedStore> open_store(const MemorySettings& settings, const Runtime& runtime, std::unique_ptr<DiskQueue> disk);

}  // namespace rondo
