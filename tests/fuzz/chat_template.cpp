#include "model/text/chat_template.hpp"

#include <cstdint>

/// Any bytes as a template: parsing and rendering end with a text or an error, within the bounds of config/limits.hpp.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto program = rondo::ChatTemplate::parse({reinterpret_cast<const char*>(data), size}, "fuzz");
    if (!program) return 0;
    rondo::ChatTemplateInput input;
    input.messages = {{"system", "Be brief."}, {"user", " Hi\n"}, {"assistant", "<think>\n?\n</think>\n\nHe\u0301llo"}};
    input.bos_token = "<s>";
    input.extra_json = R"({"tools": [{"name": "f", "n": 1.5, "deep": [[1, [2]], null]}], "enable_thinking": false})";
    (void)program->render(input);
    return 0;
}
