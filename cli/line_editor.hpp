#pragma once

#include <optional>
#include <string>

#include "config/result.hpp"

namespace rondo::cli {

/// Lines of standard input: edited and with a history on a terminal, as they come from a pipe.
class LineEditor {
public:
    LineEditor(bool terminal, size_t bytes_max);
    /// The next line without its end; nothing at the end of the input.
    Result<std::optional<std::string>> next(const char* prompt);

private:
    bool terminal_;
    size_t bytes_max_;
};

}  // namespace rondo::cli
