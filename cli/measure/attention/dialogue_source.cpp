#include "cli/measure/attention/dialogue_source.hpp"

#include <filesystem>

#include "cli/measure/attention/dialogue_file.hpp"
#include "cli/measure/eval/option_list.hpp"
#include "cli/measure/eval/roundtalk.hpp"
#include "cli/model_options.hpp"

namespace rondo::cli::attention {

namespace {

Dialogue dialogue_of(const std::vector<eval::DialogueRound>& rounds, std::string name) {
    Dialogue dialogue;
    dialogue.name = std::move(name);
    for (const eval::DialogueRound& round : rounds) {
        dialogue.messages.push_back({"user", round.user});
        dialogue.messages.push_back({"assistant", round.answer});
    }
    for (const size_t round : rounds.back().evidence) {
        if (round + 1 < rounds.size()) dialogue.evidence.push_back(round);
    }
    return dialogue;
}

}  // namespace

eval::SeedUse DialogueSource::use() const {
    return seeds == eval::seed_use_names[0] ? eval::SeedUse::development : eval::SeedUse::report;
}

Result<std::vector<Dialogue>> DialogueSource::open() const {
    if (file.empty()) return make();
    RONDO_ASSIGN(const std::string text, read_file(file, dialogue_file_bytes_max));
    return parse_dialogues(text, file);
}

Result<std::vector<Dialogue>> DialogueSource::make() const {
    RONDO_ASSIGN(const auto asked, eval::parse_list("--task", tasks, &eval::parse_asked));
    RONDO_ASSIGN(const auto asked_at, eval::parse_list("--places", places, &eval::parse_place));
    const size_t each_seed = asked.size() * asked_at.size(), all = static_cast<size_t>(count);
    RONDO_TRY(eval::check_seeds(use(), first_seed(), (all + each_seed - 1) / each_seed));
    std::vector<Dialogue> dialogues;
    for (size_t i = 0; i < all; ++i) {
        eval::DialogueOptions how;
        how.rounds = rounds;
        const size_t variant = i % each_seed;
        how.place = asked_at[variant % asked_at.size()];
        const auto& task = asked[variant / asked_at.size()];
        if (task) how.tasks = {*task};
        const uint64_t seed_of_this = first_seed() + i / each_seed;
        RONDO_ASSIGN(const auto made, eval::make_dialogue(seed_of_this, how));
        const std::string asks = task ? std::string(to_string(*task)) : std::string(eval::mix_name);
        dialogues.push_back(dialogue_of(
            made, "seed " + std::to_string(seed_of_this) + ", " + asks + ", " + std::string(to_string(*how.place))));
    }
    return dialogues;
}

std::string DialogueSource::words() const {
    if (!file.empty()) return "dialogues of " + std::filesystem::path(file).filename().string();
    return "roundtalk, " + tasks + ", question at " + places + ", rounds: " + std::to_string(rounds) + ", seeds of " +
           seeds + " from " + std::to_string(first_seed()) + " on";
}

}  // namespace rondo::cli::attention
