#include "memory/store/rocks/own_files.hpp"

#include <rocksdb/env.h>
#include <sys/stat.h>

#include <string>

#include "memory/store/rocks/table_file.hpp"

namespace rondo {

namespace {

rocksdb::Status closed_to_others(const std::string& name, rocksdb::Status made) {
    if (made.ok() && chmod(name.c_str(), S_IRUSR | S_IWUSR) != 0)
        return rocksdb::Status::IOError("cannot be closed to others", name);
    return made;
}

Status prove_table(const std::string& name) {
    RONDO_ASSIGN(const TableFile table, TableFile::open(name));
    return table.prove();
}

class OwnFiles : public rocksdb::EnvWrapper {
public:
    OwnFiles() : rocksdb::EnvWrapper(rocksdb::Env::Default()) {}

    /// A kind of table that cannot be proved here is RocksDB's own business, and so is one that cannot be read.
    rocksdb::Status NewRandomAccessFile(const std::string& name, std::unique_ptr<rocksdb::RandomAccessFile>* file,
                                        const rocksdb::EnvOptions& options) override {
        if (name.ends_with(".sst"))
            if (const Status proved = prove_table(name); !proved && proved.error().code == ErrorCode::corrupt)
                return rocksdb::Status::Corruption(proved.error().message);
        return rocksdb::EnvWrapper::NewRandomAccessFile(name, file, options);
    }
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
};

}  // namespace

std::unique_ptr<rocksdb::Env> make_own_files() {
    return std::make_unique<OwnFiles>();
}

}  // namespace rondo
