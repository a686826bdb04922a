#include <algorithm>

#include "cli/measure/eval/methods_page.hpp"
#include "config/method_names.hpp"

namespace rondo::cli::eval {

namespace {

/// Comparisons with a question of their own. A method that none of them names is in one of `sections_of_others`.
std::vector<PageSection> sections_with_questions() {
    return {
        {"Answers: which keys a step attends to",
         "Prompts are dense. Every method has the same number of keys, B of the prompt's; "
         "in rows with `match=bytes` it has those that cost as many bytes of KV a step as the rival reads. "
         "LoopServe's decoding (`progressive`) gives nothing up: it holds all KV and the copies, "
         "so with as many bytes held every evicting method is dense. "
         "Quest's first two layers are dense, and count in its density.",
         "dense,progressive@pooled,progressive@printed,"
         "snapkv@printed,snapkv@pooled,snapkv@pooled:match=bytes,"
         "adakv@printed,adakv@pooled,adakv@pooled:match=bytes,"
         "h2o@printed,h2o@pooled,quest@printed,streaming_llm@printed,recent,random,oracle,no_history",
         "20,40", "progressive@pooled"},
        {"Lag: a choice that serves late",
         "`progressive` with the interval of a pipeline file (chosen again every 16 tokens, by all 16 queries), "
         "from the first token on. With lag L a choice serves L tokens after the queries it was made by, "
         "and before the first one serves, everything is attended to: "
         "of answers this short a long lag leaves nothing but dense steps, so read the chosen mass. "
         "Speed at the same settings: docs/performance.md.",
         "dense,progressive@pooled:cold_tokens=0:reselect_every=16:observe=16:lag_steps=0,"
         "progressive@pooled:cold_tokens=0:reselect_every=16:observe=16:lag_steps=1,"
         "progressive@pooled:cold_tokens=0:reselect_every=16:observe=16:lag_steps=4,"
         "progressive@pooled:cold_tokens=0:reselect_every=16:observe=16:lag_steps=15",
         "20", "progressive@pooled:cold_tokens=0:reselect_every=16:observe=16:lag_steps=0"},
        {"Prompts: which entries are computed",
         "Answers are dense: a preset's budget of 1024 keys is more than these dialogues have. "
         "Lines are chosen for every prompt here (min_tokens 0; a pipeline file has 512). "
         "The preset looks at all rows of a chunk of up to 256, "
         "and its alpha is of what the first 4 keys and a row's own block leave. "
         "The second row is LoopServe as printed, the next ones lie between the two and beyond: "
         "what each addition does. Baselines that are scaled to a density have the preset's.",
         "dense,loopserve@preset,loopserve@preset:alpha=0.955:sample_rows=64:first_keys=0:near_keys=0,"
         "loopserve@preset:alpha=0.955:sample_rows=16:first_keys=0:near_keys=0,"
         "loopserve@preset:alpha=0.955:first_keys=0:near_keys=0,loopserve@preset:first_keys=0:near_keys=0,"
         "loopserve@preset:first_keys=0:near_keys=0:blocks=2,loopserve@preset:first_keys=0:near_keys=0:blocks=4,"
         "loopserve@preset:blocks=2,loopserve@preset:sample_rows=16,"
         "a_shape:density=0.4,tri_shape:density=0.4,minference:density=0.4,flexprefill",
         "20", "loopserve@preset"},
        {"Rounds: which of them the layers above the watershed attend to",
         "100 dialogues a place, for every method computes its own prompts. The first block of all keys and the round "
         "of the question always stay; of the other earlier rounds those "
         "that a method chooses. Layers up to the watershed, the model's fifth of ten, attend to all. "
         "`rounds' mass` is the attention to earlier rounds that the chosen ones draw there. "
         "With `method=loopserve` prompts attend to lines too, by the preset's settings. "
         "With `watershed_layer` another layer says which rounds stay: what the watershed is worth. "
         "`rondo` chooses rounds, lines of the prompt, and keys of the answer, B of the prompt's, all among what "
         "stays.",
         "dense,top_rounds,top_rounds:share=0.2,top_rounds:share=0.4,fixed_rounds,adaptive_rounds,"
         "top_rounds@preset:method=loopserve,rondo,progressive@pooled,top_rounds:watershed_layer=3,top_rounds:"
         "watershed_layer=4,"
         "top_rounds:watershed_layer=6,top_rounds:watershed_layer=7,recent_rounds,recent_rounds:share=0.4",
         "20", "top_rounds", 100},
    };
}

/// With as many keys as the others: as its authors print it, and pooled where it has scores.
std::string contestants_for_answers(const MethodRow& row) {
    const std::string name(row.name);
    return name + "@printed" + (row.pooled.empty() ? "" : "," + name + "@pooled");
}

std::string contestants_for_prompts(const MethodRow& row) {
    return std::string(row.name) + (heeds(row, "density") ? ":density=0.4" : "");
}

}  // namespace

std::vector<PageSection> sections_of_others(std::span<const PageSection> sections) {
    const PageSection answers = {"Answers: methods that no section above names",
                                 "Prompts are dense. Every method has the same number of keys, B of the prompt's.",
                                 "dense,progressive@pooled", "20,40", "progressive@pooled"};
    const PageSection prompts = {"Prompts: methods that no section above names",
                                 "Answers are dense. Lines are chosen for every prompt here (min_tokens 0). "
                                 "Methods that are scaled to a density have 0.4.",
                                 "dense,loopserve@preset", "20", "loopserve@preset"};
    std::vector<PageSection> all(sections.begin(), sections.end());
    const PageSection rounds = {"Rounds: methods that no section above names",
                                "Layers up to the watershed attend to all rounds.", "dense,top_rounds", "20",
                                "top_rounds"};
    all.insert(all.end(), {answers, prompts, rounds});
    const std::vector<std::string_view> others = methods_beside(all);
    std::vector<PageSection> made;
    const auto add = [&](PageSection section, MethodSlot phase, auto&& contestants_for) {
        const size_t rivals = section.methods.size();
        const auto names = names_of_methods(phase);
        for (const std::string_view name : others) {
            if (std::ranges::find(names, name) != names.end())
                section.methods += "," + contestants_for(*find_row(name));
        }
        if (section.methods.size() > rivals) made.push_back(std::move(section));
    };
    add(answers, MethodSlot::decode, contestants_for_answers);
    add(prompts, MethodSlot::prefill, contestants_for_prompts);
    add(rounds, MethodSlot::rounds, [](const MethodRow& row) { return std::string(row.name); });
    return made;
}

const std::vector<PageSection>& page_sections() {
    static const std::vector<PageSection> sections = [] {
        std::vector<PageSection> all = sections_with_questions();
        for (PageSection& others : sections_of_others(all)) all.push_back(std::move(others));
        return all;
    }();
    return sections;
}

}  // namespace rondo::cli::eval
