#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "model/tools/called_tools.hpp"
#include "model/tools/written_calls.hpp"

/// Any bytes as a list of tools, and behind a zero byte as an answer, in two styles: both end, within
/// config/limits.hpp, and an answer in pieces comes to the same as a whole one.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const rondo::CallStyle styles[] = {{"<tool_call>\n{\"name\": \"", "\", \"arguments\": ", "",
                                               "}\n</tool_call>\n<tool_call>\n{\"name\": \"", "}\n</tool_call>"},
                                              {"{\"name\": \"", "\", \"parameters\": ", ", \"id\": \"", "", "\"}"}};
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const size_t list_end = input.find('\0');
    const std::string_view answer = list_end == input.npos ? input : input.substr(list_end + 1);
    for (const rondo::CallStyle& style : styles) {
        (void)rondo::ToolUse::make(input.substr(0, list_end), {}, &style, "fuzz");
        (void)rondo::written_calls(rondo::answer_message(std::string(answer), &style), &style);
        std::string texts[2];
        for (const size_t step : {size_t{1}, answer.size() + 1}) {
            rondo::CalledTools calls(style, [] { return std::string("id"); });
            std::string& all = texts[step == 1 ? 0 : 1];
            std::string called;
            const auto add = [&](rondo::CalledTools::Parts parts) {
                all += parts.text;
                for (const auto& piece : parts.calls)
                    called += (piece.id.empty() ? "" : '\n' + piece.id + ' ' + piece.name + ' ') + piece.arguments;
            };
            for (size_t at = 0; at < answer.size(); at += step) add(calls.push(answer.substr(at, step)));
            add(calls.finish());
            all += called;
        }
        if (texts[0] != texts[1]) std::abort();
    }
    return 0;
}
