#pragma once

#include <string>
#include <string_view>

namespace rondo::cli::eval {

/// Markdown of one line a paragraph, wrapped at 120 characters as every page of the project is. A list's item goes on
/// two spaces in. Tables and headings stay one line, and so does a word that is wider.
std::string wrapped_markdown(std::string_view text);

}  // namespace rondo::cli::eval
