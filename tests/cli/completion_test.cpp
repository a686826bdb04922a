#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/cli/rondo_process.hpp"
#include "tests/cli/rondo_terminal.hpp"

namespace rondo {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::expect_error;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using testing::RondoTerminal;
using testing::run_rondo;
using Words = std::vector<std::string>;

bool is_there(const std::string& program) {
    return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

/// A folder with a shell's script and a few files to complete.
class Folder {
public:
    explicit Folder(const std::string& shell) {
        char name[] = "/tmp/rondo_completion_XXXXXX";
        path_ = ::mkdtemp(name);
        const auto printed = run_rondo({"completion", shell});
        EXPECT_EQ(printed.status, 0) << printed.err;
        write("script", printed.out);
        write("pipeline.yaml", "");
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    void write(const std::string& name, const std::string& text) const { std::ofstream(path_ / name) << text; }
    std::string file(const std::string& name) const { return path_ / name; }

    /// What a command printed, by lines; it runs in the folder.
    Words lines_of(const std::string& command) const {
        const std::string all = "cd " + path_.string() + " && PATH=" RONDO_BINARY_DIR "/bin:$PATH " + command + " 2>&1";
        std::FILE* const pipe = ::popen(all.c_str(), "r");
        std::string text;
        char piece[4096];
        for (size_t got = 0; (got = std::fread(piece, 1, sizeof piece, pipe)) > 0;) text.append(piece, got);
        EXPECT_EQ(::pclose(pipe), 0) << text;
        Words lines;
        std::istringstream in(text);
        for (std::string line; std::getline(in, line);) lines.push_back(line);
        return lines;
    }

private:
    std::filesystem::path path_;
};

/// What bash would offer where these words stand, the last of them half typed.
Words offered_by_bash(const Words& words) {
    const Folder folder("bash");
    std::string script = "source ./script\nCOMP_WORDS=(rondo";
    for (const std::string& word : words) script += " '" + word + "'";
    script += ")\nCOMP_CWORD=" + std::to_string(words.size()) +
              "\n_rondo rondo\n[[ ${#COMPREPLY[@]} == 0 ]] || printf '%s\\n' \"${COMPREPLY[@]}\"\n";
    folder.write("ask", script);
    return folder.lines_of("bash --noprofile --norc ./ask");
}

Words offered_by_fish(const std::string& line) {
    const Folder folder("fish");
    Words words = folder.lines_of("HOME=. fish --no-config -c 'source ./script; complete -C \"" + line + "\"'");
    for (std::string& word : words) word.resize(std::min(word.find('\t'), word.size()));
    return words;
}

TEST(Completion, BashOffersCommandsOptionsValuesAndFiles) {
    EXPECT_THAT(offered_by_bash({""}), IsSupersetOf({"chat", "serve", "bench", "completion", "help", "--version"}));
    EXPECT_THAT(offered_by_bash({"ch"}), ElementsAre("chat"));
    EXPECT_THAT(offered_by_bash({"chat", "--api"}), ElementsAre("--api-key-file"));
    EXPECT_THAT(offered_by_bash({"chat", "--kv", ""}), ElementsAre("bf16", "f32", "int8"));
    EXPECT_THAT(offered_by_bash({"chat", "--kv", "=", "f"}), ElementsAre("f32"));
    EXPECT_THAT(offered_by_bash({"generate", "--method", "loop"}), ElementsAre("loopserve"));
    EXPECT_THAT(offered_by_bash({"serve", "--config", "pipe"}), ElementsAre("pipeline.yaml"));
    EXPECT_THAT(offered_by_bash({"chat", "--system", ""}), IsEmpty());
    EXPECT_THAT(offered_by_bash({"bench", ""}), IsSupersetOf({"prefill", "decode", "multi_turn"}));
    EXPECT_THAT(offered_by_bash({"bench", "decode", "--ba"}), ElementsAre("--batch"));
    EXPECT_THAT(offered_by_bash({"inspect", "model", "pipe"}), ElementsAre("pipeline.yaml"));
    EXPECT_THAT(offered_by_bash({"inspect", "store", "--key"}), ElementsAre("--key-file"));
    EXPECT_THAT(offered_by_bash({"inspect", "store", "pipe"}), ElementsAre("pipeline.yaml"));
    EXPECT_THAT(offered_by_bash({"completion", ""}), IsSupersetOf({"bash", "zsh", "fish"}));
    EXPECT_THAT(offered_by_bash({"help", "ser"}), ElementsAre("serve"));
    EXPECT_THAT(offered_by_bash({"help", "bench", "dec"}), ElementsAre("decode"));
}

TEST(Completion, FishOffersCommandsOptionsValuesAndFiles) {
    if (!is_there("fish")) GTEST_SKIP() << "no fish here: tools/install_packages.sh shells installs it";
    EXPECT_THAT(offered_by_fish("rondo "), AllOf(IsSupersetOf({"chat", "serve", "help"}), Not(Contains("decode"))));
    EXPECT_THAT(offered_by_fish("rondo ch"), ElementsAre("chat"));
    EXPECT_THAT(offered_by_fish("rondo chat --api"), ElementsAre("--api-key-file"));
    EXPECT_THAT(offered_by_fish("rondo chat --kv "), ElementsAre("bf16", "f32", "int8"));
    EXPECT_THAT(offered_by_fish("rondo chat --kv=f"), Contains(HasSubstr("f32")));
    EXPECT_THAT(offered_by_fish("rondo generate --method loop"), ElementsAre("loopserve"));
    EXPECT_THAT(offered_by_fish("rondo serve --config pipe"), ElementsAre("pipeline.yaml"));
    EXPECT_THAT(offered_by_fish("rondo bench "), AllOf(Contains("prefill"), Contains("decode"), Not(Contains("chat"))));
    EXPECT_THAT(offered_by_fish("rondo bench decode --ba"), ElementsAre("--batch"));
    EXPECT_THAT(offered_by_fish("rondo inspect model pipe"), ElementsAre("pipeline.yaml"));
    EXPECT_THAT(offered_by_fish("rondo help ser"), ElementsAre("serve"));
    EXPECT_THAT(offered_by_fish("rondo help bench dec"), ElementsAre("decode"));
    EXPECT_THAT(offered_by_fish("rondo chat "), Not(Contains("serve")));
}

/// zsh completes on a terminal alone: the keys are pressed there, and the line is printed as it then is.
TEST(Completion, ZshCompletesCommandsOptionsValuesAndFiles) {
    if (!is_there("zsh")) GTEST_SKIP() << "no zsh here: tools/install_packages.sh shells installs it";
    const Folder folder("zsh");
    RondoTerminal zsh("/usr/bin/env", {"-C", folder.file(""), "zsh", "-f", "-i"});
    zsh.type("PS1='ready> '; unsetopt zle_bracketed_paste; autoload -Uz compinit; compinit -D -u; source ./script\n");
    zsh.type("show() { zle -I; print -r -- \"<$BUFFER>\"; BUFFER= }; zle -N show; bindkey '^X' show; print set''up\n");
    zsh.until("setup");
    for (const auto& [typed, completed] : {std::pair("rondo ch", "rondo chat "),
                                           {"rondo chat --api", "rondo chat --api-key-file "},
                                           {"rondo chat --kv f", "rondo chat --kv f32 "},
                                           {"rondo generate --method loop", "rondo generate --method loopserve "},
                                           {"rondo serve --config pipe", "rondo serve --config pipeline.yaml "},
                                           {"rondo bench dec", "rondo bench decode "},
                                           {"rondo bench decode --bat", "rondo bench decode --batch "},
                                           {"rondo inspect model pipe", "rondo inspect model pipeline.yaml "},
                                           {"rondo completion fi", "rondo completion fish "},
                                           {"rondo help ser", "rondo help serve "},
                                           {"rondo help bench dec", "rondo help bench decode "}}) {
        zsh.type(std::string(typed) + "\t" + RondoTerminal::ctrl('X'));
        zsh.until("<");
        EXPECT_EQ(zsh.until(">"), std::string(completed) + ">");
    }
    zsh.type("exit\n");
    EXPECT_EQ(zsh.end(), 0);
}

/// As a shell finds it in one of its own folders: the script's name is then the function's.
TEST(Completion, ZshFindsTheInstalledScript) {
    if (!is_there("zsh")) GTEST_SKIP() << "no zsh here: tools/install_packages.sh shells installs it";
    const Folder folder("zsh");
    std::filesystem::rename(folder.file("script"), folder.file("_rondo"));
    EXPECT_THAT(folder.lines_of("zsh -f -c 'fpath=($PWD $fpath); autoload -Uz compinit; compinit -D -u; "
                                "print $_comps[rondo]'"),
                ElementsAre("_rondo"));
}

TEST(Completion, AnotherShellIsRefused) {
    expect_error(run_rondo({"completion", "tcsh"}), 2, "tcsh not in {bash,zsh,fish}");
    expect_error(run_rondo({"completion"}), 2, "shell is required");
}

}  // namespace
}  // namespace rondo
