// docs/commands.md has each option of each command, and none that is gone.

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/cli/rondo_process.hpp"

namespace rondo {
namespace {

class CommandsPage : public ::testing::Test {
protected:
    using Options = std::set<std::string>;
    struct Section {
        std::string heading;
        Options options;  // of its tables' first columns
    };

    CommandsPage() {
        static const std::regex row("\\| ([^|]*)\\|.*");
        std::ifstream file(std::string(RONDO_SOURCE_DIR) + "/docs/commands.md");
        EXPECT_TRUE(file);
        std::smatch first;
        for (std::string line; std::getline(file, line);) {
            if (line.starts_with("## ")) sections_.push_back({line.substr(3), {}});
            if (!sections_.empty() && std::regex_match(line, first, row))
                sections_.back().options.merge(options_in(first[1], "`(--[a-z][a-z-]*)"));
        }
    }

    static Options options_in(const std::string& text, const std::string& wanted) {
        const std::regex option(wanted);
        Options found;
        for (std::sregex_iterator at(text.begin(), text.end(), option), end; at != end; ++at)
            found.insert((*at)[1].str());
        return found;
    }

    /// The help of each command that has no commands of its own, by its words.
    static std::map<std::string, std::string> helps(const std::vector<std::string>& words = {}) {
        std::vector<std::string> asked{"help"};
        asked.insert(asked.end(), words.begin(), words.end());
        const std::string help = testing::run_rondo(asked).out;
        std::map<std::string, std::string> found;
        const size_t list = help.find("\nSubcommands:\n");
        if (list == std::string::npos) {
            std::string name = "rondo";
            for (const std::string& word : words) name += " " + word;
            return {{name, help}};
        }
        std::istringstream lines(help.substr(list + 1));
        static const std::regex named("  ([a-z_]+) .*");
        std::smatch command;
        for (std::string line; std::getline(lines, line);) {
            if (!std::regex_match(line, command, named)) continue;
            std::vector<std::string> inner = words;
            inner.push_back(command[1]);
            found.merge(helps(inner));
        }
        return found;
    }

    static Options options_of(const std::string& help) {
        Options options = options_in(help, "\n +(?:-[a-z],)?(--[a-z][a-z-]*)");
        options.erase("--help");
        return options;
    }

    const Section* section_of(const std::string& command) const {
        const auto found = std::ranges::find_if(
            sections_, [&](const Section& one) { return one.heading.find("`" + command + "`") != std::string::npos; });
        return found == sections_.end() ? nullptr : &*found;
    }

    std::vector<Section> sections_;
};

TEST_F(CommandsPage, HasEachOptionOfEachCommand) {
    ASSERT_GE(sections_.size(), 2U);
    const Section& shared = sections_[0];
    const auto commands = helps();
    EXPECT_GE(commands.size(), 14U);
    std::map<std::string, Options> known;  // by heading
    for (const auto& [command, help] : commands) {
        const Section* const own = section_of(command);
        ASSERT_NE(own, nullptr) << command;
        for (const std::string& option : options_of(help)) {
            EXPECT_TRUE(own->options.contains(option) || shared.options.contains(option)) << command << " " << option;
            known[own->heading].insert(option);
            known[shared.heading].insert(option);
        }
    }
    for (const Section& section : sections_)
        for (const std::string& option : section.options)
            EXPECT_TRUE(known[section.heading].contains(option)) << section.heading << ": " << option << " is gone";
}

}  // namespace
}  // namespace rondo
