#include "model/text/tokenizer_vocabulary.hpp"

#include <functional>

#include "config/in_quotes.hpp"

namespace rondo {

Status Vocabulary::add(int64_t id, std::string_view content, Kind kind) {
    if (id < 0 || id >= ids_max_) {
        return make_error(ErrorCode::out_of_range,
                          "token " + in_quotes(content) + " has id " + std::to_string(id) + "; ids go from 0 to " +
                              std::to_string(ids_max_ - 1) +
                              (ids_max_ < limits::vocabulary_max ? " in so small a file" : ""));
    }
    if (this->kind(id) != Kind::absent) {
        return make_error(ErrorCode::corrupt, "token " + in_quotes(content) + " has id " + std::to_string(id) +
                                                  ", which " + in_quotes(this->content(static_cast<int32_t>(id))) +
                                                  " has too");
    }
    if (text_.size() + content.size() > UINT32_MAX) {
        return make_error(ErrorCode::out_of_range, "the vocabulary's text is larger than 4 GiB");
    }
    if (2 * (used_ + 1) > slots_.size()) grow();
    const TablePlace place = place_of(content);
    if (place.is_chosen()) {
        return make_error(ErrorCode::corrupt, "token " + in_quotes(content) +
                                                  " has the hash of too many others; no vocabulary has that by chance");
    }
    if (id >= size()) entries_.resize(static_cast<size_t>(id) + 1);
    entries_[id] = {static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(content.size()), kind};
    text_ += content;
    int32_t& slot = slots_[place.slot];
    if (slot < 0) {
        slot = static_cast<int32_t>(id);
        ++used_;
    }
    return Status::ok();
}

int32_t Vocabulary::find(std::string_view content) const {
    return slots_.empty() ? -1 : slots_[place_of(content).slot];
}

TablePlace Vocabulary::place_of(std::string_view content) const {
    return place_in_table(std::hash<std::string_view>{}(content), slots_.size(),
                          [&](size_t slot) { return slots_[slot] >= 0 && this->content(slots_[slot]) != content; });
}

void Vocabulary::grow() {
    std::vector<int32_t> before(slots_.empty() ? 1024 : 2 * slots_.size(), -1);
    before.swap(slots_);
    for (const int32_t id : before)
        if (id >= 0) slots_[place_of(content(id)).slot] = id;
}

}  // namespace rondo
