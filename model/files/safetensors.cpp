#include "model/files/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "config/checked.hpp"
#include "config/in_quotes.hpp"
#include "config/limits.hpp"
#include "model/files/mapped_file.hpp"
#include "model/files/mapped_weights.hpp"
#include "model/files/refused_files.hpp"
#include "model/files/safetensors_header.hpp"
#include "model/files/strict_json.hpp"

namespace rondo {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

struct FileType {
    std::string_view name;
    uint64_t bytes;  // of an element
    bool usable;
    DType dtype;
};

constexpr FileType file_types[] = {
    {"F32", 4, true, DType::f32},      {"F16", 2, true, DType::f16},      {"BF16", 2, true, DType::bf16},
    {"F64", 8, false, DType::f32},     {"I64", 8, false, DType::f32},     {"U64", 8, false, DType::f32},
    {"I32", 4, false, DType::f32},     {"U32", 4, false, DType::f32},     {"I16", 2, false, DType::f32},
    {"U16", 2, false, DType::f32},     {"I8", 1, false, DType::f32},      {"U8", 1, false, DType::f32},
    {"F8_E4M3", 1, false, DType::f32}, {"F8_E5M2", 1, false, DType::f32}, {"BOOL", 1, false, DType::f32},
};

Error lie(const std::string& where, const std::string& tensor, const std::string& what) {
    return make_error(ErrorCode::corrupt, where + ": tensor " + in_quotes(tensor) + ": " + what);
}

/// Checks one entry against the size of the data part and makes a tensor of it.
Result<FileTensor> tensor_from(SafetensorsEntry& entry, std::span<const std::byte> data, const std::string& where) {
    if (entry.begin > entry.end || entry.end > data.size()) {
        return lie(where, entry.name,
                   "data_offsets [" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) +
                       "] do not lie in the file's " + std::to_string(data.size()) + " bytes of data");
    }
    FileTensor tensor;
    tensor.bytes = entry.end - entry.begin;
    tensor.data = data.data() + entry.begin;
    const auto* type = std::find_if(std::begin(file_types), std::end(file_types),
                                    [&](const FileType& known) { return known.name == entry.dtype; });
    tensor.usable = type != std::end(file_types) && type->usable;
    if (type != std::end(file_types)) {
        tensor.dtype = type->dtype;
        std::optional<uint64_t> bytes = type->bytes;
        for (const int64_t dimension : entry.shape) {
            bytes = bytes ? checked_mul(*bytes, static_cast<uint64_t>(dimension)) : bytes;
        }
        if (!bytes || *bytes != tensor.bytes) {
            return lie(where, entry.name,
                       "its shape needs " + (bytes ? std::to_string(*bytes) : std::string("2^64 or more")) +
                           " bytes, its data_offsets hold " + std::to_string(tensor.bytes));
        }
    }
    tensor.name = std::move(entry.name);
    tensor.file_type = std::move(entry.dtype);
    tensor.shape = std::move(entry.shape);
    return tensor;
}

/// The tensors' bytes must follow each other without overlap or hole, from the header to the end of the file.
Status check_layout(const std::vector<FileTensor>& tensors, std::span<const std::byte> data, const std::string& where) {
    std::vector<const FileTensor*> order;
    order.reserve(tensors.size());
    for (const FileTensor& tensor : tensors) order.push_back(&tensor);
    std::sort(order.begin(), order.end(), [](const FileTensor* a, const FileTensor* b) {
        return std::pair(a->data, a->bytes) < std::pair(b->data, b->bytes);
    });
    const std::byte* end = data.data();
    for (const FileTensor* tensor : order) {
        if (tensor->data < end) return lie(where, tensor->name, "its bytes overlap the tensor before it");
        if (tensor->data > end) return lie(where, tensor->name, "a hole in the file before it");
        end = tensor->data + tensor->bytes;
    }
    const auto rest = static_cast<size_t>(data.data() + data.size() - end);
    if (rest == 0) return {};
    return make_error(ErrorCode::corrupt, where + ": " + std::to_string(rest) + " bytes after the last tensor");
}

/// A tied model has one table under two names. Programs that write it once may keep either; the embedding's is given.
void name_tied_table(std::vector<FileTensor>& tensors) {
    constexpr std::string_view embedding = "model.embed_tokens.weight", head = "lm_head.weight";
    if (std::ranges::count(tensors, embedding, &FileTensor::name) > 0) return;
    const auto table = std::ranges::find(tensors, head, &FileTensor::name);
    if (table != tensors.end()) table->name = embedding;
}

Result<std::unique_ptr<WeightsFile>> open_single(MappedFile file, const std::string& where, bool tied) {
    RONDO_TRY(check_downloaded(file.bytes(), where));
    RONDO_ASSIGN(auto tensors, parse_safetensors(file.bytes(), where));
    std::vector<MappedFile> files;
    files.push_back(std::move(file));
    if (tied) name_tied_table(tensors);
    return make_mapped_weights(std::move(files), std::move(tensors), where);
}

/// The tensors that the index places in this shard.
Status take_shard(const MappedFile& file, const std::vector<std::string>& names, const std::string& where,
                  std::vector<FileTensor>& out) {
    RONDO_TRY(check_downloaded(file.bytes(), where));
    RONDO_ASSIGN(auto tensors, parse_safetensors(file.bytes(), where));
    std::unordered_map<std::string_view, FileTensor*> by_name;
    for (FileTensor& tensor : tensors) by_name.emplace(tensor.name, &tensor);
    std::vector<FileTensor*> found;
    for (const std::string& name : names) {
        const auto tensor = by_name.find(name);
        if (tensor == by_name.end()) {
            return make_error(ErrorCode::corrupt,
                              where + ": no tensor " + in_quotes(name) + ", which the index places here");
        }
        found.push_back(tensor->second);
    }
    for (FileTensor* tensor : found) out.push_back(std::move(*tensor));
    return {};
}

