#include <cstdio>

#include "cli/commands.hpp"
#include "cli/completion/command_tree.hpp"

namespace rondo::cli {

void add_completion(CLI::App& app, Action& run) {
    auto shell = std::make_shared<std::string>();
    CLI::App* const command = app.add_subcommand("completion", "a script that lets a shell complete rondo's words");
    command->add_option("shell", *shell, "whose script")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
    command->footer(
        "In this shell:  bash  source <(rondo completion bash)\n"
        "                zsh   source <(rondo completion zsh), after compinit\n"
        "                fish  rondo completion fish | source\n"
        "cmake --install puts them where bash, zsh and fish look by themselves.");
    command->callback([&app, shell, &run] {
        run = [&app, shell] {
            const CompletedCommand tree = command_tree(app);
            const std::string script = *shell == "bash"  ? bash_completion(tree)
                                       : *shell == "zsh" ? zsh_completion(tree)
                                                         : fish_completion(tree);
            std::fwrite(script.data(), 1, script.size(), stdout);
            return Status::ok();
        };
    });
}

}  // namespace rondo::cli
