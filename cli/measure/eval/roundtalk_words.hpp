#pragma once

#include <array>
#include <string_view>

/// The words of roundtalk's sentences. The demo model knows no others; their order is part of what a seed means.
namespace rondo::cli::eval::words {

inline constexpr auto adjectives = std::to_array<std::string_view>(
    {"red",    "blue",  "green", "old",    "small", "tall",   "round", "silver", "golden", "wooden",
     "broken", "quiet", "heavy", "bright", "dark",  "narrow", "paper", "copper", "glass",  "striped"});
inline constexpr auto nouns = std::to_array<std::string_view>(
    {"box",  "lamp", "door", "chest", "jar",   "desk",  "clock", "boat", "bag",   "drum",   "tent",   "cart",  "ring",
     "vase", "bell", "coat", "safe",  "trunk", "shelf", "crate", "kite", "bench", "mirror", "ladder", "basket"});
inline constexpr auto cities = std::to_array<std::string_view>(
    {"Oslo",  "Paris", "Lima",  "Cairo", "Quito", "Delhi", "Accra", "Turin",  "Porto", "Basel",
     "Kyoto", "Dakar", "Hanoi", "Miami", "Perth", "Sofia", "Tunis", "Bergen", "Lagos", "Malmo"});
inline constexpr auto days =
    std::to_array<std::string_view>({"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"});
inline constexpr auto things =
    std::to_array<std::string_view>({"tea", "coffee", "chess", "music", "cheese", "rain", "snow", "maps", "poems",
                                     "cards", "bread", "plums", "soup", "trains", "stamps", "jazz"});
inline constexpr std::string_view consonants = "bdfgklmnprstvz", vowels = "aeiou", digits = "0123456789";

inline constexpr auto fillers = std::to_array<std::string_view>({
    "The weather was calm all day.",
    "We walked along the river for a while.",
    "Nobody noticed the time.",
    "The road was long and dusty.",
    "Someone was singing in the next room.",
    "It was a slow afternoon.",
    "The train was late again.",
    "There was a smell of fresh bread.",
    "I had to look for my keys.",
    "The neighbours painted their fence.",
    "A dog barked twice and fell asleep.",
    "The market was full of people.",
    "We talked about nothing in particular.",
    "The lights went out for a minute.",
    "I read the paper and made a call.",
    "The garden needs some water.",
    "My shoes were wet from the grass.",
    "They moved the chairs to the wall.",
    "The soup was too hot to eat.",
    "It may rain later this week.",
});

/// The first `said_count` of `said` are what a user may say.
struct SmallTalk {
    std::array<std::string_view, 4> said;
    size_t said_count;
    std::string_view answer;
};
inline constexpr std::array<SmallTalk, 5> small_talk = {{
    {{"Hello!", "Hi there.", "Good morning.", "Hey."}, 4, "Hello! What would you like to tell me?"},
    {{"Thank you.", "Thanks a lot.", "Great, thanks."}, 3, "You are welcome."},
    {{"How are you?", "How is it going?"}, 2, "I am fine and ready to listen."},
    {{"Who are you?", "What can you do?"}, 2, "I am a small model that remembers what you tell me."},
    {{"Goodbye.", "See you later.", "Bye."}, 3, "Goodbye!"},
}};

/// "The code of the | SUBJECT | is | VALUE." and "What is the code of the | SUBJECT | ?"
struct Wording {
    std::string_view tell_before, tell_between, answer_before, ask_before, ask_after;
};
/// By FactKind.
inline constexpr std::array<Wording, 5> wordings = {{
    {"The code of the ", " is ", "The code of the ", "What is the code of the ", "?"},
    {"", " lives in ", "", "Where does ", " live?"},
    {"", " likes ", "", "What does ", " like?"},
    {"I meet ", " on ", "You meet ", "When do I meet ", "?"},
    {"The dog of ", " is called ", "The dog of ", "What is the dog of ", " called?"},
}};

}  // namespace rondo::cli::eval::words
