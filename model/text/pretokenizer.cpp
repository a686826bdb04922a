#include "model/text/pretokenizer.hpp"

#include <algorithm>

#include "config/limits.hpp"
#include "model/text/tokenizer_bytes.hpp"

namespace rondo {

namespace {

using Behavior = PreTokenizer::Behavior;

struct Part {
    ByteRange range;
    bool match;
};

/// Matches and what lies between them, in order; together they are the whole piece.
void parts_of(size_t piece_bytes, const std::vector<ByteRange>& matches, bool invert, std::vector<Part>& parts) {
    parts.clear();
    size_t done = 0;
    for (const ByteRange& match : matches) {
        if (match.begin > done) parts.push_back({{done, match.begin}, invert});
        parts.push_back({match, !invert});
        done = match.end;
    }
    if (done < piece_bytes) parts.push_back({{done, piece_bytes}, invert});
}

/// Joins neighbours, in place, as the behavior says.
void join(std::vector<Part>& parts, Behavior behavior) {
    if (behavior == Behavior::isolated) return;
    if (behavior == Behavior::removed) {
        std::erase_if(parts, [](const Part& part) { return part.match; });
        return;
    }
    const bool backwards = behavior == Behavior::merged_with_next;
    if (backwards) std::reverse(parts.begin(), parts.end());
    size_t kept = 0;
    bool previous_match = false;
    for (const Part part : parts) {
        const bool joins =
            behavior == Behavior::contiguous ? part.match == previous_match : part.match && !previous_match;
        previous_match = part.match;
        if (!joins || kept == 0) {
            parts[kept++] = part;
        } else if (backwards) {
            parts[kept - 1].range.begin = part.range.begin;
        } else {
            parts[kept - 1].range.end = part.range.end;
        }
    }
    parts.resize(kept);
    if (backwards) std::reverse(parts.begin(), parts.end());
}

Status run(const PreTokenizer::Split& step, Pieces& pieces) {
    TokenizerPattern::Finder finder(step.pattern, pieces.text.size(), pieces.stop);
    std::vector<ByteRange> matches;
    std::vector<Part> parts;
    std::string kept;
    std::vector<size_t> ends;
    ends.reserve(pieces.ends.size());
    const bool removes = step.behavior == Behavior::removed;
    bool from_start = pieces.from_start, goes_on = pieces.goes_on;
    size_t begin = 0;
    for (const size_t end : pieces.ends) {
        const std::string_view piece(pieces.text.data() + begin, end - begin);
        RONDO_TRY(finder.find_all(piece, matches));
        parts_of(piece.size(), matches, step.invert, parts);
        join(parts, step.behavior);
        for (const Part& part : parts) {
            if (part.range.begin == part.range.end) continue;
            if (ends.empty() && begin + part.range.begin > 0) from_start = goes_on = false;
            if (removes) kept += piece.substr(part.range.begin, part.range.end - part.range.begin);
            ends.push_back(removes ? kept.size() : begin + part.range.end);
        }
        begin = end;
    }
    if (removes) pieces.text = std::move(kept);
    pieces.ends = std::move(ends);
    pieces.from_start = from_start;
    pieces.goes_on = goes_on;
    return Status::ok();
}

/// Replaces each piece by what `rewrite(out, piece, first)` appends.
template <class Rewrite>
Status rewrite_pieces(Pieces& pieces, Rewrite rewrite) {
    std::string out;
    out.reserve(pieces.text.size() + pieces.text.size() / 4);
    size_t begin = 0;
    bool first = true;
    for (size_t& end : pieces.ends) {
        rewrite(out, std::string_view(pieces.text.data() + begin, end - begin), first);
        begin = end;
        end = out.size();
        first = false;
        if (out.size() > limits::normalized_bytes_max)
            return make_error(ErrorCode::out_of_range, "the text grows beyond " +
                                                           std::to_string(limits::normalized_bytes_max) +
                                                           " bytes in the pre-tokenizer; shorten it");
    }
    pieces.text = std::move(out);
    return Status::ok();
}

Status run(const PreTokenizer::Prefix& step, Pieces& pieces) {
    return rewrite_pieces(pieces, [&](std::string& out, std::string_view piece, bool first) {
        const bool goes_on = first && pieces.goes_on, is_start = first && pieces.from_start;
        const bool wanted = !goes_on && (!step.only_at_start || is_start);
        if (wanted && !piece.starts_with(step.text)) out += step.text;
        out += piece;
    });
}

Status run(const PreTokenizer::ReplaceSpaces& step, Pieces& pieces) {
    return rewrite_pieces(pieces, [&](std::string& out, std::string_view piece, bool) {
        for (const char c : piece) c == ' ' ? out += step.with : out += c;
    });
}

Status run(const PreTokenizer::BytesToCharacters&, Pieces& pieces) {
    return rewrite_pieces(pieces,
                          [](std::string& out, std::string_view piece, bool) { append_as_characters(out, piece); });
}

}  // namespace

void PreTokenizer::add(Step step) {
    steps_.push_back(std::move(step));
}

Status PreTokenizer::run(Pieces& pieces) const {
    for (const Step& step : steps_)
        RONDO_TRY(std::visit([&](const auto& kind) { return rondo::run(kind, pieces); }, step));
    return Status::ok();
}

}  // namespace rondo
