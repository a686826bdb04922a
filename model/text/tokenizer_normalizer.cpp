#include "model/text/tokenizer_normalizer.hpp"

#include "config/limits.hpp"

namespace rondo {

namespace {

Error too_long() {
    return make_error(ErrorCode::out_of_range, "the text grows beyond " + std::to_string(limits::normalized_bytes_max) +
                                                   " bytes when normalized; shorten it");
}

Result<std::string> run(const Normalizer::Prepend& step, std::string text) {
    return text.empty() ? std::move(text) : step.text + text;
}

Result<std::string> run(const Normalizer::Replace& step, std::string text) {
    TokenizerPattern::Finder finder(step.pattern, text.size());
    std::vector<ByteRange> matches;
    RONDO_TRY(finder.find_all(text, matches));
    if (matches.empty()) return text;
    if (matches.size() > (limits::normalized_bytes_max - text.size()) / (step.with.size() + 1)) return too_long();
    std::string out;
    size_t done = 0;
    for (const ByteRange& match : matches) {
        out.append(text, done, match.begin - done).append(step.with);
        done = match.end;
    }
    return out.append(text, done);
}

Result<std::string> run(const Normalizer::Lowercase&, std::string text) {
    return unicode::lowercase(text);
}

Result<std::string> run(const Normalizer::Strip& step, std::string text) {
    size_t begin = 0, end = 0;  // of what is kept
    bool kept = false;
    for (size_t at = 0; at < text.size();) {
        const auto c = unicode::decode(text, at);
        if (!unicode::is_whitespace(c.value)) {
            if (!kept) begin = at;
            kept = true;
            end = at + c.bytes;
        }
        at += c.bytes;
    }
    if (!step.left) begin = 0;
    if (!step.right) end = text.size();
    if (!kept) return step.left || step.right ? std::string() : std::move(text);
    return text.substr(begin, end - begin);
}

Result<std::string> run(unicode::Form form, std::string text) {
    return unicode::normalize(text, form);
}

}  // namespace

void Normalizer::add(Step step) {
    steps_.push_back(std::move(step));
}

Result<std::string> Normalizer::apply(std::string text, bool goes_on) const {
    for (const Step& step : steps_) {
        if (goes_on && std::holds_alternative<Prepend>(step)) continue;
        RONDO_ASSIGN(text, std::visit([&](const auto& kind) { return run(kind, std::move(text)); }, step));
        if (text.size() > limits::normalized_bytes_max) return too_long();
    }
    return text;
}

}  // namespace rondo
