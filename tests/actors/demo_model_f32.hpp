#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "model/model_files.hpp"

namespace rondo::testing {

/// The demo model's weights in f32, in this folder: keys that are computed in other pieces differ too little to part
/// answers.
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
    const std::string wide = header.dump();
    header_bytes = wide.size();
    std::string to(reinterpret_cast<const char*>(&header_bytes), sizeof(header_bytes));
    to += wide;
    for (size_t i = data_begin; i < from.size(); i += 2) to += std::string(2, '\0') + from.substr(i, 2);  // bf16 → f32
    std::ofstream(folder / "model.safetensors", std::ios::binary) << to;
}

}  // namespace rondo::testing
