#include "cli/measure/multi_turn/words.hpp"

#include <array>
#include <string_view>

namespace rondo::cli::multi_turn {

namespace {

// Short and frequent, so that most tokenizers have each as one token and the average over a text is steady.
constexpr auto words = std::to_array<std::string_view>({
    "able",  "about",  "above",  "after", "again",  "air",   "all",   "also",  "animal", "answer", "apple", "area",
    "arm",   "ask",    "away",   "back",  "bad",    "ball",  "bank",  "bear",  "bed",    "best",   "big",   "bird",
    "black", "blue",   "board",  "boat",  "body",   "book",  "both",  "box",   "boy",    "bread",  "bring", "brown",
    "build", "busy",   "buy",    "call",  "car",    "care",  "carry", "case",  "change", "city",   "class", "clean",
    "clear", "close",  "cold",   "color", "come",   "cook",  "corn",  "count", "course", "cover",  "cross", "cut",
    "dark",  "day",    "deep",   "dog",   "door",   "down",  "draw",  "dream", "drink",  "drive",  "dry",   "early",
    "earth", "east",   "easy",   "eat",   "edge",   "end",   "even",  "face",  "fall",   "family", "far",   "farm",
    "fast",  "father", "feel",   "field", "fill",   "find",  "fire",  "first", "fish",   "floor",  "fly",   "follow",
    "food",  "foot",   "form",   "free",  "friend", "front", "full",  "game",  "garden", "girl",   "give",  "glass",
    "gold",  "good",   "grass",  "great", "green",  "group", "grow",  "half",  "hand",   "happy",  "hard",  "head",
    "hear",  "heart",  "help",   "high",  "hill",   "hold",  "home",  "horse", "hot",    "hour",   "house", "ice",
    "inch",  "island", "job",    "keep",  "kind",   "king",  "lake",  "land",  "large",  "last",   "late",  "laugh",
    "lead",  "leaf",   "learn",  "left",  "letter", "life",  "light", "line",  "list",   "long",   "look",  "low",
    "map",   "mark",   "meet",   "milk",  "mind",   "money", "moon",  "more",  "mother", "move",   "music", "name",
    "near",  "new",    "night",  "north", "note",   "ocean", "old",   "open",  "order",  "paint",  "paper", "part",
    "plan",  "plant",  "play",   "point", "pull",   "rain",  "reach", "read",  "red",    "rest",   "ride",  "right",
    "river", "road",   "rock",   "room",  "round",  "run",   "salt",  "sand",  "school", "sea",    "seed",  "ship",
    "short", "show",   "side",   "sing",  "sky",    "sleep", "small", "snow",  "song",   "sound",  "south", "star",
    "stone", "story",  "street", "sun",   "table",  "talk",  "tall",  "team",  "time",   "town",   "train", "tree",
    "turn",  "walk",   "wall",   "warm",  "watch",  "water", "west",  "wheel", "white",  "wind",   "wood",  "year",
});

}  // namespace

std::string draw_words(Seeded& random, int64_t count) {
    std::string text;
    for (int64_t i = 0; i < count; ++i) {
        if (i > 0) text += ' ';
        text += words[static_cast<size_t>(random.between(0, static_cast<int64_t>(words.size()) - 1))];
    }
    return text;
}

}  // namespace rondo::cli::multi_turn
