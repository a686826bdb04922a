#include "cli/measure/eval/roundtalk_world.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "cli/measure/eval/roundtalk_words.hpp"

namespace rondo::cli::eval {

namespace {

const words::Wording& wording(FactKind kind) {
    return words::wordings[static_cast<size_t>(kind)];
}

std::string joined(std::string_view before, const std::string& subject, std::string_view between,
                   const std::string& value) {
    return std::string(before) + subject + std::string(between) + value + ".";
}

std::string ask(FactKind kind, const std::string& subject) {
    return std::string(wording(kind).ask_before) + subject + std::string(wording(kind).ask_after);
}

std::string answer(const Fact& fact) {
    const words::Wording& with = wording(fact.kind);
    return joined(with.answer_before, fact.subject, with.tell_between, fact.value);
}

}  // namespace

std::string tell(const Fact& fact) {
    const words::Wording& with = wording(fact.kind);
    return joined(with.tell_before, fact.subject, with.tell_between, fact.value);
}

std::string World::draw_name() {
    std::string name;
    for (int syllable = 0; syllable < 2; ++syllable) {
        name += random.choice(words::consonants);
        name += random.choice(words::vowels);
    }
    if (random.random() < 0.5) name += random.choice(words::consonants);
    name[0] = static_cast<char>(name[0] - 'a' + 'A');
    return name;
}

std::string World::draw_code() {
    std::string code;
    for (int digit = 0; digit < 4; ++digit) code += random.choice(words::digits);
    return code;
}

std::string World::draw_object() {
    std::string object(random.choice(words::adjectives));
    object += ' ';
    return object += random.choice(words::nouns);
}

const std::string& World::new_person() {
    std::string name = draw_name();
    while (std::ranges::find(people_, name) != people_.end()) name = draw_name();
    return people_.emplace_back(std::move(name));
}

Fact World::draw_fact(FactKind kind) {
    Fact fact{kind, {}, {}, {}};
    if (kind == FactKind::code) {
        fact.subject = draw_object();
        fact.value = draw_code();
        return fact;
    }
    const bool known = !people_.empty() && random.random() < 0.3;
    fact.subject = known ? random.choice(people_) : new_person();
    const std::string_view home = random.choice(words::cities);
    const std::string_view thing = random.choice(words::things);
    const std::string_view day = random.choice(words::days);
    const std::string pet = draw_name();
    fact.value = kind == FactKind::home ? home : kind == FactKind::likes ? thing : kind == FactKind::meet ? day : pet;
    return fact;
}

std::optional<size_t> World::find(FactKind kind, const std::string& subject) const {
    const auto found = known_.find({kind, subject});
    if (found == known_.end()) return std::nullopt;
    return found->second;
}

void World::add_fact(size_t current) {
    constexpr std::array<double, 5> weights = {5, 3, 2, 2, 2};
    constexpr int tries = 50;
    const auto kind = static_cast<FactKind>(random.weighted(weights));
    for (int i = 0; i < tries; ++i) {
        Fact fact = draw_fact(kind);
        if (!known_.try_emplace({kind, fact.subject}, facts.size()).second) continue;
        fact.told.round = current;
        facts.push_back(std::move(fact));
        return;
    }
}

std::optional<size_t> World::correct_one(size_t current, size_t known) {
    if (facts.empty() || random.random() >= 0.12) return std::nullopt;
    const size_t chosen = random.below(static_cast<uint32_t>(facts.size()));
    Fact& fact = facts[chosen];
    if (chosen >= known || fact.kind == FactKind::likes || fact.kind == FactKind::pet) return std::nullopt;
    const std::string code = draw_code();
    const std::string_view home = random.choice(words::cities);
    const std::string_view day = random.choice(words::days);
    fact.value = fact.kind == FactKind::code ? code : fact.kind == FactKind::home ? home : day;
    fact.told.round = current;
    return chosen;
}

Question World::ask_about(Task task, const std::vector<size_t>& wanted) {
    size_t chosen = 0;
    if (wanted.empty()) {
        chosen = random.below(static_cast<uint32_t>(facts.size()));
    } else {
        chosen = random.choice(wanted);
    }
    const Fact& fact = facts[chosen];
    return {task, ask(fact.kind, fact.subject), answer(fact), {fact.told.round}, {chosen}};
}

Question World::ask_for_earlier(size_t current) {
    std::vector<size_t> wanted;
    for (size_t i = 0; i < facts.size(); ++i) {
        if (facts[i].told.round < current) wanted.push_back(i);
    }
    return ask_about(Task::recall, wanted);
}

Question World::ask_for_present(size_t current) {
    std::vector<size_t> wanted;
    for (size_t i = 0; i < facts.size(); ++i) {
        if (facts[i].told.round == current) wanted.push_back(i);
    }
    return ask_about(Task::local, wanted);
}

Question World::ask_for_list() {
    constexpr std::array<size_t, 4> last_counts = {2, 3, 4, 6};
    constexpr std::array<size_t, 3> first_counts = {2, 3, 4};
    const bool from_end = random.random() < 0.5;
    const size_t wanted = from_end ? random.choice(last_counts) : random.choice(first_counts);
    const size_t count = std::min(wanted, facts.size());
    const size_t first = from_end ? facts.size() - count : 0;
    const char* end = first == 0 && count < facts.size() ? "first" : "last";

    Question question{Task::list, {}, {}, {}, std::vector<size_t>(count)};
    question.text = std::string("Repeat the ") + end + " " + std::to_string(count) + " things I told you.";
    std::iota(question.facts.begin(), question.facts.end(), first);
    std::set<size_t> evidence;
    for (const size_t i : question.facts) {
        question.answer += (question.answer.empty() ? "" : " ") + answer(facts[i]);
        evidence.insert(facts[i].told.round);
    }
    question.evidence.assign(evidence.begin(), evidence.end());
    return question;
}

Question World::ask_for_unknown() {
    const std::string at_home = new_person();
    const std::string liking = new_person();
    const std::string object = draw_object();
    const std::array<std::pair<FactKind, std::string>, 3> candidates = {
        {{FactKind::home, at_home}, {FactKind::likes, liking}, {FactKind::code, object}}};
    const auto& [kind, subject] = random.choice(candidates);
    if (const auto known = find(kind, subject)) {
        const Fact& fact = facts[*known];
        return {Task::recall, ask(kind, subject), answer(fact), {fact.told.round}, {*known}};
    }
    return {Task::unknown, ask(kind, subject), "You have not told me that.", {}, {}};
}

}  // namespace rondo::cli::eval
