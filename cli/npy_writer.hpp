#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <utility>

#include "config/result.hpp"

namespace rondo::cli {

/// Writes a float32 matrix as numpy's .npy, row by row, so that it need not fit in memory.
class NpyWriter {
public:
    static Result<NpyWriter> create(const std::string& path, int64_t rows, int64_t columns);
    NpyWriter(NpyWriter&& other) noexcept
        : file_(std::exchange(other.file_, nullptr)), path_(std::move(other.path_)), failed_(other.failed_) {}
    NpyWriter& operator=(NpyWriter&&) = delete;
    ~NpyWriter();

    void write(std::span<const float> values);
    /// Says whether every byte reached the file.
    Status close();

private:
    NpyWriter(std::FILE* file, std::string path) : file_(file), path_(std::move(path)) {}
    std::FILE* file_;
    std::string path_;
    bool failed_ = false;
};

}  // namespace rondo::cli
