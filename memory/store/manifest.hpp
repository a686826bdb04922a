#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "config/result.hpp"
#include "memory/store/disk_reserve.hpp"

namespace rocksdb {
class DB;
class Env;
class FileLock;
class Status;
class WriteBatch;
struct Options;
}  // namespace rocksdb

namespace rondo {

/// Keys and values in a folder of their own, whole after a crash: what has been committed is there, all of it or none.
/// A change that an error of the disk refuses is lost; the next one is tried anew.
///
/// Used by one thread.
class Manifest {
public:
    /// Set aside on the disk, for opening and removing when it is full.
    static constexpr uint64_t reserve_bytes = uint64_t{8} << 20;

    /// Changes that happen together.
    class Changes {
    public:
        Changes();
        ~Changes();
        Changes(Changes&&) noexcept;
        Changes& operator=(Changes&&) noexcept;
        void put(std::string_view key, std::string_view value);
        void remove(std::string_view key);

    private:
        friend class Manifest;
        std::unique_ptr<rocksdb::WriteBatch> batch_;
    };
    struct Opened {
        std::unique_ptr<Manifest> manifest;
        bool repaired = false;  ///< it was damaged: what could be read is there
        std::string note = {};  ///< what was damaged then, and what is there, in a line
    };

    /// Every byte is proved. A damaged one is repaired; where that fails, the error says why. One that another process
    /// has open is refused.
    static Result<Opened> open(const std::string& folder);
    /// To read alone, and nothing in the folder changes: not_found where there is none, and a damaged one is not
    /// repaired but `corrupt`. Nobody else may have it open either.
    static Result<std::unique_ptr<Manifest>> open_to_read(const std::string& folder);
    ~Manifest();

    /// Durable when it returns.
    Status commit(Changes changes);
    /// The same of changes that make room: on a full disk they may use the reserve.
    Status commit_removal(Changes changes);
    /// What a later commit sets aside again, if that much is free then.
    uint64_t reserve_missing_bytes() const { return reserve_.bytes_missing(); }
    /// Nobody has removed its files.
    bool is_there() const;
    Result<std::string> get(std::string_view key) const;  ///< not_found
    /// All whose keys begin so, in order of the keys, until one is refused. Nothing is committed meanwhile.
    using Each = std::function<Status(std::string_view key, std::string_view value)>;
    Status each(std::string_view begin, const Each& each) const;
    /// Rewrites its files, so that nothing of what was removed is in any of them. It may use the reserve, too.
    Status forget_removed();

private:
    explicit Manifest(const std::string& folder);
    rocksdb::Status try_to_open(const rocksdb::Options& options);
    Status open_database();
    Result<std::string> rescue(const std::string& why);
    Status open_again();
    void close();
    void note_failure(const rocksdb::Status& status);
    Status write(Changes& changes, bool removes);
    bool has_room() const;
    Status forget();

    const std::string folder_;
    DiskReserve reserve_;
    std::unique_ptr<rocksdb::Env> env_;      // outlives the database
    std::unique_ptr<rocksdb::DB> database_;  // null: it could not be opened again
    bool failed_ = false;                    // it must be opened again before it is written to
    bool is_forgotten_ = false;              // nothing was written since its files were rewritten
    bool proves_all_ = true;                 // when it is opened next
    std::string note_;                       // of the latest repair
    rocksdb::FileLock* lock_ = nullptr;      // of a manifest that is read alone; others have their database's
};

}  // namespace rondo
