#include "memory/store/folder_key.hpp"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "memory/store/byte_io.hpp"
#include "memory/store/disk_queue.hpp"
#include "memory/store/random_bytes.hpp"
#include "memory/store/record_header.hpp"

namespace rondo {

namespace {

// The file: magic, version, the number of the seal, its proof, the sealed key, a checksum of all before it. The
// checksum tells damage from a key that does not fit.
constexpr uint64_t magic = 0x0a79'654b'6f64'6e52;  // "RndoKey" and the end of a line
constexpr uint32_t version = 1;
constexpr size_t beside_bytes = sizeof(magic) + sizeof(version), number_bytes = 12;
constexpr size_t proof_at = beside_bytes + number_bytes, sealed_at = proof_at + sizeof(SealKey::Proof);
constexpr size_t summed_bytes = sealed_at + sizeof(SealKey::Bytes), file_bytes = summed_bytes + sizeof(uint64_t);
using Sealed = std::array<std::byte, file_bytes>;

/// Of a key of the operator's file, which may open other folders too.
Result<SealKey> sealing_key(const StoreKeys& key) {
    return key.key("key of a store's folder", {}, "");
}

std::string shown(const StoreFolder& folder) {
    return folder.path() + "/" + FolderKey::file_name;
}

/// The key itself, for no longer than it is needed.
struct Opened {
    ~Opened() { OPENSSL_cleanse(bytes.data(), bytes.size()); }
    SealKey::Bytes bytes{};
    size_t line = 0;  // of the operator's file, that opened it
};

Result<Sealed> read_sealed(const StoreFolder& folder) {
    RONDO_ASSIGN(const int file, folder.open_file(FolderKey::file_name, O_RDONLY));
    std::array<std::byte, file_bytes + 1> bytes{};
    const ssize_t count = ::read(file, bytes.data(), bytes.size());
    const int number = errno;
    close(file);
    if (count < 0) return disk_error(number, (shown(folder) + ": cannot read").c_str());
    RecordReader in(bytes);
    const auto found_magic = in.take<uint64_t>();
    const auto found_version = in.take<uint32_t>();
    RecordReader sum(std::span<const std::byte>(bytes).subspan(summed_bytes));
    if (count != std::ssize(bytes) - 1 || sum.take<uint64_t>() != checksum_of(std::span(bytes).first(summed_bytes)))
        return make_error(ErrorCode::corrupt, shown(folder) +
                                                  ": damaged; it must be put back from a copy, and without "
                                                  "it what was sealed in this folder cannot be read");
    if (found_magic != magic || found_version != version)
        return make_error(ErrorCode::unsupported, shown(folder) + ": must be of version " + std::to_string(version));
    Sealed sealed{};
    std::copy_n(bytes.begin(), sealed.size(), sealed.begin());
    return sealed;
}

/// corrupt where it was sealed by another key.
Status open_with(const StoreKeys& key, const Sealed& sealed, Opened& into) {
    const std::span<const std::byte> bytes(sealed);
    RecordReader in(bytes.subspan(beside_bytes));
    SealKey::Number number;
    number.high = in.take<uint64_t>();
    number.low = in.take<uint32_t>();
    SealKey::Proof proof{};
    std::ranges::copy(in.take(proof.size()), proof.begin());
    std::ranges::copy(in.take(into.bytes.size()), into.bytes.begin());
    RONDO_ASSIGN(const SealKey sealing, sealing_key(key));
    return sealing.open(number, bytes.first(beside_bytes), {into.bytes}, proof);
}

Status open_sealed(const StoreFolder& folder, const KeyFile& file, Opened& into) {
    RONDO_ASSIGN(const Sealed sealed, read_sealed(folder));
    for (into.line = 1; into.line <= file.keys().size(); ++into.line) {
        const Status opened = open_with(file.keys()[into.line - 1], sealed, into);
        if (opened || opened.error().code != ErrorCode::corrupt) return opened;
    }
    return make_error(ErrorCode::invalid_argument,
                      shown(folder) +
                          ": sealed by another key than those of memory.disk.key_file; the key that this "
                          "folder was written with must stand there, in any line");
}

Status seal(const StoreFolder& folder, const StoreKeys& by, SealKey::Bytes key) {
    SealKey::Number number;
    if (!fill_random(std::as_writable_bytes(std::span(&number.high, 1))) ||
        !fill_random(std::as_writable_bytes(std::span(&number.low, 1))))
        return make_error(ErrorCode::internal, "no random numbers for the seal of a store's key");
    RecordWriter out;
    out.put(magic);
    out.put(version);
    RONDO_ASSIGN(const SealKey sealing, sealing_key(by));
    RONDO_ASSIGN(const SealKey::Proof proof, sealing.seal(number, out.bytes(), key));
    out.put(number.high);
    out.put(number.low);
    out.put(std::span<const std::byte>(proof));
    out.put(std::span<const std::byte>(key));
    out.put(checksum_of(out.bytes()));
    return folder.replace(FolderKey::file_name, out.bytes());
}

/// A disk that is full, or fails, must not take a key from its store: the old line opens it as before.
std::string seal_anew(const StoreFolder& folder, const KeyFile& file, const Opened& key) {
    const std::string old = "line " + std::to_string(key.line);
    const Status sealed = seal(folder, file.keys().front(), key.bytes);
    if (sealed)
        return shown(folder) + ": the key is sealed anew, by the first line of memory.disk.key_file; " + old +
               " is not needed here any more";
    return shown(folder) + ": the key is not sealed anew, so " + old +
           " of memory.disk.key_file must stay: " + sealed.error().message;
}

}  // namespace

Result<FolderKey> FolderKey::open(const StoreFolder& folder, const KeyFile& file) {
    RONDO_ASSIGN(const bool is_there, folder.has(file_name));
    Opened key;
    if (!is_there) {
        if (!fill_random(key.bytes)) return make_error(ErrorCode::internal, "no random numbers for a store's key");
        RONDO_TRY(seal(folder, file.keys().front(), key.bytes));
        return FolderKey{StoreKeys(key.bytes), true, {}};
    }
    RONDO_TRY(open_sealed(folder, file, key));
    if (key.line > 1) return FolderKey{StoreKeys(key.bytes), false, seal_anew(folder, file, key)};
    // A crash may have left the key sealed by a line that was taken back since. It goes now, or at the next start.
    static_cast<void>(folder.remove(std::string(file_name) + ".new"));
    return FolderKey{StoreKeys(key.bytes), false, {}};
}

Result<StoreKeys> FolderKey::read(const StoreFolder& folder, const KeyFile& file) {
    Opened key;
    RONDO_TRY(open_sealed(folder, file, key));
    return StoreKeys(key.bytes);
}

}  // namespace rondo
