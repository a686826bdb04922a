#include "kernels/cpu/packed_quant.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <string>

#include "config/checked.hpp"
#include "kernels/cpu/cpu_features.hpp"
#include "kernels/cpu/quant_kernels.hpp"
#include "kernels/cpu/quant_layout.hpp"
#include "kernels/cpu/quant_ways.hpp"

namespace rondo::cpu {
namespace {

constexpr int64_t panel_groups = 4;

/// One chunk of 16 rows between the file's form and the packed one.
struct StagedChunk {
    uint8_t codes[quant_group_rows][quant_block_max];
    uint16_t d[quant_chunk_blocks][quant_group_rows];
    uint16_t m[quant_chunk_blocks][quant_group_rows];
    int8_t scales[quant_subblocks_max][quant_group_rows];
    int8_t mins[quant_chunk_blocks][quant_group_rows];
};

/// Blocks [0, blocks) of 32 inputs of one row, from the file's bytes.
void stage_row(DType type, const QuantLayout& layout, const std::byte* source, int64_t blocks, int64_t lane,
               StagedChunk& chunk) {
    QuantBlock block;
    if (!layout.super_blocks) {
        for (int64_t b = 0; b < blocks; ++b, source += traits(type).block_bytes) {
            take_apart(type, source, block);
            std::memcpy(chunk.codes[lane] + b * quant_block, block.codes.data(), quant_block);
            chunk.d[b][lane] = block.d;
            chunk.m[b][lane] = block.m;
        }
        return;
    }
    take_apart(type, source, block);
    std::memcpy(chunk.codes[lane], block.codes.data(), quant_block_max);
    chunk.d[0][lane] = block.d;
    chunk.m[0][lane] = block.m ^ 0x8000;  // the super-blocks' minima are subtracted
    for (int64_t j = 0; j < blocks * layout.subblocks; ++j) {
        const int minimum = layout.scale_nibbles ? block.mins[j] << 4 : 0;
        chunk.scales[j][lane] = static_cast<int8_t>(block.scales[j] | minimum);
    }
    if (!layout.minima || layout.scale_nibbles) return;
    for (int64_t j = 0; j < blocks; ++j) chunk.mins[j][lane] = static_cast<int8_t>(block.mins[j]);
}

/// Planes of `width` bits of every code, from bit `first` on: one plane holds a bit of each quad, two hold two bits of
/// four quads each.
void pack_planes(int first, int width, const uint8_t (&quads)[8][64], uint8_t* out) {
    const int quads_a_plane = 8 / width;
    for (int plane = 0; plane < width; ++plane, out += 64) {
        std::memset(out, 0, 64);
        for (int q = 0; q < quads_a_plane; ++q) {
            const uint8_t* quad = quads[plane * quads_a_plane + q];
            for (int j = 0; j < 64; ++j)
                out[j] |= static_cast<uint8_t>((quad[j] >> first & (width * 2 - 1)) << q * width);
        }
    }
}

/// The codes of one block of 16 rows, from [quad][16 rows][4 inputs] bytes to their packed form.
void pack_codes(int bits, const uint8_t (&quads)[8][64], uint8_t* out) {
    if (bits == 8) {
        std::memcpy(out, quads, sizeof(quads));
        return;
    }
    if (bits < 4) {
        pack_planes(0, 2, quads, out);
        if (bits == 3) pack_planes(2, 1, quads, out + 128);
        return;
    }
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 64; ++j) {
            out[i * 64 + j] = static_cast<uint8_t>((quads[i][j] & 0x0F) | quads[i + 4][j] << 4);
        }
    }
    if (bits > 4) pack_planes(4, bits - 4, quads, out + 256);
}

void write_chunk(const QuantLayout& layout, const StagedChunk& chunk, int64_t blocks, std::byte* out) {
    std::memset(out + layout.d_offset(blocks), 0,
                static_cast<size_t>(layout.chunk_bytes(blocks) - layout.d_offset(blocks)));
    for (int64_t b = 0; b < blocks; ++b) {
        uint8_t quads[8][64];
        for (int q = 0; q < 8; ++q) {
            for (int lane = 0; lane < quant_group_rows; ++lane) {
                std::memcpy(quads[q] + 4 * lane, chunk.codes[lane] + b * quant_block + 4 * q, 4);
            }
        }
        pack_codes(layout.code_bits, quads, reinterpret_cast<uint8_t*>(out + b * layout.code_bytes()));
    }
    const auto d_bytes = static_cast<size_t>(layout.super_blocks ? 32 : 32 * blocks);
    std::memcpy(out + layout.d_offset(blocks), chunk.d, d_bytes);
    if (layout.minima) std::memcpy(out + layout.m_offset(blocks), chunk.m, d_bytes);
    if (!layout.super_blocks) return;
    std::memcpy(out + layout.scales_offset(blocks), chunk.scales, static_cast<size_t>(blocks * layout.subblocks * 16));
    if (!layout.minima || layout.scale_nibbles) return;
    std::memcpy(out + layout.mins_offset(blocks), chunk.mins, static_cast<size_t>(blocks * 16));
}

