#include "model/files/mapped_weights.hpp"

#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "config/in_quotes.hpp"

namespace rondo {
namespace {

class MappedWeights final : public WeightsFile {
public:
    MappedWeights(std::vector<MappedFile> files, std::vector<FileTensor> tensors)
        : files_(std::move(files)), tensors_(std::move(tensors)) {}

    Status index(const std::string& where) {
        by_name_.reserve(tensors_.size());
        for (const FileTensor& tensor : tensors_) {
            if (!by_name_.emplace(tensor.name, &tensor).second) {
                return make_error(ErrorCode::corrupt, where + ": tensor " + in_quotes(tensor.name) + " is there twice");
            }
        }
        return {};
    }

    const FileTensor* find(std::string_view name) const override {
        const auto found = by_name_.find(name);
        return found == by_name_.end() ? nullptr : found->second;
    }

    const std::vector<FileTensor>& tensors() const override { return tensors_; }

    void will_need(const FileTensor& tensor) const override {
        for (const MappedFile& file : files_) file.will_need({tensor.data, tensor.bytes});
    }

    void done_with(const FileTensor& tensor) const override {
        for (const MappedFile& file : files_) file.done_with({tensor.data, tensor.bytes});
    }

private:
    std::vector<MappedFile> files_;
    std::vector<FileTensor> tensors_;
    std::unordered_map<std::string_view, const FileTensor*> by_name_;  // views into tensors_, which never changes
};

}  // namespace

Result<std::unique_ptr<WeightsFile>> make_mapped_weights(std::vector<MappedFile> files, std::vector<FileTensor> tensors,
                                                         const std::string& where) {
    auto weights = std::make_unique<MappedWeights>(std::move(files), std::move(tensors));
    RONDO_TRY(weights->index(where));
    return std::unique_ptr<WeightsFile>(std::move(weights));
}

}  // namespace rondo
