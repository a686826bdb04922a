#include "model/text/tokenizer_bpe.hpp"

#include <algorithm>

#include "config/limits.hpp"
#include "model/text/find_piece.hpp"
#include "model/text/tokenizer_bytes.hpp"
#include "model/text/unicode.hpp"

namespace rondo {

namespace {

constexpr char32_t table_characters = 0x10000;

std::string replaced(std::string_view text, std::string_view what, std::string_view with) {
    std::string out;
    size_t done = 0;
    for (size_t at; (at = find_piece(text, what, done)) != std::string_view::npos; done = at + what.size())
        out.append(text.substr(done, at - done)).append(with);
    return out.append(text.substr(done));
}

}  // namespace

/// What one call of encode needs and writes.
struct BpeTokenizer::Run {
    Run(const BpeMerges& merges, bool special, const std::stop_token& stop)
        : special(special), stop(stop), merger(merges, stop) {}
    bool special;
    const std::stop_token& stop;
    BpeMerger merger;
    std::vector<int32_t> ids;
    std::vector<int32_t> symbols;
    std::vector<AddedTokens::Segment> segments;
};

BpeTokenizer::BpeTokenizer(BpeParts parts) : parts_(std::move(parts)), character_ids_(table_characters, -1) {
    parts_.added.prepare();
    parts_.added_normalized.prepare();
    for (int64_t id = 0; id < parts_.vocabulary.size(); ++id) {
        if (parts_.vocabulary.kind(id) == Vocabulary::Kind::absent) continue;
        const std::string_view content = parts_.vocabulary.content(static_cast<int32_t>(id));
        if (content.size() > 3 || !unicode::is_one_character(content)) continue;
        character_ids_[unicode::decode(content, 0).value] = producible(content);
    }
    for (int byte = 0; byte < 256; ++byte) {
        byte_ids_[byte] = parts_.vocabulary.find(name_of_byte(static_cast<uint8_t>(byte)));
        if (is_special(byte_ids_[byte])) byte_ids_[byte] = -1;
    }
}

int32_t BpeTokenizer::producible(std::string_view content) const {
    const int32_t id = parts_.vocabulary.find(content);
    const auto kind = parts_.vocabulary.kind(id);
    return kind == Vocabulary::Kind::normal || kind == Vocabulary::Kind::added ? id : -1;
}

int32_t BpeTokenizer::id_of_character(std::string_view character) const {
    if (character.size() <= 3) return character_ids_[unicode::decode(character, 0).value];
    return producible(character);
}

bool BpeTokenizer::has_bytes_of(std::string_view character) const {
    return std::all_of(character.begin(), character.end(),
                       [&](char c) { return byte_ids_[static_cast<uint8_t>(c)] >= 0; });
}

/// What is asked to stop leaves its work half done; here is where that becomes an error.
Result<std::vector<int32_t>> BpeTokenizer::encode_behind(int32_t before, std::string_view text, bool special,
                                                         const std::stop_token& stop) const {
    if (text.size() > limits::prompt_bytes_max)
        return make_error(ErrorCode::out_of_range, "the text has " + std::to_string(text.size()) +
                                                       " bytes, must be at most " +
                                                       std::to_string(limits::prompt_bytes_max));
    if (!unicode::is_valid(text)) return make_error(ErrorCode::invalid_argument, "the text is not valid UTF-8");
    Run run(parts_.merges, special, stop);
    if (before >= 0) text.remove_prefix(parts_.added.spaces_taken_by(before, text));
    const Status done = encode_all(text, before, run);
    if (stop.stop_requested()) return make_error(ErrorCode::cancelled, "nobody waits for the tokens any more");
    RONDO_TRY(done);
    return std::move(run.ids);
}

Status BpeTokenizer::encode_all(std::string_view text, int32_t before, Run& run) const {
    std::vector<AddedTokens::Segment> segments;
    parts_.added.split(text, run.special, run.stop, segments);
    for (const auto& segment : segments) {
        if (run.stop.stop_requested()) break;
        if (segment.id >= 0) {
            run.ids.push_back(segment.id);
        } else {
            // Behind an added token another piece begins, as within a text.
            const bool is_first = segment.begin == 0, goes_on = is_first && before >= 0 && !parts_.added.has(before);
            RONDO_TRY(encode_segment(text.substr(segment.begin, segment.end - segment.begin), is_first && before < 0,
                                     goes_on, run));
        }
    }
    return Status::ok();
}

Status BpeTokenizer::encode_segment(std::string_view text, bool from_start, bool goes_on, Run& run) const {
    RONDO_ASSIGN(const std::string normal, parts_.normalizer.apply(std::string(text), goes_on));
    parts_.added_normalized.split(normal, run.special, run.stop, run.segments);
    for (const auto& segment : run.segments) {
        if (segment.id >= 0) {
            run.ids.push_back(segment.id);
            continue;
        }
        Pieces pieces;
        pieces.text = normal.substr(segment.begin, segment.end - segment.begin);
        pieces.ends = {pieces.text.size()};
        pieces.from_start = from_start && segment.begin == 0;
        pieces.goes_on = goes_on && segment.begin == 0;
        pieces.stop = run.stop;
        RONDO_TRY(parts_.pretokenizer.run(pieces));
        size_t begin = 0;
        for (const size_t end : pieces.ends) {
            if (run.stop.stop_requested()) return Status::ok();
            encode_word(std::string_view(pieces.text.data() + begin, end - begin), run);
            begin = end;
        }
    }
    return Status::ok();
}

void BpeTokenizer::encode_word(std::string_view word, Run& run) const {
    if (parts_.ignores_merges) {
        if (const int32_t id = producible(word); id >= 0) {
            run.ids.push_back(id);
            return;
        }
    }
    run.symbols.clear();
    run.symbols.reserve(word.size());  // what it would grow by is much with a long word
    bool after_unknown = false;
    for (size_t at = 0; at < word.size();) {
        const std::string_view character = word.substr(at, unicode::length_of(word[at]));
        at += character.size();
        const int32_t id = id_of_character(character);
        const bool was_unknown = std::exchange(after_unknown, false);
        if (id >= 0) {
            run.symbols.push_back(id);
        } else if (parts_.byte_fallback && has_bytes_of(character)) {
            for (const char c : character) run.symbols.push_back(byte_ids_[static_cast<uint8_t>(c)]);
        } else if (parts_.unknown_id >= 0) {
            if (!was_unknown || !parts_.fuses_unknown) run.symbols.push_back(parts_.unknown_id);
            after_unknown = true;
        }
    }
    run.merger.merge(run.symbols, run.ids);
}

std::vector<int32_t> BpeTokenizer::with_template_tokens(std::vector<int32_t> ids) const {
    ids.insert(ids.begin(), parts_.before.begin(), parts_.before.end());
    ids.insert(ids.end(), parts_.after.begin(), parts_.after.end());
    return ids;
}

std::string BpeTokenizer::bytes_of(int32_t id, bool special) const {
    const auto kind = parts_.vocabulary.kind(id);
    if (kind == Vocabulary::Kind::absent || (kind == Vocabulary::Kind::special && !special)) return {};
    std::string content(parts_.vocabulary.content(id));
    const bool plain = kind != Vocabulary::Kind::added && kind != Vocabulary::Kind::special;
    if (parts_.decoding.byte_level) return plain ? bytes_of_characters(content) : content;
    if (parts_.decoding.byte_fallback && plain) {
        if (const int byte = byte_of_name(content); byte >= 0) return std::string(1, static_cast<char>(byte));
    }
    for (const auto& [what, with] : parts_.decoding.replacements) content = replaced(content, what, with);
    return content;
}

}  // namespace rondo
