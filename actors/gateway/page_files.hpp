#pragma once

#include <string>
#include <string_view>

namespace rondo {

/// A file of the chat page, as it was when this was built.
struct PageFile {
    const char* name;
    const char* type;
    std::string_view content;
};

/// nullptr when there is none of that name.
const PageFile* page_file(std::string_view name);

}  // namespace rondo
