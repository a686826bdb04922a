#include "memory/store/careful_read.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "config/checked.hpp"
#include "memory/store/aligned_bytes.hpp"

namespace rondo {

namespace {

/// Bytes of a record that are asked of the disk.
struct Asked {
    Segments* segments = nullptr;
    StoreThread thread;
    RecordPlace place;
    uint64_t at = 0;
    MemoryParts into;
    std::function<void(Status)> done;  // called once, on the disk's thread where it has read something
};
using AskedPtr = std::shared_ptr<const Asked>;

/// Bytes that could not be read are damaged only where the disk reads others of the same file. A disk that reads
/// nothing may come back.
void end_unread(const AskedPtr& asked, const Error& why) {
    const auto block = std::make_shared<AlignedBytes>(disk_alignment);
    const RecordPlace begin_of_file{asked->place.segment, 0, disk_alignment};
    asked->segments->read(begin_of_file, 0, {block->span()}, [asked, block, why](const Status& end) {
        asked->done(make_error(end ? ErrorCode::corrupt : why.code, "a stored record cannot be read: " + why.message));
    });
}

/// Bytes that cannot be read are asked for once more. A second error is the disk's answer.
void ask(const AskedPtr& asked, bool again = false) {
    asked->segments->read(asked->place, asked->at, asked->into, [asked, again](Status end) {
        if (end || end.error().code != ErrorCode::io) return asked->done(std::move(end));
        // Segments belong to the store's thread.
        asked->thread.run([asked, again, why = end.error()] { again ? end_unread(asked, why) : ask(asked, true); });
    });
}

}  // namespace

void read_carefully(Segments& segments, const StoreThread& thread, const RecordPlace& place, uint64_t at,
                    const MemoryParts& into, std::function<void(Status)> come) {
    struct Together {
        std::function<void(Status)> come;
        std::atomic<size_t> left;
        std::mutex mutex;
        Status first;  // that went wrong
    };
    const size_t bytes = bytes_of(into);
    if (bytes == 0) return come(Status::ok());
    const auto together = std::make_shared<Together>();
    together->come = std::move(come);
    together->left = ceil_div(bytes, read_piece_bytes);
    const auto ended = [together](Status end) {
        if (!end) {
            const std::lock_guard lock(together->mutex);
            if (together->first) together->first = std::move(end);
        }
        if (--together->left == 0) together->come(together->first);
    };
    for (size_t from = 0; from < bytes; from += read_piece_bytes)
        ask(std::make_shared<Asked>(
            Asked{&segments, thread, place, at + from, parts_within(into, from, read_piece_bytes), ended}));
}

}  // namespace rondo
