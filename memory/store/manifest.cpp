#include "memory/store/manifest.hpp"

#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "memory/store/manifest_rescue.hpp"
#include "memory/store/rocks/own_files.hpp"
#include "memory/store/rocks/rocks_status.hpp"

namespace rondo {

namespace {

constexpr const char* room_file = "/room";

/// On a full disk a log that is a file ends the process: RocksDB asserts that nothing is appended behind an error.
class NoLog : public rocksdb::Logger {
public:
    using rocksdb::Logger::Logv;
    void Logv(const char*, va_list) override {}
};

/// Tables that TableFile can prove and read, whatever another RocksDB would write by itself.
void use_known_tables(rocksdb::Options& options) {
    rocksdb::BlockBasedTableOptions table;
    table.format_version = 5;
    table.checksum = rocksdb::kXXH3;
    table.index_type = rocksdb::BlockBasedTableOptions::kBinarySearch;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    const std::vector<rocksdb::CompressionType> known = rocksdb::GetSupportedCompressions();
    const bool has_snappy = std::ranges::find(known, rocksdb::kSnappyCompression) != known.end();
    options.compression = has_snappy ? rocksdb::kSnappyCompression : rocksdb::kNoCompression;
    options.bottommost_compression = options.compression;
}

rocksdb::Options options_with(rocksdb::Env* env) {
    rocksdb::Options options;
    options.env = env;
    options.create_if_missing = true;
    options.paranoid_checks = true;
    // A manifest is some megabytes: little memory, and few files.
    options.write_buffer_size = size_t{4} << 20;
    options.max_total_wal_size = uint64_t{16} << 20;
    options.max_open_files = 64;
    options.delete_obsolete_files_period_micros = 0;  // also what a process that was killed has left
    options.manifest_preallocation_size = size_t{64} << 10;
    options.info_log = std::make_shared<NoLog>();
    options.stats_dump_period_sec = 0;
    options.stats_persist_period_sec = 0;
    use_known_tables(options);
    return options;
}

/// Opens with hardly a byte written: what the logs hold stays in memory and in the logs.
rocksdb::Options options_on_full_disk(rocksdb::Options options, const std::string& folder) {
    uint64_t bytes = 0;
    std::vector<std::string> names;
    static_cast<void>(options.env->GetChildren(folder, &names));
    for (const std::string& name : names) {
        uint64_t size = 0;
        if (name.ends_with(".log") && options.env->GetFileSize(folder + '/' + name, &size).ok()) bytes += size;
    }
    options.avoid_flush_during_recovery = true;
    options.write_buffer_size += 2 * bytes;
    options.allow_fallocate = false;
    return options;
}

rocksdb::Slice slice(std::string_view bytes) {
    return {bytes.data(), bytes.size()};
}

Error open_elsewhere(const std::string& folder) {
    return make_error(ErrorCode::invalid_argument, folder + ": another process has this store open");
}

Error closed() {
    return make_error(ErrorCode::out_of_memory, "the store's manifest is closed, and the disk has no room to open it");
}

Status lock_folder(rocksdb::Env& env, const std::string& folder, rocksdb::FileLock*& lock) {
    const rocksdb::Status locked = env.LockFile(folder + "/LOCK", &lock);
    if (locked.ToString().find("open a file") != std::string::npos) RONDO_TRY(status_of_rocksdb(locked));
    return locked.ok() ? Status::ok() : Status(open_elsewhere(folder));
}

/// Also where a file is missing.
bool is_damage(const rocksdb::Status& status) {
    return status.IsCorruption() || status.IsPathNotFound();
}

}  // namespace

Manifest::Changes::Changes() : batch_(std::make_unique<rocksdb::WriteBatch>()) {}
Manifest::Changes::~Changes() = default;
Manifest::Changes::Changes(Changes&&) noexcept = default;
Manifest::Changes& Manifest::Changes::operator=(Changes&&) noexcept = default;

void Manifest::Changes::put(std::string_view key, std::string_view value) {
    batch_->Put(slice(key), slice(value));
}

void Manifest::Changes::remove(std::string_view key) {
    batch_->Delete(slice(key));
}

Manifest::Manifest(const std::string& folder)
    : folder_(folder), reserve_(folder + "/reserve", reserve_bytes), env_(make_own_files()) {}

rocksdb::Status Manifest::try_to_open(const rocksdb::Options& options) {
    if (const Status proved = prove_description(folder_, *env_); !proved)
        return rocksdb::Status::Corruption(proved.error().message);
    rocksdb::DB* database = nullptr;
    rocksdb::Status status = rocksdb::DB::Open(options, folder_, &database);
    if (!status.ok()) return status;
    database_.reset(database);
    if (proves_all_) status = database->VerifyChecksum();
    if (status.IsIOError() && !has_no_space(status) && has_lost_blocks(folder_, *env_))
        status = rocksdb::Status::Corruption(status.ToString());
    if (!status.IsCorruption()) return rocksdb::Status::OK();  // what cannot be read now is an error when it is wanted
    close();
    return status;
}

Status Manifest::open_database() {
    const rocksdb::Options options = options_with(env_.get());
    bool full = false, rescued = false;
    rocksdb::Status status = try_to_open(options);
    while (!status.ok()) {
        if (is_damage(status) && !std::exchange(rescued, true)) {
            RONDO_ASSIGN(note_, rescue(status.ToString()));
        } else if (has_no_space(status) && !std::exchange(full, true)) {
            reserve_.give_up();
        } else {
            break;
        }
        status = try_to_open(full ? options_on_full_disk(options, folder_) : options);
    }
    if (status.IsIOError() && status.ToString().find("lock ") != std::string::npos) return open_elsewhere(folder_);
    RONDO_TRY(status_of_rocksdb(status));
    failed_ = proves_all_ = false;
    return Status::ok();
}

/// What there was and what is left of it.
Result<std::string> Manifest::rescue(const std::string& why) {
    rocksdb::FileLock* lock = nullptr;
    RONDO_TRY(lock_folder(*env_, folder_, lock));
    auto rescued = rescue_manifest(folder_, *env_);
    if (!rescued && rescued.error().code == ErrorCode::out_of_memory) {
        reserve_.give_up();
        rescued = rescue_manifest(folder_, *env_);
    }
    static_cast<void>(env_->UnlockFile(lock));
    if (!rescued) return make_error(rescued.error().code, why + "; " + rescued.error().message);
    return folder_ + " was damaged (" + why + "): " + std::to_string(rescued->entries) +
           " entries are kept; damaged are " + std::to_string(rescued->damaged_blocks) + " blocks of its tables and " +
           std::to_string(rescued->damaged_logs) + " of its logs";
}

Result<Manifest::Opened> Manifest::open(const std::string& folder) {
    Opened made;
    made.manifest.reset(new Manifest(folder));
    RONDO_TRY(made.manifest->open_database());
    made.manifest->reserve_.take();
    made.note = made.manifest->note_;
    made.repaired = !made.note.empty();
    std::error_code ignored;  // where older versions' repairs left what they had replaced
    std::filesystem::remove_all(folder + "/lost", ignored);
    std::filesystem::remove(folder + room_file, ignored);  // a killed process may have been asking
    return made;
}

/// A database that is opened to read alone takes no lock.
Result<std::unique_ptr<Manifest>> Manifest::open_to_read(const std::string& folder) {
    std::unique_ptr<Manifest> made(new Manifest(folder));
    if (!made->env_->FileExists(folder + "/CURRENT").ok())
        return make_error(ErrorCode::not_found, folder + ": there is no store's manifest");
    RONDO_TRY(lock_folder(*made->env_, folder, made->lock_));
    RONDO_TRY(prove_description(folder, *made->env_));
    rocksdb::Options options = options_with(made->env_.get());
    options.create_if_missing = false;
    rocksdb::DB* database = nullptr;
    RONDO_TRY(status_of_rocksdb(rocksdb::DB::OpenForReadOnly(options, folder, &database)));
    made->database_.reset(database);
    return made;
}

void Manifest::close() {
    if (database_ != nullptr) static_cast<void>(database_->Close());
    database_.reset();
}

Manifest::~Manifest() {
    close();
    if (lock_ != nullptr) static_cast<void>(env_->UnlockFile(lock_));
}

/// After an error RocksDB does not write until it resumes. It may resume with the log that had the error, and asserts
/// at the next write that nobody does so.
Status Manifest::open_again() {
    if (lock_ != nullptr) return make_error(ErrorCode::invalid_argument, "the store's manifest is only read");
    close();
    failed_ = true;
    return open_database();
}

/// To be opened again without the reserve. What is free says nothing of what this user may have: some of it is taken.
bool Manifest::has_room() const {
    constexpr uint64_t enough_bytes = uint64_t{1} << 20;
    DiskReserve room(folder_ + room_file, enough_bytes);
    room.take();
    const bool enough = room.bytes_missing() == 0;
    room.give_up();
    return enough;
}

/// Of the whole manifest, not of a key.
void Manifest::note_failure(const rocksdb::Status& status) {
    failed_ = !status.ok();
    proves_all_ = proves_all_ || status.IsCorruption() || (status.IsIOError() && !has_no_space(status));
}

Status Manifest::write(Changes& changes, bool removes) {
    is_forgotten_ = false;
    rocksdb::WriteOptions durable;
    durable.sync = true;
    rocksdb::Status status = rocksdb::Status::NoSpace("since an earlier error");
    if (!failed_) status = database_->Write(durable, changes.batch_.get());
    note_failure(status);
    if (failed_ && (removes || has_room())) {
        if (!has_room()) reserve_.give_up();
        RONDO_TRY(open_again());
        if (!removes) reserve_.take();  // which may need it to be written
        status = database_->Write(durable, changes.batch_.get());
        note_failure(status);
    }
    if (!failed_) reserve_.take();
    return status_of_rocksdb(status);
}

Status Manifest::commit(Changes changes) {
    return write(changes, false);
}

Status Manifest::commit_removal(Changes changes) {
    return write(changes, true);
}

Result<std::string> Manifest::get(std::string_view key) const {
    if (database_ == nullptr) return closed();
    std::string value;
    RONDO_TRY(status_of_rocksdb(database_->Get(rocksdb::ReadOptions(), slice(key), &value)));
    return value;
}

Status Manifest::each(std::string_view begin, const Each& each) const {
    if (database_ == nullptr) return closed();
    const std::unique_ptr<rocksdb::Iterator> at(database_->NewIterator(rocksdb::ReadOptions()));
    for (at->Seek(slice(begin)); at->Valid() && at->key().starts_with(slice(begin)); at->Next())
        RONDO_TRY(each(at->key().ToStringView(), at->value().ToStringView()));
    return status_of_rocksdb(at->status());
}

bool Manifest::is_there() const {
    std::error_code why;  // of which any but "it is not there" says nothing
    return std::filesystem::exists(folder_ + "/CURRENT", why) || why;
}

Status Manifest::forget_removed() {
    if (is_forgotten_ && !failed_) return Status::ok();
    Status forgotten = closed();
    if (!failed_) forgotten = forget();
    if (forgotten) return forgotten;
    if (forgotten.error().code == ErrorCode::out_of_memory || !has_room()) reserve_.give_up();
    RONDO_TRY(open_again());
    forgotten = forget();
    reserve_.take();
    return forgotten;
}

Status Manifest::forget() {
    rocksdb::CompactRangeOptions everything;
    everything.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    // With nothing to flush a log would stay, with what a killed process had written of a change.
    rocksdb::Status status = database_->Delete(rocksdb::WriteOptions(), "");
    if (status.ok()) status = database_->Flush(rocksdb::FlushOptions());
    if (status.ok()) status = database_->CompactRange(everything, nullptr, nullptr);
    // Looks for all files that nobody needs, also those that a killed process has left.
    if (status.ok()) status = database_->EnableFileDeletions(true);
    note_failure(status);
    is_forgotten_ = status.ok();
    return status_of_rocksdb(status);
}

}  // namespace rondo
