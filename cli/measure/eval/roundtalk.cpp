#include "cli/measure/eval/roundtalk.hpp"

#include <algorithm>

#include "cli/measure/eval/roundtalk_words.hpp"
#include "cli/measure/eval/roundtalk_world.hpp"

namespace rondo::cli::eval {

namespace {

struct Sentence {
    std::string text;
    std::optional<size_t> fact;  ///< that it tells
};

template <class Enum, size_t count>
Result<Enum> parse_name(std::string_view name, const std::array<std::string_view, count>& names, const char* what) {
    const auto found = std::ranges::find(names, name);
    if (found != names.end()) return static_cast<Enum>(found - names.begin());
    std::string known;
    for (const std::string_view each : names) known += (known.empty() ? "" : ", ") + std::string(each);
    return make_error(ErrorCode::invalid_argument,
                      std::string(what) + " \"" + std::string(name) + "\" is not known, must be " + known);
}

Status check_range(const char* name, CountRange range, int max) {
    if (range.low >= 0 && range.low <= range.high && range.high <= max) return Status::ok();
    return make_error(ErrorCode::invalid_argument, std::string("roundtalk: ") + name + " is " +
                                                       std::to_string(range.low) + " to " + std::to_string(range.high) +
                                                       ", must be a range within 0 to " + std::to_string(max));
}

Status check(const DialogueOptions& options) {
    if (options.rounds < 1 || options.rounds > DialogueOptions::rounds_max) {
        return make_error(ErrorCode::invalid_argument, "roundtalk: rounds is " + std::to_string(options.rounds) +
                                                           ", must be 1 to " +
                                                           std::to_string(DialogueOptions::rounds_max));
    }
    RONDO_TRY(check_range("facts_per_round", options.facts_per_round, DialogueOptions::facts_max));
    return check_range("filler", options.filler, DialogueOptions::filler_max);
}

std::vector<Sentence> tell_something(World& world, size_t current, const DialogueOptions& options) {
    const size_t known = world.facts.size();
    if (world.random.random() < 0.75 || current == 0) {
        const int count = world.random.randint(options.facts_per_round.low, options.facts_per_round.high);
        for (int i = 0; i < count; ++i) world.add_fact(current);
    }
    std::vector<Sentence> sentences;
    for (size_t i = known; i < world.facts.size(); ++i) sentences.push_back({tell(world.facts[i]), i});
    if (const auto corrected = world.correct_one(current, known)) {
        sentences.push_back({"Correction: " + tell(world.facts[*corrected]), *corrected});
    }
    const int fillers = world.random.randint(options.filler.low, options.filler.high);
    for (int i = 0; i < fillers; ++i) {
        const auto at = sentences.begin() + world.random.below(static_cast<uint32_t>(sentences.size()) + 1);
        sentences.insert(at, Sentence{std::string(world.random.choice(words::fillers)), std::nullopt});
    }
    return sentences;
}

Result<Question> ask_something(World& world, Task task, size_t current, const std::vector<DialogueRound>& earlier) {
    const bool needs_facts = task == Task::recall || task == Task::local || task == Task::list;
    if (needs_facts && world.facts.empty()) {
        return make_error(ErrorCode::invalid_argument,
                          "roundtalk: round " + std::to_string(current + 1) +
                              " asks for a fact and none was told; facts_per_round must be at least 1");
    }
    switch (task) {
        case Task::recall:
            return world.ask_for_earlier(current);
        case Task::local:
            return world.ask_for_present(current);
        case Task::list:
            return world.ask_for_list();
        case Task::unknown:
            return world.ask_for_unknown();
        case Task::again:  // is never the first round's
            return Question{task, "What was your last answer?", earlier.back().answer, {current - 1}, {}};
        default:
            return Question{task, {}, "Noted.", {}, {}};
    }
}

/// Puts the question before, among or after the sentences.
void place_question(PythonRandom& random, const std::string& question, std::vector<Sentence>& sentences, Place place) {
    const auto count = static_cast<int>(sentences.size());
    int at = place == Place::begin ? 0 : count;
    if (place == Place::middle && count > 1) at = random.randint(1, count - 1);
    sentences.insert(sentences.begin() + at, Sentence{question, std::nullopt});
}

/// One message of the sentences; the facts learn where in it they stand.
std::string join_sentences(const std::vector<Sentence>& sentences, std::vector<Fact>& facts) {
    std::string text;
    for (const Sentence& sentence : sentences) {
        if (!text.empty()) text += ' ';
        if (sentence.fact) {
            facts[*sentence.fact].told.begin = text.size();
            facts[*sentence.fact].told.end = text.size() + sentence.text.size();
        }
        text += sentence.text;
    }
    return text;
}

DialogueRound chat(PythonRandom& random, Place place) {
    const words::SmallTalk& talk = random.choice(words::small_talk);
    const std::string_view said = talk.said[random.below(static_cast<uint32_t>(talk.said_count))];
    return {std::string(said), std::string(talk.answer), Task::chat, place, {}, {}};
}

Result<DialogueRound> talk(World& world, Task task, Place place, const DialogueOptions& options,
                           const std::vector<DialogueRound>& earlier) {
    const size_t current = earlier.size();
    std::vector<Sentence> sentences = tell_something(world, current, options);
    RONDO_ASSIGN(Question question, ask_something(world, task, current, earlier));
    if (!question.text.empty()) {
        place_question(world.random, question.text, sentences, place);
    } else if (sentences.empty()) {
        sentences.push_back({std::string(world.random.choice(words::fillers)), std::nullopt});
    }
    DialogueRound round{join_sentences(sentences, world.facts),
                        std::move(question.answer),
                        question.task,
                        place,
                        question.evidence,
                        {}};
    for (const size_t fact : question.facts) round.gold.push_back(world.facts[fact].told);
    if (question.task == Task::again) round.gold.push_back({current - 1, 0, earlier.back().answer.size(), true});
    return round;
}

}  // namespace

std::string_view to_string(Task task) {
    return task_names[static_cast<size_t>(task)];
}

std::string_view to_string(Place place) {
    return place_names[static_cast<size_t>(place)];
}

Result<Task> parse_task(std::string_view name) {
    return parse_name<Task>(name, task_names, "task");
}

Result<std::optional<Task>> parse_asked(std::string_view name) {
    if (name == mix_name) return std::optional<Task>();
    const Result<Task> task = parse_task(name);
    if (!task.is_ok())
        return make_error(task.error().code, task.error().message + ", or mix for what the model was trained on");
    return std::optional<Task>(*task);
}

Result<Place> parse_place(std::string_view name) {
    return parse_name<Place>(name, place_names, "question place");
}

std::optional<size_t> lag_of(const DialogueRound& round, size_t current) {
    if (round.evidence.empty()) return std::nullopt;
    return current - round.evidence.front();
}

Result<std::vector<DialogueRound>> make_dialogue(uint64_t seed, const DialogueOptions& options) {
    RONDO_TRY(check(options));
    constexpr std::array<double, task_names.size()> mix = {9, 3, 3, 1.5, 1.5, 0.7, 1.2};
    World world(seed);
    PythonRandom& random = world.random;
    std::vector<DialogueRound> rounds;
    for (int current = 0; current < options.rounds; ++current) {
        const Place place = options.place ? *options.place : static_cast<Place>(random.below(3));
        Task task = options.tasks.empty() ? static_cast<Task>(random.weighted(mix)) : random.choice(options.tasks);
        const bool looks_back = task == Task::recall || task == Task::again || task == Task::chat;
        if (current == 0 && looks_back) task = Task::local;
        if (task == Task::chat) {
            rounds.push_back(chat(random, place));
        } else {
            RONDO_ASSIGN(DialogueRound round, talk(world, task, place, options, rounds));
            rounds.push_back(std::move(round));
        }
    }
    return rounds;
}

}  // namespace rondo::cli::eval
