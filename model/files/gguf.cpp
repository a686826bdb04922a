#include "model/files/gguf.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "config/checked.hpp"
#include "config/in_quotes.hpp"
#include "config/limits.hpp"
#include "model/files/gguf_names.hpp"
#include "model/files/gguf_reader.hpp"

namespace rondo {
namespace {

constexpr std::string_view magic = "GGUF";
constexpr size_t gguf_dimensions_max = 4;
constexpr uint64_t alignment_max = 1 << 16;

/// The tensor types by ggml's numbers; those without a DType are named so that errors can name them.
struct TensorType {
    uint32_t id;
    std::string_view name;
    std::optional<DType> dtype;
};

constexpr TensorType tensor_types[] = {
    {0, "F32", DType::f32},         {1, "F16", DType::f16},         {2, "Q4_0", DType::q4_0},
    {3, "Q4_1", DType::q4_1},       {6, "Q5_0", DType::q5_0},       {7, "Q5_1", DType::q5_1},
    {8, "Q8_0", DType::q8_0},       {9, "Q8_1", std::nullopt},      {10, "Q2_K", DType::q2_k},
    {11, "Q3_K", DType::q3_k},      {12, "Q4_K", DType::q4_k},      {13, "Q5_K", DType::q5_k},
    {14, "Q6_K", DType::q6_k},      {15, "Q8_K", std::nullopt},     {16, "IQ2_XXS", std::nullopt},
    {17, "IQ2_XS", std::nullopt},   {18, "IQ3_XXS", std::nullopt},  {19, "IQ1_S", std::nullopt},
    {20, "IQ4_NL", DType::iq4_nl},  {21, "IQ3_S", std::nullopt},    {22, "IQ2_S", std::nullopt},
    {23, "IQ4_XS", DType::iq4_xs},  {24, "I8", std::nullopt},       {25, "I16", std::nullopt},
    {26, "I32", std::nullopt},      {27, "I64", std::nullopt},      {28, "F64", std::nullopt},
    {29, "IQ1_M", std::nullopt},    {30, "BF16", DType::bf16},      {31, "Q4_0_4_4", std::nullopt},
    {32, "Q4_0_4_8", std::nullopt}, {33, "Q4_0_8_8", std::nullopt}, {34, "TQ1_0", std::nullopt},
    {35, "TQ2_0", std::nullopt},    {39, "MXFP4", std::nullopt},    {40, "NVFP4", std::nullopt},
    {41, "Q1_0", std::nullopt},
};

/// Bytes of a scalar; 0 for strings and arrays.
size_t scalar_bytes(GgufType type) {
    switch (type) {
        case GgufType::u8:
        case GgufType::i8:
        case GgufType::boolean:
            return 1;
        case GgufType::u16:
        case GgufType::i16:
            return 2;
        case GgufType::u32:
        case GgufType::i32:
        case GgufType::f32:
            return 4;
        case GgufType::u64:
        case GgufType::i64:
        case GgufType::f64:
            return 8;
        case GgufType::string:
        case GgufType::array:
            return 0;
    }
    return 0;
}

}  // namespace

bool is_gguf(std::span<const std::byte> bytes) {
    return bytes.size() >= magic.size() &&
           std::string_view(reinterpret_cast<const char*>(bytes.data()), magic.size()) == magic;
}

/// One pass over the head of a file; becomes the GgufFile.
class GgufParser {
public:
    GgufParser(std::span<const std::byte> bytes, std::string where) : bytes_(bytes), in_(bytes) {
        file_.where_ = std::move(where);
    }

    Result<GgufFile> parse() {
        RONDO_TRY(read_counts());
        for (uint64_t i = 0; i < metadata_count_; ++i) RONDO_TRY(read_metadata());
        RONDO_ASSIGN(const int64_t alignment, file_.integer("general.alignment", 8, alignment_max, 32));
        if (!std::has_single_bit(static_cast<uint64_t>(alignment))) {
            return corrupt("general.alignment is " + std::to_string(alignment) + "; it must be a power of two");
        }
        for (uint64_t i = 0; i < tensor_count_; ++i) RONDO_TRY(read_tensor_info());
        RONDO_TRY(place_tensors(static_cast<uint64_t>(alignment)));
        RONDO_TRY(check_overlaps());
        return std::move(file_);
    }

private:
    Error corrupt(const std::string& what) const { return make_error(ErrorCode::corrupt, file_.where_ + ": " + what); }
    Error truncated() const {
        return corrupt("the file ends inside its header, at byte " + std::to_string(in_.position()));
    }
    Error lie(const FileTensor& tensor, const std::string& what) const {
        return corrupt("tensor " + in_quotes(tensor.name) + ": " + what);
    }

