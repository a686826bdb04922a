#include "memory/store/manifest_rescue.hpp"

#include <rocksdb/env.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "memory/store/rocks/description.hpp"
#include "memory/store/rocks/log_file.hpp"
#include "memory/store/rocks/rocks_status.hpp"
#include "memory/store/rocks/table_file.hpp"

namespace rondo {

namespace {

constexpr std::string_view description_begin = "MANIFEST-";
constexpr size_t sequence_bytes = 8;  // at the begin of a change

/// Of a file "NUMBER.log", "MANIFEST-NUMBER" or the like; 0: it has none.
uint64_t number_in(const std::string& name) {
    constexpr size_t digits_max = 15;
    const size_t begin = name.find_first_of("0123456789");
    if (begin == std::string::npos) return 0;
    const size_t end = std::min(name.find_first_not_of("0123456789", begin), name.size());
    return end - begin > digits_max ? 0 : std::stoull(name.substr(begin, end - begin));
}

bool is_table(const std::string& name) {
    return name.ends_with(".sst");
}

bool is_log(const std::string& name) {
    return name.ends_with(".log");
}

/// The file that `CURRENT` names as the database's description; empty where it names none.
std::string name_of_description(const std::string& folder, rocksdb::Env& env) {
    std::string name;
    static_cast<void>(rocksdb::ReadFileToString(&env, folder + "/CURRENT", &name));
    if (!name.empty()) name.pop_back();  // the end of the line
    return name.starts_with(description_begin) ? name : std::string();
}

/// Of each key what the latest change says.
class Latest {
public:
    void take(const RocksEntry& entry) {
        last_ = std::max(last_, entry.sequence);
        const auto [at, is_new] = all_.try_emplace(std::string(entry.key));
        if (!is_new && at->second.sequence >= entry.sequence) return;
        at->second = {entry.sequence, entry.removed, std::string(entry.value)};
    }
    /// Changes of keys were lost, up to a change: what an earlier one says of them may no longer be true.
    struct Lost {
        KeysBetween between;
        std::string first = {};  ///< of the keys
        uint64_t last_sequence = UINT64_MAX;
    };
    void lose(Lost lost) { lost_.push_back(std::move(lost)); }

    /// A log of changes, numbered behind all that were seen: if the process is killed before this is the database, the
    /// log repeats what the old one says.
    std::string as_log(int64_t& entries) const {
        std::string log;
        for (const auto& [key, kept] : all_) {
            if (kept.removed || may_be_old(key, kept.sequence)) continue;
            rocksdb::WriteBatch change;
            change.Put(key, kept.value);
            std::string bytes = change.Data();
            const uint64_t sequence = last_ + static_cast<uint64_t>(++entries);
            std::memcpy(bytes.data(), &sequence, sequence_bytes);
            append_log_record(log, bytes);
        }
        return log;
    }

private:
    struct Kept {
        uint64_t sequence = 0;
        bool removed = false;
        std::string value;
    };
    bool may_be_old(const std::string& key, uint64_t sequence) const {
        return std::ranges::any_of(lost_, [&](const Lost& lost) {
            return sequence <= lost.last_sequence && key >= lost.first &&
                   (!lost.between.after || key > *lost.between.after) &&
                   (!lost.between.before || key < *lost.between.before);
        });
    }

    std::map<std::string, Kept> all_;
    std::vector<Lost> lost_;
    uint64_t last_ = 0;
};

/// A change's puts and removals; it is refused where it has anything else.
class Replay : public rocksdb::WriteBatch::Handler {
public:
    Replay(Latest& latest, uint64_t sequence) : latest_(latest), sequence_(sequence) {}
    rocksdb::Status PutCF(uint32_t, const rocksdb::Slice& key, const rocksdb::Slice& value) override {
        latest_.take({key.ToStringView(), sequence_++, false, value.ToStringView()});
        return rocksdb::Status::OK();
    }
    rocksdb::Status DeleteCF(uint32_t, const rocksdb::Slice& key) override {
        latest_.take({key.ToStringView(), sequence_++, true, {}});
        return rocksdb::Status::OK();
    }

private:
    Latest& latest_;
    uint64_t sequence_;
};

class Rescue {
public:
    Rescue(const std::string& folder, rocksdb::Env& env) : folder_(folder), env_(env) {}

