// config/reference.yaml documents every key: its default, its range, and which methods heed it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <optional>
#include <sstream>

#include "config/method_rows.hpp"
#include "config/setting_keys.hpp"
#include "config/settings.hpp"
#include "config/yaml_tree.hpp"

namespace rondo {
namespace {

Settings all_of(const std::string& text) {
    const auto settings = settings_from_yaml(text, "reference.yaml", {});
    EXPECT_TRUE(settings) << settings.error().message;
    return settings ? *settings : Settings();
}

/// reference.yaml, and the comment right above each key.
class ReferenceYaml : public ::testing::Test {
protected:
    ReferenceYaml() {
        std::ifstream file(RONDO_SOURCE_DIR "/config/reference.yaml");
        std::stringstream text;
        text << file.rdbuf();
        text_ = text.str();
        for (std::string line; std::getline(text, line);) lines_.push_back(line);
    }

    /// Of "pipeline.methods"; nothing where the key is not there.
    std::optional<std::string> comment_of(const std::string& path) const {
        const auto root = parse_yaml(text_, "reference");
        const YamlNode* node = root ? &*root : nullptr;
        std::stringstream words(path);
        for (std::string word; node != nullptr && std::getline(words, word, '.');) node = node->find(word);
        if (node == nullptr) return std::nullopt;
        auto line = std::stoul(node->place.substr(node->place.find(':') + 1)) - 1;
        std::string comment;
        while (line-- > 0 && lines_[line].find_first_not_of(' ') == lines_[line].find('#'))
            comment = lines_[line].substr(lines_[line].find('#') + 1) + comment;
        return comment;
    }

    std::string text_;
    std::vector<std::string> lines_;
};

TEST_F(ReferenceYaml, NamesEveryKeyWithItsDefaultAndItsRange) {
    ASSERT_FALSE(text_.empty());
    EXPECT_EQ(all_of(text_), Settings());
    for (const SettingKey& key : setting_keys()) {
        std::string path(key.path);
        if (const size_t star = path.find('*'); star != std::string::npos) path.replace(star, 1, "cpu");
        const auto comment = comment_of(path);
        ASSERT_TRUE(comment) << path << " is not in reference.yaml";
        EXPECT_NE(comment->find("ust be " + key.expects()), std::string::npos) << path << ":" << *comment;
    }
}

bool has_word(const std::string& text, std::string_view word) {
    const auto is_part = [&](size_t at) {
        return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
    };
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
        if ((at == 0 || !is_part(at - 1)) && !is_part(at + word.size())) return true;
    return false;
}

/// Those of the phase's methods that heed it; none where all do.
TEST_F(ReferenceYaml, SaysOfEachKeyWhichMethodsHeedIt) {
    const auto check = [this](const std::string& phase, std::span<const MethodRow> rows) {
        rows = rows.subspan(1);  // without dense
        const auto methods = std::ranges::count_if(rows, &MethodRow::for_pipelines);
        for (const SettingKey& key : setting_keys()) {
            if (!key.path.starts_with(phase) || key.path == phase + "method") continue;
            const std::string name(key.path.substr(phase.size()));
            std::vector<std::string_view> heeding, named;
            const std::string comment = comment_of(std::string(key.path)).value_or("");
            for (const MethodRow& row : rows) {
                if (!row.for_pipelines) continue;
                const auto keys = words_in(row.keys);
                if (name == "budget_tokens" || std::ranges::count(keys, name) > 0) heeding.push_back(row.name);
                if (has_word(comment, row.name)) named.push_back(row.name);
            }
            if (std::ssize(heeding) == methods) heeding.clear();
            EXPECT_EQ(named, heeding) << key.path << ":" << comment;
        }
    };
    check("pipeline.prefill.attention.", prefill_method_rows);
    check("pipeline.decode.attention.", decode_method_rows);
}

}  // namespace
}  // namespace rondo
