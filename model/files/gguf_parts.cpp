#include "model/files/gguf_parts.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <unordered_set>
#include <utility>

#include "config/in_quotes.hpp"
#include "config/limits.hpp"
#include "model/files/path_text.hpp"
#include "model/files/refused_files.hpp"

namespace rondo {
namespace {

namespace fs = std::filesystem;

/// What a file says of the split model it is a part of.
struct Split {
    int64_t number = 0;   // from 1; 0: it says nothing of a split
    int64_t count = 1;    // of files
    int64_t tensors = 0;  // in all of them; 0: not said
};

std::string part_of(int64_t number, int64_t count) {
    return "part " + std::to_string(number) + " of " + std::to_string(count);
}

Result<Split> read_split(const GgufFile& file) {
    constexpr int64_t parts_max = static_cast<int64_t>(limits::shards_max);
    Split out;
    RONDO_ASSIGN(out.count, file.integer("split.count", 0, UINT32_MAX, 0));
    if (out.count <= 1) return Split{};
    if (out.count > parts_max) {
        return make_error(ErrorCode::out_of_range, file.where() + ": a model in " + std::to_string(out.count) +
                                                       " files (split.count), must be at most " +
                                                       std::to_string(parts_max));
    }
    RONDO_ASSIGN(const int64_t index, file.integer("split.no", 0, out.count - 1));
    RONDO_ASSIGN(out.tensors, file.integer("split.tensors.count", 0, limits::tensors_max, 0));
    out.number = index + 1;
    return out;
}

/// Opens the other parts one by one and adds their tensors.
class PartsReader {
public:
    PartsReader(fs::path path, Split split) : path_(std::move(path)), split_(split) {}

    Status check_name() {
        const std::optional<GgufPartName> name = gguf_part_name(path_.filename().string());
        if (name && name->number == split_.number && name->count == split_.count) {
            name_ = *name;
            return {};
        }
        GgufPartName right;
        right.count = split_.count;
        return make_error(ErrorCode::corrupt, path_text(path_) + ": " + part_of(split_.number, split_.count) +
                                                  " of a split model, so its name must end in " +
                                                  right.file_name(split_.number) +
                                                  ", by which the other parts are found");
    }

    Result<GgufFile> open(int64_t number, std::vector<MappedFile>& files) const {
        const fs::path path = path_.parent_path() / name_.file_name(number);
        const std::string where = path_text(path);
        auto file = MappedFile::open(path, where);
        if (!file) {
            return make_error(file.error().code, file.error().message + "; it is " + part_of(number, split_.count) +
                                                     " of this model and must lie beside the others");
        }
        RONDO_TRY(check_downloaded(file->bytes(), where));
        RONDO_ASSIGN(GgufFile gguf, GgufFile::parse(file->bytes(), where));
        RONDO_ASSIGN(const Split said, read_split(gguf));
        if (said.number != number || said.count != split_.count || said.tensors != split_.tensors) {
            return make_error(ErrorCode::corrupt,
                              where + ": " +
                                  (said.number == 0 ? "no part of a split model"
                                                    : part_of(said.number, said.count) + " of a model of " +
                                                          std::to_string(said.tensors) + " tensors") +
                                  " by its metadata; " + part_of(number, split_.count) + " of " +
                                  std::to_string(split_.tensors) + " tensors must be here");
        }
        files.push_back(std::move(*file));
        return gguf;
    }

private:
    fs::path path_;
    Split split_;
    GgufPartName name_;
};

Status check_tensors(const std::vector<GgufFile>& parts, const Split& split) {
    std::unordered_set<std::string_view> names;
    for (const GgufFile& part : parts) {
        for (const FileTensor& tensor : part.tensors()) {
            if (names.insert(tensor.name).second) continue;
            return make_error(ErrorCode::corrupt,
                              part.where() + ": tensor " + in_quotes(tensor.name) + " is in this model twice");
        }
    }
    const auto found = static_cast<int64_t>(names.size());
    if (split.tensors == 0 || found == split.tensors) return {};
    return make_error(ErrorCode::corrupt, parts.front().where() + ": all parts have " + std::to_string(found) +
                                              " tensors together; split.tensors.count says " +
                                              std::to_string(split.tensors));
}

}  // namespace

std::string GgufPartName::file_name(int64_t part) const {
    char ending[64];
    std::snprintf(ending, sizeof(ending), "-%05lld-of-%05lld.gguf", static_cast<long long>(part),
                  static_cast<long long>(count));
    return stem + ending;
}

std::optional<GgufPartName> gguf_part_name(std::string_view file_name) {
    constexpr std::string_view form = "-00000-of-00000.gguf";
    if (file_name.size() <= form.size()) return std::nullopt;
    const std::string_view ending = file_name.substr(file_name.size() - form.size());
    for (size_t i = 0; i < form.size(); ++i) {
        const bool fits = form[i] == '0' ? std::isdigit(static_cast<unsigned char>(ending[i])) : ending[i] == form[i];
        if (!fits) return std::nullopt;
    }
    const auto number = [&](size_t at) { return std::stoll(std::string(ending.substr(at, 5))); };
    GgufPartName out;
    out.stem = file_name.substr(0, file_name.size() - form.size());
    out.number = number(1);
    out.count = number(10);
    return out;
}

Result<GgufParts> open_gguf_parts(const fs::path& path, MappedFile file, bool metadata_alone) {
    RONDO_ASSIGN(GgufFile given, GgufFile::parse(file.bytes(), path_text(path)));
    RONDO_ASSIGN(const Split split, read_split(given));
    std::vector<MappedFile> files;
    if (split.number == 0 || (metadata_alone && split.number == 1)) {
        files.push_back(std::move(file));
        return GgufParts{std::move(given), std::move(files)};
    }
    PartsReader reader(path, split);
    RONDO_TRY(reader.check_name());
    std::vector<GgufFile> parts;
    size_t tensors = 0;
    for (int64_t number = 1; number <= (metadata_alone ? 1 : split.count); ++number) {
        if (number == split.number) {
            parts.push_back(std::move(given));
            files.push_back(std::move(file));
        } else {
            RONDO_ASSIGN(GgufFile part, reader.open(number, files));
            parts.push_back(std::move(part));
        }
        tensors += parts.back().tensors().size();
        if (tensors > static_cast<size_t>(limits::tensors_max)) {
            return make_error(ErrorCode::out_of_range, parts.back().where() + ": " + std::to_string(tensors) +
                                                           " tensors in all parts up to this one, must be at most " +
                                                           std::to_string(limits::tensors_max));
        }
    }
    if (!metadata_alone) RONDO_TRY(check_tensors(parts, split));
    GgufFile whole = std::move(parts.front());
    for (size_t i = 1; i < parts.size(); ++i) whole.take_tensors(std::move(parts[i]));
    return GgufParts{std::move(whole), std::move(files)};
}

}  // namespace rondo
