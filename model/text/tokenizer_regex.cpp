#include "model/text/tokenizer_regex.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <ctime>

#include "config/in_quotes.hpp"
#include "config/limits.hpp"
#include "model/text/unicode.hpp"

namespace rondo {

namespace pcre2 {

struct Free {
    void operator()(pcre2_code* p) const { pcre2_code_free(p); }
    void operator()(pcre2_compile_context* p) const { pcre2_compile_context_free(p); }
    void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
    void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
    void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

}  // namespace pcre2

namespace {

using pcre2::Owned;

// A match is first looked for within a window of the text, which bounds what an attempt can read, and with few steps,
// as PCRE2 counts them. What needs more is run again on the whole text, with a look at the clock between its items.
constexpr size_t window_bytes = 256;
constexpr uint32_t window_steps_max = 4096;
constexpr size_t work_unwatched_max = 4096;   // items run and bytes passed between two looks at the clock
constexpr size_t starts_unwatched_max = 512;  // places where a match was looked for
// Of one thread's processor time. Sound patterns take some twenty nanoseconds for a byte.
constexpr int64_t time_base_ns = 100'000'000;
constexpr int64_t time_per_byte_ns = 1'500;
constexpr size_t jit_stack_bytes_min = size_t{32} << 10;
constexpr size_t jit_stack_bytes_max = size_t{64} << 20;
constexpr uint32_t heap_kib_max = 256 << 10;  // of the interpreter, where there is no JIT

std::string pcre2_message(int code) {
    std::array<PCRE2_UCHAR, 128> text{};
    pcre2_get_error_message(code, text.data(), text.size());
    return reinterpret_cast<const char*>(text.data());
}

Owned<pcre2_code> compiled(std::string_view pattern, uint32_t more, pcre2_compile_context* context, int& error) {
    // Oniguruma's ^ and $ stand at every line. PCRE2_UCP gives \R, \X and letter case their Unicode meaning.
    constexpr uint32_t options =
        PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT;
    PCRE2_SIZE error_at = 0;
    Owned<pcre2_code> code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options | more,
                                         &error, &error_at, context));
    // Without a JIT for this machine pcre2_match interprets the pattern, to the same result.
    if (code) (void)pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
    return code;
}

/// The processor time this thread has had: a busy machine makes no pattern worse.
int64_t thread_ns() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// The last beginning of a character at or before `at`.
size_t character_at(std::string_view text, size_t at) {
    if (at >= text.size()) return text.size();
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    return at;
}

}  // namespace

struct TokenizerRegex::Code {
    Owned<pcre2_code> plain;
    Owned<pcre2_code> watched;  // the same with a callout before every item
};

struct TokenizerRegex::Finder::Scratch {
    Owned<pcre2_match_context> context{pcre2_match_context_create(nullptr)};
    Owned<pcre2_match_data> match{pcre2_match_data_create(1, nullptr)};
    Owned<pcre2_jit_stack> stack = {};  // a mapping of its own, so it is made only for what a window is too small for
    std::stop_token stop = {};
    int64_t over_at_ns = 0;
    size_t unwatched = 0, position = 0;

    /// Counts work done; every so often looks whether the time is over, or the result wanted no more.
    bool is_over(size_t work, size_t unwatched_max) {
        unwatched += work;
        if (unwatched < unwatched_max) return false;
        unwatched = 0;
        return stop.stop_requested() || thread_ns() > over_at_ns;
    }

    static int on_item(pcre2_callout_block* item, void* scratch) {
        Scratch& self = *static_cast<Scratch*>(scratch);
        const size_t at = item->current_position;
        const size_t passed = at > self.position ? at - self.position : self.position - at;
        self.position = at;
        return self.is_over(passed + 1, work_unwatched_max) ? PCRE2_ERROR_CALLOUT : 0;
    }
};