    Status read_counts() {
        if (!is_gguf(bytes_)) return corrupt("not a GGUF file");
        (void)in_.take(magic.size());
        const auto version = in_.number<uint32_t>();
        if (!version) return truncated();
        if (*version != 0 && (*version & 0xFFFF) == 0) {
            return make_error(ErrorCode::unsupported,
                              file_.where_ + ": a big-endian GGUF file; take the little-endian one of the same model");
        }
        if (*version != 2 && *version != 3) {
            return make_error(ErrorCode::unsupported, file_.where_ + ": GGUF version " + std::to_string(*version) +
                                                          " is not supported; 2 and 3 are, which newer converters "
                                                          "write");
        }
        const auto tensors = in_.number<uint64_t>();
        const auto entries = in_.number<uint64_t>();
        if (!tensors || !entries) return truncated();
        tensor_count_ = *tensors;
        metadata_count_ = *entries;
        if (tensor_count_ > static_cast<uint64_t>(limits::tensors_max) ||
            metadata_count_ > static_cast<uint64_t>(limits::metadata_entries_max)) {
            return make_error(ErrorCode::out_of_range, file_.where_ + ": declares " + std::to_string(tensor_count_) +
                                                           " tensors and " + std::to_string(metadata_count_) +
                                                           " metadata entries, must be at most " +
                                                           std::to_string(limits::tensors_max) + " and " +
                                                           std::to_string(limits::metadata_entries_max));
        }
        return {};
    }

    Status read_metadata() {
        const auto key = in_.text();
        const auto type = in_.number<uint32_t>();
        if (!key || !type) return truncated();
        if (key->empty() || key->size() > limits::name_bytes_max) return corrupt("metadata key of a wrong length");
        RONDO_ASSIGN(const GgufValue value, read_value(*type, *key));
        if (!file_.metadata_.emplace(*key, value).second) {
            return corrupt("metadata key " + in_quotes(*key) + " is there twice");
        }
        return {};
    }

    Result<GgufValue> read_value(uint32_t type, std::string_view key) {
        if (type > static_cast<uint32_t>(GgufType::f64)) {
            return corrupt("metadata " + in_quotes(key) + " has unknown type " + std::to_string(type));
        }
        GgufValue value;
        value.type = static_cast<GgufType>(type);
        if (value.type == GgufType::array) return read_array(value, key);
        if (value.type == GgufType::string) {
            const auto text = in_.text();
            if (!text) return truncated();
            value.bytes = std::as_bytes(std::span(*text));
            return value;
        }
        const auto bytes = in_.take(scalar_bytes(value.type));
        if (!bytes) return truncated();
        value.bytes = *bytes;
        return value;
    }

    Result<GgufValue> read_array(GgufValue value, std::string_view key) {
        const auto element = in_.number<uint32_t>();
        const auto count = in_.number<uint64_t>();
        if (!element || !count) return truncated();
        if (*element > static_cast<uint32_t>(GgufType::f64) || *element == static_cast<uint32_t>(GgufType::array)) {
            return corrupt("metadata " + in_quotes(key) + " is an array of type " + std::to_string(*element) +
                           "; numbers, booleans and strings are read");
        }
        value.element = static_cast<GgufType>(*element);
        value.count = *count;
        const size_t begin = in_.position();
        if (value.element == GgufType::string) {
            for (uint64_t i = 0; i < value.count; ++i) {
                if (!in_.text()) return truncated();
                if (in_.position() - begin > limits::json_bytes_max) return too_long(key);
            }
        } else {
            const auto bytes = checked_mul(value.count, static_cast<uint64_t>(scalar_bytes(value.element)));
            if (!bytes || !in_.take(*bytes)) return truncated();
        }
        value.bytes = bytes_.subspan(begin, in_.position() - begin);
        return value;
    }

    /// Strings are copied when they are read. In a sparse file they may be of any length. tokenizer.json has the same
    /// bound.
    Error too_long(std::string_view key) const {
        return make_error(ErrorCode::out_of_range,
                          file_.where_ + ": metadata " + in_quotes(key) + " is an array of strings of more than " +
                              std::to_string(limits::json_bytes_max) + " bytes, must be at most " +
                              std::to_string(limits::json_bytes_max));
    }

    Status read_tensor_info() {
        const auto name = in_.text();
        const auto dimensions = in_.number<uint32_t>();
        if (!name || !dimensions) return truncated();
        if (name->empty() || name->size() > limits::name_bytes_max) return corrupt("tensor name of a wrong length");
        FileTensor& tensor = file_.tensors_.emplace_back();
        tensor.name = hf_tensor_name(*name);
        if (*dimensions < 1 || *dimensions > gguf_dimensions_max) {
            return lie(tensor, std::to_string(*dimensions) + " dimensions; 1 to 4 are possible");
        }
        for (uint32_t i = 0; i < *dimensions; ++i) {
            const auto size = in_.number<uint64_t>();
            if (!size) return truncated();
            if (*size < 1 || *size > uint64_t{INT64_MAX}) {
                return lie(tensor, "a dimension of " + std::to_string(*size));
            }
            tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(*size));  // the file has the innermost first
        }
        const auto type = in_.number<uint32_t>();
        const auto offset = in_.number<uint64_t>();
        if (!type || !offset) return truncated();
        offsets_.push_back(*offset);
        return set_type(tensor, *type);
    }

