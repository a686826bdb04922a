#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace rondo::testing {

/// build/bin/rondo, or another program, on a terminal of its own, as a person has it before them.
class RondoTerminal {
public:
    explicit RondoTerminal(const std::vector<std::string>& arguments);
    RondoTerminal(std::string program, const std::vector<std::string>& arguments);
    /// Ends the program by force if it has not ended.
    ~RondoTerminal();
    RondoTerminal(const RondoTerminal&) = delete;
    RondoTerminal& operator=(const RondoTerminal&) = delete;

    pid_t process() const { return process_; }
    /// Presses keys: "\n" is Enter, `ctrl('C')` what its name says.
    void type(const std::string& keys);
    static std::string ctrl(char key) { return {static_cast<char>(key & 0x1f)}; }

    /// What was printed up to these words, and the words; later text is kept for the next call. Fails without them.
    std::string until(const std::string& words);
    /// Waits for one thing more to be printed.
    void more();
    /// Types the line, and gives what the chat printed before its next prompt, with \n where the terminal has \r\n.
    std::string say(const std::string& line);
    std::string until_prompt();
    /// Whether the terminal is as a shell expects it: whole lines, shown as they are typed.
    bool is_cooked() const;

    /// Waits until the program has ended: its exit status, or 128 + signal.
    int end();

private:
    /// The prompt is there a moment before the editor is: what is typed in between is shown twice.
    void wait_for_editor();
    bool read_more();

    pid_t process_ = -1;
    int screen_ = -1;
    std::string printed_;  ///< and not yet returned
};

}  // namespace rondo::testing
