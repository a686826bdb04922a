#include "memory/store/rocks/log_file.hpp"

#include <algorithm>

#include "memory/store/rocks/block_checksum.hpp"
#include "memory/store/rocks/byte_cursor.hpp"

namespace rondo {

namespace {

constexpr size_t block_bytes = 32768, header_bytes = 4 + 2 + 1;
enum Piece : uint8_t { nothing = 0, whole = 1, first = 2, middle = 3, last = 4 };

template <class T>
void append_fixed(std::string& file, T value) {
    file.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

uint32_t checksum_of_piece(char kind, std::string_view bytes) {
    return masked_crc32c(crc32c(bytes, crc32c({&kind, 1})));
}

/// Then not the piece's end is missing, but its length is damaged.
bool begins_with_piece(char kind, std::string_view bytes, uint32_t sum) {
    uint32_t crc = crc32c({&kind, 1});
    for (size_t end = 0; end < bytes.size(); ++end) {
        if (masked_crc32c(crc) == sum) return true;
        crc = crc32c(bytes.substr(end, 1), crc);
    }
    return masked_crc32c(crc) == sum;
}

}  // namespace

bool each_log_record(std::string_view file, const std::function<void(std::string_view record)>& each) {
    bool begun = false;
    std::string record;
    for (size_t begin = 0; begin < file.size(); begin += block_bytes) {
        const bool at_end = file.size() - begin <= block_bytes;
        ByteCursor in(file.substr(begin, block_bytes));
        while (in.left() >= header_bytes) {
            const auto sum = in.fixed<uint32_t>();
            const auto bytes = in.fixed<uint16_t>();
            const char kind = in.take(1)[0];
            if (kind == Piece::nothing && bytes == 0) break;  // space that was asked for ahead
            const std::string_view rest = in.rest();
            const std::string_view piece = in.take(bytes);
            if (!in.is_whole()) return at_end && !begins_with_piece(kind, rest, sum);
            const bool begins = kind == Piece::whole || kind == Piece::first;
            if (kind > Piece::last || sum != checksum_of_piece(kind, piece) || begins == begun) return false;
            if (begins) record.clear();
            record += piece;
            begun = kind == Piece::first || kind == Piece::middle;
            if (!begun) each(record);
        }
    }
    return true;
}

void append_log_record(std::string& file, std::string_view record) {
    bool begins = true;
    do {
        const size_t left = block_bytes - file.size() % block_bytes;
        if (left < header_bytes) {
            file.append(left, '\0');
            continue;
        }
        const std::string_view piece = record.substr(0, left - header_bytes);
        record.remove_prefix(piece.size());
        const bool ends = record.empty();
        const Piece kind = begins ? (ends ? Piece::whole : Piece::first) : (ends ? Piece::last : Piece::middle);
        append_fixed(file, checksum_of_piece(static_cast<char>(kind), piece));
        append_fixed(file, static_cast<uint16_t>(piece.size()));
        file.push_back(static_cast<char>(kind));
        file += piece;
        begins = false;
        if (ends) return;
    } while (true);
}

}  // namespace rondo
