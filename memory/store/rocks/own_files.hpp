#pragma once

#include <rocksdb/env.h>

#include <memory>
#include <string>

namespace rondo {

/// RocksDB's way to its files. Everything that it makes is this user's alone, and a table that it opens is proved
/// first: RocksDB reads a table's properties before it proves them, and Debian's build asserts on some damage of them.
class OwnFiles : public rocksdb::EnvWrapper {
public:
    OwnFiles() : rocksdb::EnvWrapper(rocksdb::Env::Default()) {}

    rocksdb::Status NewRandomAccessFile(const std::string& name, std::unique_ptr<rocksdb::RandomAccessFile>* file,
                                        const rocksdb::EnvOptions& options) override;
    rocksdb::Status NewWritableFile(const std::string& name, std::unique_ptr<rocksdb::WritableFile>* file,
                                    const rocksdb::EnvOptions& options) override;
    rocksdb::Status ReopenWritableFile(const std::string& name, std::unique_ptr<rocksdb::WritableFile>* file,
                                       const rocksdb::EnvOptions& options) override;
    rocksdb::Status ReuseWritableFile(const std::string& name, const std::string& old,
                                      std::unique_ptr<rocksdb::WritableFile>* file,
                                      const rocksdb::EnvOptions& options) override;
};

}  // namespace rondo
