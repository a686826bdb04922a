#include "model/text/chat_template.hpp"

#include <cstdint>

#include "model/tools/call_style.hpp"

/// Any bytes as a template: parsing and rendering end with a text or an error, within the bounds of config/limits.hpp.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto program = rondo::ChatTemplate::parse({reinterpret_cast<const char*>(data), size}, "fuzz");
    if (!program) return 0;
    rondo::ChatTemplateInput input;
    input.messages = {{"system", "Be brief."}, {"user", " Hi\n"}, {"assistant", "<think>\n?\n</think>\n\nHe\u0301llo"}};
    input.bos_token = "<s>";
    input.extra_json = R"({"enable_thinking": false})";
    input.tools_json = R"([{"name": "f", "n": 1.5, "deep": [[1, [2]], null]}])";
    (void)program->render(input);
    (void)rondo::find_call_style(*program);
    return 0;
}