Result<TokenizerRegex> TokenizerRegex::compile(std::string_view pattern) {
    const std::string shown = "regex " + in_quotes(pattern);
    if (pattern.size() > limits::pattern_bytes_max)
        return make_error(ErrorCode::out_of_range, shown + " has " + std::to_string(pattern.size()) +
                                                       " bytes, must be at most " +
                                                       std::to_string(limits::pattern_bytes_max));
    auto translated = pcre2_from_oniguruma(pattern);
    if (!translated) return make_error(translated.error().code, shown + ": " + translated.error().message);

    const Owned<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
    if (!context) return make_error(ErrorCode::out_of_memory, shown + ": no memory to compile it");
    pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
    pcre2_set_bsr(context.get(), PCRE2_BSR_UNICODE);
    int error = 0;
    Owned<pcre2_code> plain = compiled(*translated, 0, context.get(), error);
    if (!plain) return make_error(ErrorCode::unsupported, shown + " does not compile: " + pcre2_message(error));
    Owned<pcre2_code> watched = compiled(*translated, PCRE2_AUTO_CALLOUT, context.get(), error);
    if (!watched) return make_error(ErrorCode::unsupported, shown + " does not compile: " + pcre2_message(error));
    TokenizerRegex regex;
    regex.code_ = std::make_shared<const Code>(Code{std::move(plain), std::move(watched)});
    return regex;
}

TokenizerRegex::Finder::Finder(const TokenizerRegex& regex, size_t text_bytes, const std::stop_token& stop)
    : regex_(&regex), scratch_(std::make_shared<Scratch>()) {
    scratch_->stop = stop;
    scratch_->over_at_ns = thread_ns() + time_base_ns + time_per_byte_ns * static_cast<int64_t>(text_bytes);
    pcre2_match_context* const context = scratch_->context.get();
    if (context == nullptr) return;
    pcre2_set_heap_limit(context, heap_kib_max);
    pcre2_set_match_limit(context, window_steps_max);
    pcre2_set_callout(context, Scratch::on_item, scratch_.get());
}

/// A match that begins before `starts_end`, of which nothing at or behind `window_end` has been looked at; an error
/// where that would be needed.
int TokenizerRegex::Finder::run_window(std::string_view text, size_t start, size_t window_end,
                                       size_t starts_end) const {
    pcre2_set_offset_limit(scratch_->context.get(), starts_end - 1);
    const uint32_t partial = window_end < text.size() ? PCRE2_PARTIAL_HARD : 0;
    return pcre2_match(regex_->code_->plain.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), window_end, start,
                       PCRE2_NO_UTF_CHECK | partial, scratch_->match.get(), scratch_->context.get());
}

/// The same on the whole text, for as long as there is time.
int TokenizerRegex::Finder::run_watched(std::string_view text, size_t start, size_t starts_end) const {
    pcre2_match_context* const context = scratch_->context.get();
    if (!scratch_->stack) {
        scratch_->stack.reset(pcre2_jit_stack_create(jit_stack_bytes_min, jit_stack_bytes_max, nullptr));
        pcre2_jit_stack_assign(context, nullptr, scratch_->stack.get());
    }
    scratch_->position = start;
    pcre2_set_match_limit(context, UINT32_MAX);
    pcre2_set_offset_limit(context, starts_end - 1);
    const int found = pcre2_match(regex_->code_->watched.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                  start, PCRE2_NO_UTF_CHECK, scratch_->match.get(), context);
    pcre2_set_match_limit(context, window_steps_max);
    return found;
}

Result<bool> TokenizerRegex::Finder::match_at(std::string_view text, size_t start, ByteRange& match) {
    if (!scratch_->context || !scratch_->match)
        return make_error(ErrorCode::out_of_memory, "no memory to run a tokenizer's regex");
    for (;;) {
        const size_t window_end = character_at(text, start + window_bytes);
        const bool last = window_end == text.size();
        const size_t starts_end = last ? text.size() + 1 : character_at(text, start + window_bytes / 2);
        int found = run_window(text, start, window_end, starts_end);
        if (found == PCRE2_ERROR_PARTIAL || found == PCRE2_ERROR_MATCHLIMIT || found == PCRE2_ERROR_JIT_STACKLIMIT)
            found = run_watched(text, start, starts_end);
        const PCRE2_SIZE* range = pcre2_get_ovector_pointer(scratch_->match.get());
        const size_t starts = found >= 0 && range[0] >= start ? range[0] - start + 1 : starts_end - start;
        const bool over = found == PCRE2_ERROR_CALLOUT || scratch_->is_over(starts, starts_unwatched_max);
        if (over || (found < 0 && found != PCRE2_ERROR_NOMATCH))
            return make_error(ErrorCode::unsupported,
                              "a regex of the tokenizer takes too long or too much memory on this text" +
                                  (over ? std::string() : ": " + pcre2_message(found)));
        if (found >= 0) {
            match = {range[0], range[1]};
            return true;
        }
        if (last) return false;
        start = starts_end;
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
