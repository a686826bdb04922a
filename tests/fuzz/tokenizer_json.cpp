#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "model/text/tokenizer.hpp"
#include "model/text/unicode.hpp"

// A tokenizer.json of any bytes is refused or works: no crash, ids inside the vocabulary, no special token from plain
// text, valid UTF-8 back.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto tokenizer = rondo::tokenizer_from_json({reinterpret_cast<const char*>(data), size}, "fuzz");
    if (!tokenizer) {
        if (tokenizer.error().message.find('\n') != std::string::npos) std::abort();
        return 0;
    }
    for (const std::string_view text :
         {"", "Hello  world, it's 12345\r\n\n x", " <s>\u2581e\u0301 日本 🙂</s>", "aaaaaaaaaaaaaaaaaaaaaaaaaab"}) {
        for (const bool special : {false, true}) {
            const auto ids = (*tokenizer)->encode(text, special);
            if (!ids) continue;
            for (const int32_t id : *ids)
                if (id < 0 || id >= (*tokenizer)->vocabulary()) std::abort();
            rondo::Detokenizer detokenizer(**tokenizer, special);
            std::string streamed;
            for (const int32_t id : (*tokenizer)->with_template_tokens(*ids)) streamed += detokenizer.push(id);
            streamed += detokenizer.finish();
            if (!rondo::unicode::is_valid(streamed)) std::abort();
            if (streamed != (*tokenizer)->decode((*tokenizer)->with_template_tokens(*ids), special)) std::abort();
        }
    }
    return 0;
}
