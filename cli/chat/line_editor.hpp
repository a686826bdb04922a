#pragma once

#include <memory>
#include <optional>
#include <string>

#include "config/result.hpp"

namespace rondo::cli {

/// Lines of standard input: edited and with a history on a terminal, as they come from a pipe. On a terminal Ctrl-C
/// clears the line, and a second one leaves, as Ctrl-D does. One at a time.
class LineEditor {
public:
    LineEditor(bool terminal, size_t bytes_max);
    ~LineEditor();
    LineEditor(const LineEditor&) = delete;
    LineEditor& operator=(const LineEditor&) = delete;

    /// The next line without its end; nothing at the end of the input.
    Result<std::optional<std::string>> next();

private:
    struct Terminal;

    std::unique_ptr<Terminal> terminal_;  ///< null: a pipe
    size_t bytes_max_;
};

}  // namespace rondo::cli
