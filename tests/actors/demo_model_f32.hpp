#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "config/checked.hpp"
#include "model/model.hpp"
#include "tests/folder.hpp"

namespace rondo::testing {

/// The demo model's weights in f32, in this folder.
inline void write_demo_model_in_f32(const std::filesystem::path& folder) {
    for (const auto& file : std::filesystem::directory_iterator(demo_model_path()))
        if (file.path().extension() == ".json")
            std::filesystem::copy_file(file.path(), folder / file.path().filename());

    std::ifstream in(demo_model_path() / std::filesystem::path("model.safetensors"), std::ios::binary);
    const std::string from(std::istreambuf_iterator<char>(in), {});
    uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, from.data(), sizeof(header_bytes));
    const size_t data_begin = sizeof(header_bytes) + header_bytes;
    auto header = nlohmann::json::parse(from.substr(sizeof(header_bytes), header_bytes));
    for (auto& [name, tensor] : header.items()) {
        if (name == "__metadata__") continue;
        tensor["dtype"] = "F32";
        for (auto& offset : tensor["data_offsets"]) offset = 2 * offset.get<uint64_t>();
    }
    std::string wide = header.dump();
    wide.resize(round_up<size_t>(wide.size(), sizeof(header_bytes)), ' ');  // where floats may begin
    header_bytes = wide.size();
    std::string to(reinterpret_cast<const char*>(&header_bytes), sizeof(header_bytes));
    to += wide;
    size_t at = to.size();
    to.resize(at + 2 * (from.size() - data_begin));
    for (size_t i = data_begin; i < from.size(); i += 2, at += 4) from.copy(&to[at + 2], 2, i);  // bf16 → f32
    std::ofstream(folder / "model.safetensors", std::ios::binary) << to;
}

/// The folder of such a model, which this process writes once. Histories may be computed in other pieces: one chunk or
/// another, or an answer's steps. With bf16 that parts answers at near ties, and which ties are near is another matter
/// on each kind of processor. In f32, of keys and values too, such a tie comes once in some 10⁵ tokens.
inline const std::string& demo_model_in_f32() {
    static const Folder folder;
    [[maybe_unused]] static const bool is_written = (write_demo_model_in_f32(folder.path()), true);
    return folder.path();
}

}  // namespace rondo::testing
