#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "model/text/tokenizer.hpp"
#include "model/text/unicode.hpp"

namespace rondo {

inline std::string file_text(const std::string& path) {
    std::ifstream in(std::string(RONDO_SOURCE_DIR) + "/" + path);
    std::ostringstream out;
    out << in.rdbuf();
    EXPECT_TRUE(in.good()) << path;
    return out.str();
}

/// Golden ids made by other programs; make_golden.py beside the files says which.
inline const nlohmann::json& golden_file(const std::string& name) {
    static std::map<std::string, nlohmann::json> files;
    if (!files.contains(name)) files[name] = nlohmann::json::parse(file_text("tests/fixtures/tokenizer/" + name));
    return files[name];
}

/// A tokenizer.json with some of its keys, or of its model's, replaced.
inline nlohmann::json patched(nlohmann::json tokenizer, const nlohmann::json& patch) {
    for (const auto& [key, value] : patch.items()) {
        if (key == "model") {
            tokenizer["model"].update(value);
        } else {
            tokenizer[key] = value;
        }
    }
    return tokenizer;
}

inline std::unique_ptr<Tokenizer> load(const nlohmann::json& tokenizer) {
    auto loaded = tokenizer_from_json(tokenizer.dump(), "test.json");
    if (!loaded) ADD_FAILURE() << loaded.error().message;
    return loaded ? std::move(*loaded) : nullptr;
}

/// The one-line error of a tokenizer.json that must not load.
inline std::string load_error(const std::string& text) {
    const auto loaded = tokenizer_from_json(text, "test.json");
    if (loaded) return "(loaded)";
    EXPECT_EQ(loaded.error().message.find('\n'), std::string::npos);
    return loaded.error().message;
}

inline std::vector<int32_t> ids_of(const Tokenizer& tokenizer, const std::string& text, bool special = true) {
    auto ids = tokenizer.encode(text, special);
    if (!ids) ADD_FAILURE() << ids.error().message;
    return ids ? *ids : std::vector<int32_t>{};
}

/// A BPE whose vocabulary is all bytes in GPT-2's alphabet, then what the merges make: small enough to reason about.
inline nlohmann::json byte_tokenizer(const std::vector<std::string>& merges) {
    nlohmann::json out = golden_file("byte_level.json")["tokenizer"], vocabulary;
    for (const auto& [token, id] : out["model"]["vocab"].items())
        if (id.get<int>() < 256) vocabulary[token] = id;
    for (const auto& merge : merges) {
        std::string token = merge;
        token.erase(token.find(' '), 1);
        vocabulary[token] = vocabulary.size();
    }
    out["model"]["vocab"] = vocabulary;
    out["model"]["merges"] = merges;
    out["added_tokens"] = nlohmann::json::array();
    return out;
}

/// Valid UTF-8 of a few characters from all planes, with many that regexes and normal forms treat specially.
inline std::string random_text(std::mt19937& random, int characters_max) {
    static const char32_t often[] = {' ',  ' ',  'a', 'b', 'e',  't',   '1',    '2',   '\n',
                                     '\r', '\'', 's', '.', 0xE9, 0x301, 0x65E5, 0x2581};
    std::string text;
    for (int left = std::uniform_int_distribution(0, characters_max)(random); left > 0; --left) {
        char32_t value = often[random() % std::size(often)];
        if (random() % 4 == 0) value = random() % (random() % 2 == 0 ? 0x800 : 0x110000);
        if (value >= 0xD800 && value < 0xE000) value = 0xFFFD;
        unicode::append(text, value);
    }
    return text;
}

}  // namespace rondo