/// The bits that byte `at` of a quad has in planes of `width` bits.
int read_planes(int width, const uint8_t* planes, int quad, int64_t at) {
    return width == 1 ? planes[at] >> quad & 1 : planes[quad / 4 * 64 + at] >> 2 * (quad % 4) & 3;
}

/// The codes of one row of a chunk's block, from their packed form.
void read_codes(int bits, const uint8_t* packed, int64_t lane, uint8_t* codes) {
    for (int i = 0; i < 32; ++i) {
        const int quad = i / 4;
        const int64_t at = 4 * lane + i % 4;
        if (bits == 8) {
            codes[i] = packed[quad * 64 + at];
        } else if (bits < 4) {
            const int third = bits == 3 ? read_planes(1, packed + 128, quad, at) : 0;
            codes[i] = static_cast<uint8_t>(read_planes(2, packed, quad, at) | third << 2);
        } else {
            const int nibble = packed[quad % 4 * 64 + at] >> (quad < 4 ? 0 : 4) & 0x0F;
            const int high = bits > 4 ? read_planes(bits - 4, packed + 256, quad, at) : 0;
            codes[i] = static_cast<uint8_t>(nibble | high << 4);
        }
    }
}

float read_f16(const std::byte* at) {
    uint16_t bits;
    std::memcpy(&bits, at, sizeof(bits));
    return f16_to_f32(bits);
}

float read_i8(const std::byte* at) {
    return static_cast<float>(static_cast<int8_t>(*at));
}

/// Row `lane` of a chunk as floats.
void read_chunk_row(const QuantLayout& layout, const std::byte* chunk, int64_t blocks, int64_t lane, float* out) {
    for (int64_t b = 0; b < blocks; ++b) {
        uint8_t codes[quant_block];
        read_codes(layout.code_bits, reinterpret_cast<const uint8_t*>(chunk + b * layout.code_bytes()), lane, codes);
        const int64_t d_at = 32 * (layout.super_blocks ? 0 : b) + 2 * lane;
        const float d = read_f16(chunk + layout.d_offset(blocks) + d_at);
        const float m = layout.minima ? read_f16(chunk + layout.m_offset(blocks) + d_at) : 0.0F;
        for (int64_t i = 0; i < quant_block; ++i) {
            const int64_t subblock = b * layout.subblocks + i * layout.subblocks / quant_block;
            const std::byte* scale_at = chunk + layout.scales_offset(blocks) + 16 * subblock + lane;
            const std::byte* min_at = chunk + layout.mins_offset(blocks) + 16 * b + lane;
            float scale = d, minimum = m;
            if (layout.scale_nibbles) {
                scale *= static_cast<float>(*scale_at & std::byte{0x0F});
                minimum *= static_cast<float>(*scale_at >> 4);
            } else if (layout.super_blocks) {
                scale *= read_i8(scale_at);
                if (layout.minima) minimum *= read_i8(min_at);
            }
            const int u = layout.codebook ? quant_codebook[codes[i]] : codes[i];
            const float product = scale * static_cast<float>(u - layout.offset);
            out[b * quant_block + i] = layout.minima ? product + minimum : product;
        }
    }
}

std::string shape_text(DType type, int64_t rows, int64_t columns) {
    return std::string(traits(type).name) + " weight [" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
}

}  // namespace

Result<QuantPanels> QuantPanels::pack_shape(DType type, int64_t rows, int64_t columns) {
    if (!is_quantized(type)) {
        return make_error(ErrorCode::unsupported, shape_text(type, rows, columns) + ": not a quantized type");
    }
    const int block = traits(type).block_elements;
    if (rows <= 0 || columns <= 0 || columns % block != 0) {
        return make_error(ErrorCode::invalid_argument, shape_text(type, rows, columns) +
                                                           ": rows and columns must be "
                                                           "positive and columns a multiple of " +
                                                           std::to_string(block));
    }
    constexpr int64_t bytes_max = int64_t{1} << 46;
    constexpr int64_t code_bytes_max = 2;  // a weight takes at most 34/32 bytes
    const auto elements = checked_mul(round_up(std::min(rows, bytes_max), quant_group_rows), columns);
    if (!elements || rows > bytes_max || *elements > bytes_max / code_bytes_max) {
        return make_error(ErrorCode::out_of_range,
                          shape_text(type, rows, columns) + ": larger than any machine's memory");
    }
    QuantPanels panels;
    panels.type_ = type;
    panels.rows_ = rows;
    panels.columns_ = columns;
    panels.groups_ = ceil_div(rows, quant_group_rows);
    panels.group_bytes_ = quant_layout(type).group_bytes(columns);
    panels.bytes_ = static_cast<size_t>(panels.groups_ * panels.group_bytes_);
    return panels;
}