bool is_plain_name(const std::string& name) {
    constexpr std::string_view ending = ".safetensors";
    return name.size() <= 255 && name.ends_with(ending) && name.size() > ending.size() &&
           name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

}  // namespace

Result<std::vector<FileTensor>> parse_safetensors(std::span<const std::byte> bytes, const std::string& where) {
    uint64_t header_bytes = 0;
    if (bytes.size() < sizeof(header_bytes)) {
        return make_error(ErrorCode::corrupt,
                          where + ": " + std::to_string(bytes.size()) +
                              " bytes; a safetensors file starts with the 8 bytes of its header's length");
    }
    std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
    bytes = bytes.subspan(sizeof(header_bytes));
    if (header_bytes > limits::header_bytes_max) {
        return make_error(ErrorCode::corrupt, where + ": header of " + std::to_string(header_bytes) +
                                                  " bytes, must be at most " +
                                                  std::to_string(limits::header_bytes_max));
    }
    if (header_bytes > bytes.size()) {
        return make_error(ErrorCode::corrupt, where + ": header of " + std::to_string(header_bytes) +
                                                  " bytes in a file that has " + std::to_string(bytes.size()) +
                                                  " left");
    }
    const std::string_view header(reinterpret_cast<const char*>(bytes.data()), header_bytes);
    if (!header.starts_with('{')) return make_error(ErrorCode::corrupt, where + ": the header does not start with '{'");
    RONDO_ASSIGN(auto entries, read_safetensors_header(header, where));

    const auto data = bytes.subspan(header_bytes);
    std::vector<FileTensor> tensors;
    tensors.reserve(entries.size());
    for (SafetensorsEntry& entry : entries) {
        RONDO_ASSIGN(tensors.emplace_back(), tensor_from(entry, data, where));
    }
    RONDO_TRY(check_layout(tensors, data, where));
    std::vector<std::string_view> names;
    for (const FileTensor& tensor : tensors) names.push_back(tensor.name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) return lie(where, std::string(*twice), "is there twice");
    return tensors;
}

Result<std::map<std::string, std::vector<std::string>>> parse_safetensors_index(std::string_view json,
                                                                                const std::string& where) {
    RONDO_ASSIGN(const auto index, parse_json_object(json, where));
    const auto weight_map = index.find("weight_map");
    if (weight_map == index.end() || !weight_map->is_object()) {
        return make_error(ErrorCode::corrupt, where + ": weight_map must be an object of tensor and file names");
    }
    if (weight_map->size() > static_cast<size_t>(limits::tensors_max)) {
        return make_error(ErrorCode::out_of_range, where + ": weight_map has " + std::to_string(weight_map->size()) +
                                                       " tensors, must be at most " +
                                                       std::to_string(limits::tensors_max));
    }
    std::map<std::string, std::vector<std::string>> shards;
    for (const auto& [tensor, file] : weight_map->items()) {
        if (!file.is_string() || !is_plain_name(file.get_ref<const std::string&>())) {
            return make_error(ErrorCode::corrupt, where + ": weight_map places " + in_quotes(tensor) +
                                                      " in something that is not a plain *.safetensors file name");
        }
        shards[file.get_ref<const std::string&>()].push_back(tensor);
        if (shards.size() > limits::shards_max) {
            return make_error(ErrorCode::out_of_range, where + ": more than " + std::to_string(limits::shards_max) +
                                                           " shards, must be at most " +
                                                           std::to_string(limits::shards_max));
        }
    }
    return shards;
}

Result<std::unique_ptr<WeightsFile>> open_safetensors(const std::filesystem::path& folder, const std::string& name,
                                                      bool tied) {
    const std::string single = name + "/model.safetensors";
    auto whole = MappedFile::open(folder / "model.safetensors", single);
    if (whole) return open_single(std::move(whole).value(), single, tied);
    if (whole.error().code != ErrorCode::not_found) return whole.error();

    const std::string index_name = name + "/model.safetensors.index.json";
    auto index = read_text_file(folder / "model.safetensors.index.json", index_name, limits::config_bytes_max);
    if (!index && index.error().code == ErrorCode::not_found) {
        if (const auto other = other_weights(folder, name)) return *other;
        return make_error(ErrorCode::not_found,
                          name + ": no weights; model.safetensors or model.safetensors.index.json is read");
    }
    if (!index) return index.error();
    RONDO_TRY(check_downloaded(std::as_bytes(std::span(*index)), index_name));
    RONDO_ASSIGN(const auto shards, parse_safetensors_index(*index, index_name));
    std::vector<MappedFile> files;
    std::vector<FileTensor> tensors;
    for (const auto& [shard, names] : shards) {
        const std::string where = name + "/" + shard;
        auto file = MappedFile::open(folder / shard, where);
        if (!file) {
            return make_error(file.error().code, file.error().message + "; model.safetensors.index.json lists it, so " +
                                                     "it must lie beside the others");
        }
        files.push_back(std::move(*file));
        RONDO_TRY(take_shard(files.back(), names, where, tensors));
    }
    if (tied) name_tied_table(tensors);
    return make_mapped_weights(std::move(files), std::move(tensors), index_name);
}

}  // namespace rondo
