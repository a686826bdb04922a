#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/measure/eval/report.hpp"

namespace rondo::cli::eval {

/// One comparison of the page about all methods: what is run, and what it is to show.
struct PageSection {
    std::string title, text;
    std::string methods, budgets, against;
    int dialogues_max = 0;  ///< of those that the page asks for, where each method computes its own prompts; 0: all
};
/// What `rondo eval --report` runs, in order: every method that pipelines can have is in one of them.
const std::vector<PageSection>& page_sections();
/// Sections for the methods that none of these compares: one for answers and one for prompts, where there are any.
std::vector<PageSection> sections_of_others(std::span<const PageSection> sections);

/// The methods that none of the sections compares, in the order of their rows.
std::vector<std::string_view> methods_beside(std::span<const PageSection> sections);

/// A section's answers.
struct PageAnswers {
    std::vector<EvalRecord> records;
    std::vector<EvalTable> tables;
};

/// The page, as Markdown: docs/methods.md is this of the report's seeds. `answers` are by section.
std::string methods_page(const EvalFacts& facts, const std::vector<PageAnswers>& answers);

}  // namespace rondo::cli::eval