void QuantPanels::pack_rows(std::byte* storage, const std::byte* source_row0, std::span<const int32_t> row_order,
                            int64_t group_begin, int64_t group_end) const {
    assert(group_begin >= 0 && group_end <= groups_);
    assert(row_order.empty() || static_cast<int64_t>(row_order.size()) == rows_);
    const QuantLayout layout = quant_layout(type_);
    const size_t row_bytes = bytes_of(type_, columns_);
    for (int64_t group = group_begin; group < group_end; ++group) {
        std::byte* out = storage + group * group_bytes_;
        for (int64_t column = 0; column < columns_; column += quant_block_max) {
            const int64_t blocks = std::min(columns_ - column, int64_t{quant_block_max}) / quant_block;
            StagedChunk chunk{};
            for (int64_t lane = 0; lane < std::min(quant_group_rows, rows_ - group * quant_group_rows); ++lane) {
                const int64_t row = group * quant_group_rows + lane;
                const int64_t source_row = row_order.empty() ? row : row_order[static_cast<size_t>(row)];
                const std::byte* source = source_row0 + static_cast<size_t>(source_row) * row_bytes;
                stage_row(type_, layout, source + bytes_of(type_, column), blocks, lane, chunk);
            }
            write_chunk(layout, chunk, blocks, out);
            out += layout.chunk_bytes(blocks);
        }
    }
}

void QuantPanels::multiply(const std::byte* storage, const QuantActivations& x, int64_t group_begin, int64_t group_end,
                           float* y, int64_t y_stride, const float* bias, bool accumulate, std::byte* wide) const {
    assert(x.columns == columns_ && group_begin >= 0 && group_end <= groups_);
    QuantWay way = QuantWay::widened;
    if (x.side_by_side == 1) {
        way = group_end - group_begin < 2 ? QuantWay::alone : quant_way(type_, x.rows);
        if (way == QuantWay::widened) way = QuantWay::in_pairs;
    }
    const QuantProduct product{type_, rows_,    columns_, storage,    group_begin, group_end,
                               y,     y_stride, bias,     accumulate, way,         wide};
    if (cpu_features().avx512_vnni) {
        multiply_vnni(product, x);
    } else {
        multiply_portable(product, x);
    }
}

int64_t QuantPanels::tile_count(int64_t input) const {
    return panel_groups * std::min(columns_ - input, int64_t{quant_block_max}) / quant_block;
}

void QuantPanels::unpack_tile(const std::byte* storage, int64_t panel, int64_t input, int64_t tile,
                              uint16_t* tiles) const {
    constexpr int64_t numbers = quant_block * quant_group_rows;
    const int64_t blocks = tile_count(input) / panel_groups, part = tile / blocks, b = tile % blocks;
    const int64_t group = panel * panel_groups + part;
    uint16_t* const to = tiles + ((part / 2 * blocks + b) * 2 + part % 2) * numbers;
    if (group >= groups_) {
        std::fill_n(to, numbers, uint16_t{0});
        return;
    }
    const int64_t before = input / quant_block_max * quant_layout(type_).chunk_bytes(quant_chunk_blocks);
    cpu::unpack_tile(type_, storage + group * group_bytes_ + before, blocks, b, to);
}

void QuantPanels::unpack_row(const std::byte* storage, int64_t row, float* out) const {
    assert(row >= 0 && row < rows_);
    const QuantLayout layout = quant_layout(type_);
    const std::byte* chunk = storage + row / quant_group_rows * group_bytes_;
    for (int64_t column = 0; column < columns_; column += quant_block_max) {
        const int64_t blocks = std::min(columns_ - column, int64_t{quant_block_max}) / quant_block;
        read_chunk_row(layout, chunk, blocks, row % quant_group_rows, out + column);
        chunk += layout.chunk_bytes(blocks);
    }
}

}  // namespace rondo::cpu