    Status read() {
        RONDO_TRY(status_of_rocksdb(env_.GetChildren(folder_, &names_)));
        const auto is_of_database = [](const std::string& name) {
            return name == "CURRENT" || is_table(name) || is_log(name) || name.starts_with(description_begin);
        };
        if (std::ranges::none_of(names_, is_of_database))
            return make_error(ErrorCode::not_found, folder_ + ": there is no store's manifest");
        std::ranges::sort(names_, {}, number_in);
        const std::optional<RocksFiles> used = files_in_use();
        bool goes_on = true;  // changes are taken up to the first that is lost
        for (const std::string& name : names_) {
            const uint64_t number = number_in(name);
            if (is_table(name) && (!used || used->tables.contains(number)))
                RONDO_TRY(read_table(name, used ? &used->tables.at(number) : nullptr));
            if (goes_on && is_log(name) && (!used || number >= used->first_log)) RONDO_TRY(read_log(name, goes_on));
        }
        return Status::ok();
    }
    /// The new description becomes the database's by one renaming.
    Status write() {
        uint64_t last = 0;
        for (const std::string& name : names_) last = std::max(last, number_in(name));
        const std::string log = path_of(padded(last + 1) + ".log");
        const std::string description = std::string(description_begin) + padded(last + 2), beside = padded(last + 3);
        result_.entries = 0;
        Status end = put(log, latest_.as_log(result_.entries));
        if (end) end = put(path_of(description), write_description(last + 1, last + 4));
        if (end) end = put(path_of(beside + ".dbtmp"), description + '\n');
        if (end) end = sync_folder();
        if (end) end = status_of_rocksdb(env_.RenameFile(path_of(beside + ".dbtmp"), path_of("CURRENT")));
        if (end) return sync_folder();
        for (const std::string& file : {log, path_of(description), path_of(beside + ".dbtmp")})
            static_cast<void>(env_.DeleteFile(file));
        return end;
    }
    const ManifestRescue& result() const { return result_; }

private:
    static std::string padded(uint64_t number) {
        const std::string digits = std::to_string(number);
        return std::string(digits.size() < 6 ? 6 - digits.size() : 0, '0') + digits;
    }
    std::string path_of(const std::string& name) const { return folder_ + '/' + name; }
    Status put(const std::string& path, const std::string& bytes) {
        return status_of_rocksdb(rocksdb::WriteStringToFile(&env_, bytes, path, true));
    }
    Status sync_folder() {
        std::unique_ptr<rocksdb::Directory> folder;
        RONDO_TRY(status_of_rocksdb(env_.NewDirectory(folder_, &folder)));
        return status_of_rocksdb(folder->Fsync());
    }

    /// None: all files must be read, for nothing says for certain which of them are in use. Others may hold what was
    /// removed since.
    std::optional<RocksFiles> files_in_use() {
        std::string name = name_of_description(folder_, env_), bytes;
        if (std::ranges::find(names_, name) == names_.end()) {
            name.clear();
            for (const std::string& other : names_)
                if (other.starts_with(description_begin) && number_in(other) >= number_in(name)) name = other;
        }
        if (name.empty() || !rocksdb::ReadFileToString(&env_, path_of(name), &bytes).ok()) return std::nullopt;
        std::optional<RocksFiles> used = read_description(bytes);
        const bool all_there = used && std::ranges::all_of(used->tables, [this](const auto& table) {
                                   return std::ranges::find(names_, padded(table.first) + ".sst") != names_.end();
                               });
        return all_there ? used : std::nullopt;
    }
    /// `said` of it by the database's description; null: nobody knows.
    Status read_table(const std::string& name, const RocksFiles::Table* said) {
        RONDO_ASSIGN(const TableFile table, TableFile::open(path_of(name)));
        const auto lose = [&](KeysBetween between) {
            if (said == nullptr) return latest_.lose({std::move(between)});
            if (between.after && *between.after >= said->last) return;  // all has been read
            if (!between.before) between.before = said->last + '\0';
            latest_.lose({std::move(between), said->first, said->last_sequence});
        };
        RONDO_ASSIGN(const int64_t damaged,
                     table.each_entry([this](const RocksEntry& entry) { latest_.take(entry); }, lose));
        result_.damaged_blocks += damaged;
        return Status::ok();
    }
    Status read_log(const std::string& name, bool& whole) {
        std::string bytes;
        RONDO_TRY(status_of_rocksdb(rocksdb::ReadFileToString(&env_, path_of(name), &bytes)));
        const bool all = each_log_record(bytes, [&](std::string_view record) {
            uint64_t sequence = 0;
            if (record.size() >= sizeof(sequence)) std::memcpy(&sequence, record.data(), sizeof(sequence));
            Replay replay(latest_, sequence);
            if (whole) whole = rocksdb::WriteBatch(std::string(record)).Iterate(&replay).ok();
        });
        whole = whole && all;
        result_.damaged_logs += whole ? 0 : 1;
        return Status::ok();
    }

    const std::string& folder_;
    rocksdb::Env& env_;
    std::vector<std::string> names_;
    Latest latest_;
    ManifestRescue result_;
};

}  // namespace

bool has_lost_blocks(const std::string& folder, rocksdb::Env& env) {
    std::vector<std::string> names;
    static_cast<void>(env.GetChildren(folder, &names));
    return std::ranges::any_of(names, [&](const std::string& name) {
        if (!is_table(name)) return false;
        const auto table = TableFile::open(folder + '/' + name);
        if (!table) return false;
        const auto lost = table->each_entry([](const RocksEntry&) {}, [](const KeysBetween&) {});
        return lost ? *lost > 0 : lost.error().code == ErrorCode::corrupt;
    });
}

/// What is missing or cannot be read RocksDB finds itself.
Status prove_description(const std::string& folder, rocksdb::Env& env) {
    std::vector<std::string> names;
    static_cast<void>(env.GetChildren(folder, &names));
    if (std::ranges::any_of(names, is_table) && std::ranges::find(names, "CURRENT") == names.end())
        return make_error(ErrorCode::corrupt, folder + "/CURRENT: the file is missing");
    const std::string name = name_of_description(folder, env);
    std::string bytes;
    if (name.empty() || !rocksdb::ReadFileToString(&env, folder + '/' + name, &bytes).ok()) return Status::ok();
    if (each_log_record(bytes, [](std::string_view) {})) return Status::ok();
    return make_error(ErrorCode::corrupt, folder + '/' + name + ": the file is damaged");
}

Result<ManifestRescue> rescue_manifest(const std::string& folder, rocksdb::Env& env) {
    Rescue rescue(folder, env);
    RONDO_TRY(rescue.read());
    RONDO_TRY(rescue.write());
    return rescue.result();
}

}  // namespace rondo
