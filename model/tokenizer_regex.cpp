#include "model/tokenizer_regex.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>

#include "config/limits.hpp"
#include "model/in_quotes.hpp"
#include "model/unicode.hpp"

namespace rondo {

namespace {

constexpr uint64_t steps_first = 4096;       // of one match; nearly all need fewer
constexpr uint64_t steps_base = 10'000'000;  // of a whole text, and
constexpr uint64_t steps_per_byte = 64;      // sound patterns take a few for each byte they give back
constexpr size_t jit_stack_bytes_max = size_t{64} << 20;
constexpr uint32_t heap_kib_max = 256 << 10;  // of the interpreter, where there is no JIT

std::string pcre2_message(int code) {
    std::array<PCRE2_UCHAR, 128> text{};
    pcre2_get_error_message(code, text.data(), text.size());
    return reinterpret_cast<const char*>(text.data());
}

struct Free {
    void operator()(pcre2_code* p) const { pcre2_code_free(p); }
    void operator()(pcre2_compile_context* p) const { pcre2_compile_context_free(p); }
    void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
    void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
    void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

}  // namespace

struct TokenizerRegex::Code {
    Owned<pcre2_code> code;
};

struct TokenizerRegex::Finder::Scratch {
    Owned<pcre2_match_context> context{pcre2_match_context_create(nullptr)};
    Owned<pcre2_match_data> match{pcre2_match_data_create(1, nullptr)};
    Owned<pcre2_jit_stack> stack{pcre2_jit_stack_create(32 << 10, jit_stack_bytes_max, nullptr)};
};

Result<TokenizerRegex> TokenizerRegex::compile(std::string_view pattern) {
    const std::string shown = "regex " + in_quotes(pattern);
    if (pattern.size() > limits::pattern_bytes_max)
        return make_error(ErrorCode::out_of_range,
                          shown + " is longer than " + std::to_string(limits::pattern_bytes_max) + " bytes");
    auto translated = pcre2_from_oniguruma(pattern);
    if (!translated) return make_error(translated.error().code, shown + ": " + translated.error().message);

    const Owned<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
    if (!context) return make_error(ErrorCode::out_of_memory, shown + ": no memory to compile it");
    pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
    pcre2_set_bsr(context.get(), PCRE2_BSR_UNICODE);
    int error = 0;
    PCRE2_SIZE error_at = 0;
    // Oniguruma's ^ and $ stand at every line. PCRE2_UCP gives \R, \X and letter case their Unicode meaning.
    Owned<pcre2_code> code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
                                         PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                                         &error_at, context.get()));
    if (!code) return make_error(ErrorCode::unsupported, shown + " does not compile: " + pcre2_message(error));
    // Without a JIT for this machine pcre2_match interprets the pattern, to the same result.
    (void)pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
    TokenizerRegex regex;
    regex.code_ = std::make_shared<const Code>(Code{std::move(code)});
    return regex;
}

TokenizerRegex::Finder::Finder(const TokenizerRegex& regex, size_t text_bytes)
    : regex_(&regex), scratch_(std::make_shared<Scratch>()), steps_left_(steps_base + steps_per_byte * text_bytes) {
    if (!scratch_->context) return;
    pcre2_set_heap_limit(scratch_->context.get(), heap_kib_max);
    if (scratch_->stack) pcre2_jit_stack_assign(scratch_->context.get(), nullptr, scratch_->stack.get());
}

Result<bool> TokenizerRegex::Finder::match_at(std::string_view text, size_t start, ByteRange& match) {
    if (!scratch_->context || !scratch_->match || !scratch_->stack)
        return make_error(ErrorCode::out_of_memory, "no memory to run a tokenizer's regex");
    // PCRE2 does not say how many steps a match took; the limit it needed, found by raising it, bounds them.
    for (uint64_t limit = steps_first;; limit = std::min(8 * limit, steps_left_)) {
        pcre2_set_match_limit(scratch_->context.get(), static_cast<uint32_t>(std::min<uint64_t>(limit, UINT32_MAX)));
        const int found = pcre2_match(regex_->code_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                      start, PCRE2_NO_UTF_CHECK, scratch_->match.get(), scratch_->context.get());
        if (limit > steps_first) steps_left_ -= limit;
        if (found == PCRE2_ERROR_NOMATCH) return false;
        if (found >= 0) {
            const PCRE2_SIZE* range = pcre2_get_ovector_pointer(scratch_->match.get());
            match = {range[0], range[1]};
            return true;
        }
        if (found != PCRE2_ERROR_MATCHLIMIT || steps_left_ <= steps_first)
            return make_error(
                ErrorCode::unsupported,
                "a regex of the tokenizer takes too long or too much memory on this text: " + pcre2_message(found));
    }
}

Status TokenizerRegex::Finder::find_all(std::string_view text, std::vector<ByteRange>& matches) {
    matches.clear();
    size_t start = 0;
    while (start <= text.size()) {
        ByteRange match{};
        RONDO_ASSIGN(const bool found, match_at(text, start, match));
        if (!found) break;
        // \K inside a lookaround can set the beginning anywhere.
        if (match.begin > match.end || (!matches.empty() && match.begin < matches.back().end))
            return make_error(ErrorCode::unsupported,
                              "a regex of the tokenizer matches backwards; write it without \\K");
        const bool empty = match.begin == match.end;
        if (!empty || matches.empty() || match.begin != matches.back().end) matches.push_back(match);
        start = match.end;
        if (empty) start += start < text.size() ? unicode::length_of(text[start]) : 1;
    }
    return Status::ok();
}

}  // namespace rondo
