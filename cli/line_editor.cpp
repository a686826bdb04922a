#include "cli/line_editor.hpp"

#include <editline/readline.h>

#include <clocale>
#include <cstdlib>

#include "cli/model_options.hpp"

namespace rondo::cli {

LineEditor::LineEditor(bool terminal, size_t bytes_max) : terminal_(terminal), bytes_max_(bytes_max) {
    // Without it the editor drops all that is typed beyond ASCII. Models read UTF-8 whatever the user's locale is.
    if (terminal && std::setlocale(LC_CTYPE, "C.UTF-8") == nullptr) std::setlocale(LC_CTYPE, "");
}

Result<std::optional<std::string>> LineEditor::next(const char* prompt) {
    if (terminal_) {
        char* const typed = readline(prompt);
        if (typed == nullptr) return std::optional<std::string>();
        std::string line = typed;
        std::free(typed);
        if (!line.empty()) add_history(line.c_str());
        return std::optional<std::string>(std::move(line));
    }
    RONDO_ASSIGN(std::optional<std::string> line, read_line(bytes_max_));
    if (line && !line->empty() && line->back() == '\r') line->pop_back();
    return line;
}

}  // namespace rondo::cli