    /// The type, and the size that follows from it and the shape.
    Status set_type(FileTensor& tensor, uint32_t id) {
        const auto* type = std::find_if(std::begin(tensor_types), std::end(tensor_types),
                                        [&](const TensorType& known) { return known.id == id; });
        tensor.file_type = type == std::end(tensor_types) ? "type " + std::to_string(id) : std::string(type->name);
        tensor.usable = type != std::end(tensor_types) && type->dtype;
        if (!tensor.usable) return {};
        tensor.dtype = *type->dtype;
        const auto block = static_cast<uint64_t>(traits(tensor.dtype).block_elements);
        const auto row = static_cast<uint64_t>(tensor.shape.back());
        if (row % block != 0) {
            return lie(tensor, "rows of " + std::to_string(row) + " elements do not split into " + tensor.file_type +
                                   "'s blocks of " + std::to_string(block));
        }
        auto bytes = checked_mul(row / block, static_cast<uint64_t>(traits(tensor.dtype).block_bytes));
        for (size_t i = 0; bytes && i + 1 < tensor.shape.size(); ++i) {
            bytes = checked_mul(*bytes, static_cast<uint64_t>(tensor.shape[i]));
        }
        if (!bytes) return lie(tensor, "its shape needs 2^64 bytes or more");
        tensor.bytes = *bytes;
        return {};
    }

    Status place_tensors(uint64_t alignment) {
        if (file_.tensors_.empty()) return {};
        const uint64_t begin = round_up(static_cast<uint64_t>(in_.position()), alignment);
        if (begin > bytes_.size()) return truncated();
        const auto data = bytes_.subspan(begin);
        for (size_t i = 0; i < file_.tensors_.size(); ++i) {
            FileTensor& tensor = file_.tensors_[i];
            if (offsets_[i] % alignment != 0) {
                return lie(tensor, "its offset " + std::to_string(offsets_[i]) +
                                       " is not a multiple of the alignment, " + std::to_string(alignment));
            }
            if (offsets_[i] > data.size() || tensor.bytes > data.size() - offsets_[i]) {
                return lie(tensor, std::to_string(tensor.bytes) + " bytes at offset " + std::to_string(offsets_[i]) +
                                       " do not lie in the file's " + std::to_string(data.size()) + " bytes of data");
            }
            tensor.data = data.data() + offsets_[i];
        }
        return {};
    }

    /// The size of a type that is not usable is not known, so such a tensor is only known to end somewhere after its
    /// start.
    Status check_overlaps() const {
        std::vector<const FileTensor*> order;
        order.reserve(file_.tensors_.size());
        for (const FileTensor& tensor : file_.tensors_) order.push_back(&tensor);
        std::sort(order.begin(), order.end(),
                  [](const FileTensor* a, const FileTensor* b) { return a->data < b->data; });
        for (size_t i = 1; i < order.size(); ++i) {
            const auto before = std::max<size_t>(order[i - 1]->bytes, 1);
            if (static_cast<size_t>(order[i]->data - order[i - 1]->data) < before) {
                return lie(*order[i], "its bytes overlap those of " + in_quotes(order[i - 1]->name));
            }
        }
        return {};
    }

    std::span<const std::byte> bytes_;
    ByteReader in_;
    GgufFile file_;
    uint64_t tensor_count_ = 0;
    uint64_t metadata_count_ = 0;
    std::vector<uint64_t> offsets_;  // of the tensors' data, from the start of the data part
};

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, const std::string& where) {
    return GgufParser(bytes, where).parse();
}

const FileTensor* GgufFile::find_tensor(std::string_view name) const {
    const auto found =
        std::find_if(tensors_.begin(), tensors_.end(), [&](const FileTensor& t) { return t.name == name; });
    return found == tensors_.end() ? nullptr : &*found;
}

void GgufFile::take_tensors(GgufFile part) {
    tensors_.insert(tensors_.end(), std::make_move_iterator(part.tensors_.begin()),
                    std::make_move_iterator(part.tensors_.end()));
}

const GgufValue* GgufFile::find(std::string_view key) const {
    const auto found = metadata_.find(key);
    return found == metadata_.end() ? nullptr : &found->second;
}

}  // namespace rondo
