#include "cli/chat/line_editor.hpp"

#include <histedit.h>

#include <clocale>
#include <cstdio>

#include "cli/model_options.hpp"

namespace rondo::cli {

namespace {

constexpr int history_lines_max = 1000;

char* prompt(EditLine*) {
    static char text[] = "> ";
    return text;
}

}  // namespace

/// libedit's editor. It reads Ctrl-C as a key: as a signal it would end the program or leave half a line behind. From
/// elsewhere the signal ends the program as usual, with the terminal set right again.
struct LineEditor::Terminal {
    Terminal() : editor(::el_init("rondo", stdin, stdout, stderr)), history(::history_init()) {
        HistEvent event;
        ::history(history, &event, H_SETSIZE, history_lines_max);
        ::el_set(editor, EL_CLIENTDATA, this);
        ::el_set(editor, EL_PROMPT, &prompt);
        ::el_set(editor, EL_EDITOR, "emacs");
        ::el_set(editor, EL_SIGNAL, 1);
        ::el_set(editor, EL_HIST, ::history, history);
        ::el_source(editor, nullptr);  // the user's ~/.editrc
        ::el_set(editor, EL_ADDFN, "rondo-interrupt", "clear the line, or leave", &interrupt);
        ::el_set(editor, EL_BIND, "^C", "rondo-interrupt", nullptr);
        // Ctrl-C is a key while a line is read; a character set here would be set back at each line, a flag is not.
        ::el_set(editor, EL_SETTY, "-d", "-isig", nullptr);
    }
    ~Terminal() {
        ::history_end(history);
        ::el_end(editor);
    }
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    static unsigned char interrupt(EditLine* editor, int) {
        Terminal* self = nullptr;
        ::el_get(editor, EL_CLIENTDATA, &self);
        const LineInfo* const line = ::el_line(editor);
        self->interrupted = true;
        self->was_empty = line->lastchar == line->buffer;
        return CC_NEWLINE;
    }

    /// Nothing at the end of the input, or when Ctrl-C was pressed twice.
    std::optional<std::string> next() {
        for (bool again = false;; again = true) {
            interrupted = false;
            int count = 0;
            const char* const typed = ::el_gets(editor, &count);
            if (!interrupted) return typed == nullptr || count <= 0 ? std::nullopt : keep({typed, size_t(count)});
            std::printf("^C\n");
            if (again && was_empty) return std::nullopt;
            if (was_empty) std::printf("Ctrl-C again leaves.\n");
        }
    }

    std::optional<std::string> keep(std::string line) {
        while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
        HistEvent event;
        if (!line.empty()) ::history(history, &event, H_ENTER, line.c_str());
        return line;
    }

    EditLine* const editor;
    History* const history;
    bool interrupted = false, was_empty = false;  // by the last Ctrl-C
};

LineEditor::LineEditor(bool terminal, size_t bytes_max) : bytes_max_(bytes_max) {
    if (!terminal) return;
    // Without it the editor drops all that is typed beyond ASCII. Models read UTF-8 whatever the user's locale is.
    if (std::setlocale(LC_CTYPE, "C.UTF-8") == nullptr) std::setlocale(LC_CTYPE, "");
    terminal_ = std::make_unique<Terminal>();
}

LineEditor::~LineEditor() = default;

Result<std::optional<std::string>> LineEditor::next() {
    std::optional<std::string> line;
    if (terminal_ != nullptr) {
        line = terminal_->next();
        if (!line) std::printf("\n");  // the shell's prompt begins a line
        return line;
    }
    RONDO_ASSIGN(line, read_line(bytes_max_));
    if (line && !line->empty() && line->back() == '\r') line->pop_back();
    return line;
}

}  // namespace rondo::cli
