#pragma once

#include <map>
#include <utility>

#include "cli/measure/eval/python_random.hpp"
#include "cli/measure/eval/roundtalk.hpp"

namespace rondo::cli::eval {

enum class FactKind { code, home, likes, meet, pet };

struct Fact {
    FactKind kind = FactKind::code;
    std::string subject, value;
    GoldSpan told;  ///< by its latest sentence
};

std::string tell(const Fact& fact);

/// A question with its answer; `text` is empty when the round asks nothing.
struct Question {
    Task task = Task::tell;
    std::string text, answer;
    std::vector<size_t> evidence;
    std::vector<size_t> facts;  ///< that the answer tells, in its order
};

/// What has been told so far in one dialogue. No two facts have the same kind and subject. Every method draws as many
/// random numbers as the trainer's does, in the same order, those it throws away included.
class World {
public:
    explicit World(uint64_t seed) : random(seed) {}

    PythonRandom random;
    std::vector<Fact> facts;  ///< as they were first told

    /// One more fact, told in round `current`, unless fifty draws all meet a known one.
    void add_fact(size_t current);
    /// Changes one of the first `known` facts now and then; which.
    std::optional<size_t> correct_one(size_t current, size_t known);

    /// These three need at least one fact.
    Question ask_for_earlier(size_t current);
    Question ask_for_present(size_t current);
    Question ask_for_list();
    /// About what nobody told; or, where chance meets a known fact, a recall of it.
    Question ask_for_unknown();

private:
    std::string draw_name();
    std::string draw_code();
    std::string draw_object();
    const std::string& new_person();
    Fact draw_fact(FactKind kind);
    Question ask_about(Task task, const std::vector<size_t>& wanted);
    std::optional<size_t> find(FactKind kind, const std::string& subject) const;

    std::map<std::pair<FactKind, std::string>, size_t> known_;  ///< kind and subject → index in `facts`
    std::vector<std::string> people_;
};

}  // namespace rondo::cli::eval
