#include "memory/store/manifest.hpp"

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <vector>

namespace rondo {

namespace {

/// Everything that it makes is this user's alone.
class OwnFiles : public rocksdb::EnvWrapper {
public:
    OwnFiles() : rocksdb::EnvWrapper(rocksdb::Env::Default()) {}

    rocksdb::Status NewWritableFile(const std::string& name, std::unique_ptr<rocksdb::WritableFile>* file,
                                    const rocksdb::EnvOptions& options) override {
        return closed_to_others(name, rocksdb::EnvWrapper::NewWritableFile(name, file, options));
    }
    rocksdb::Status ReopenWritableFile(const std::string& name, std::unique_ptr<rocksdb::WritableFile>* file,
                                       const rocksdb::EnvOptions& options) override {
        return closed_to_others(name, rocksdb::EnvWrapper::ReopenWritableFile(name, file, options));
    }
    rocksdb::Status ReuseWritableFile(const std::string& name, const std::string& old,
                                      std::unique_ptr<rocksdb::WritableFile>* file,
                                      const rocksdb::EnvOptions& options) override {
        return closed_to_others(name, rocksdb::EnvWrapper::ReuseWritableFile(name, old, file, options));
    }

private:
    static rocksdb::Status closed_to_others(const std::string& name, rocksdb::Status made) {
        if (made.ok() && chmod(name.c_str(), S_IRUSR | S_IWUSR) != 0)
            return rocksdb::Status::IOError("cannot be closed to others", name);
        return made;
    }
};

/// On a full disk a log that is a file ends the process: RocksDB asserts that nothing is appended behind an error.
class NoLog : public rocksdb::Logger {
public:
    using rocksdb::Logger::Logv;
    void Logv(const char*, va_list) override {}
};

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

Status to_status(const rocksdb::Status& status) {
    if (status.ok()) return Status::ok();
    const std::string what = "the store's manifest: " + status.ToString();
    if (status.IsNotFound()) return make_error(ErrorCode::not_found, what);
    if (status.IsCorruption()) return make_error(ErrorCode::corrupt, what);
    if (status.IsNoSpace() || status.IsMemoryLimit()) return make_error(ErrorCode::out_of_memory, what);
    return make_error(ErrorCode::io, what);
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
    : folder_(folder), reserve_(folder + "/reserve", reserve_bytes), env_(std::make_unique<OwnFiles>()) {}

Status Manifest::open_database(bool& repaired) {
    const rocksdb::Options options = options_with(env_.get());
    rocksdb::DB* database = nullptr;
    rocksdb::Status status = rocksdb::DB::Open(options, folder_, &database);
    if (status.IsCorruption()) {
        repaired = true;
        status = rocksdb::RepairDB(folder_, options);
        if (status.ok()) status = rocksdb::DB::Open(options, folder_, &database);
        std::error_code ignored;  // whatever is left there has been removed, or cannot be read
        if (status.ok()) std::filesystem::remove_all(folder_ + "/lost", ignored);
    }
    if (status.IsNoSpace()) {
        reserve_.give_up();
        status = rocksdb::DB::Open(options_on_full_disk(options, folder_), folder_, &database);
    }
    if (!status.ok() && status.ToString().find("lock") != std::string::npos) return open_elsewhere(folder_);
    RONDO_TRY(to_status(status));
    database_.reset(database);
    failed_ = false;
    reserve_.take();
    return Status::ok();
}

Result<Manifest::Opened> Manifest::open(const std::string& folder) {
    Opened made;
    made.manifest.reset(new Manifest(folder));
    RONDO_TRY(made.manifest->open_database(made.repaired));
    return made;
}

/// A database that is opened to read alone takes no lock.
Result<std::unique_ptr<Manifest>> Manifest::open_to_read(const std::string& folder) {
    std::unique_ptr<Manifest> made(new Manifest(folder));
    if (!made->env_->FileExists(folder + "/CURRENT").ok())
        return make_error(ErrorCode::not_found, folder + ": there is no store's manifest");
    const rocksdb::Status locked = made->env_->LockFile(folder + "/LOCK", &made->lock_);
    if (locked.ToString().find("open a file") != std::string::npos) RONDO_TRY(to_status(locked));
    if (!locked.ok()) return open_elsewhere(folder);
    rocksdb::Options options = options_with(made->env_.get());
    options.create_if_missing = false;
    rocksdb::DB* database = nullptr;
    RONDO_TRY(to_status(rocksdb::DB::OpenForReadOnly(options, folder, &database)));
    made->database_.reset(database);
    return made;
}

Manifest::~Manifest() {
    if (database_ != nullptr) static_cast<void>(database_->Close());
    database_.reset();
    if (lock_ != nullptr) static_cast<void>(env_->UnlockFile(lock_));
}

/// After an error RocksDB does not write until it resumes. It may resume with the log that had the error, and asserts
/// at the next write that nobody does so.
Status Manifest::open_again() {
    if (lock_ != nullptr) return make_error(ErrorCode::invalid_argument, "the store's manifest is only read");
    if (database_ != nullptr) static_cast<void>(database_->Close());
    database_.reset();
    failed_ = true;
    bool repaired = false;
    return open_database(repaired);
}

/// To be opened again without the reserve.
bool Manifest::has_room() const {
    constexpr uint64_t enough_bytes = uint64_t{1} << 20;
    struct statvfs disk = {};
    return statvfs(folder_.c_str(), &disk) == 0 && uint64_t{disk.f_bavail} * disk.f_frsize >= enough_bytes;
}

Status Manifest::write(Changes& changes, bool removes) {
    rocksdb::WriteOptions durable;
    durable.sync = true;
    rocksdb::Status status = rocksdb::Status::NoSpace("since an earlier error");
    if (!failed_) status = database_->Write(durable, changes.batch_.get());
    failed_ = !status.ok();
    if (failed_ && (removes || has_room())) {
        if (!has_room()) reserve_.give_up();
        RONDO_TRY(open_again());
        status = database_->Write(durable, changes.batch_.get());
        failed_ = !status.ok();
    }
    if (!failed_) reserve_.take();
    return to_status(status);
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
    RONDO_TRY(to_status(database_->Get(rocksdb::ReadOptions(), slice(key), &value)));
    return value;
}

Status Manifest::each(std::string_view begin, const Each& each) const {
    if (database_ == nullptr) return closed();
    const std::unique_ptr<rocksdb::Iterator> at(database_->NewIterator(rocksdb::ReadOptions()));
    for (at->Seek(slice(begin)); at->Valid() && at->key().starts_with(slice(begin)); at->Next())
        RONDO_TRY(each(at->key().ToStringView(), at->value().ToStringView()));
    return to_status(at->status());
}

Status Manifest::forget_removed() {
    if (!failed_ && forget()) return Status::ok();
    if (!has_room()) reserve_.give_up();
    RONDO_TRY(open_again());
    return forget();
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
    failed_ = !status.ok();
    return to_status(status);
}

}  // namespace rondo
