#pragma once

#include <memory>

namespace rocksdb {
class Env;
}  // namespace rocksdb

namespace rondo {

/// RocksDB's way to its files. Everything that it makes is this user's alone, and a table that it opens is proved
/// first: RocksDB reads a table's properties before it proves them, and Debian's build asserts on some damage of them.
std::unique_ptr<rocksdb::Env> make_own_files();

}  // namespace rondo
