#pragma once

#include <string_view>

namespace rondo {

/// No control character, line break or mark that changes how the text around it is shown.
bool is_printable(char32_t c);

/// Whether a client may call a conversation so: 1 to 256 bytes of UTF-8 without control characters, line breaks or
/// characters that change how text around them is shown. Such an id is still no file name.
bool is_conversation_id(std::string_view text);

}  // namespace rondo
