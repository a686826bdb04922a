#include "tests/cli/svg_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

namespace rondo::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// What stands between elements.
void expect_text(std::string_view text) {
    for (size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        EXPECT_TRUE(byte >= 0x20 || byte == '\n') << text;
        EXPECT_NE(byte, '>') << text;
        if (byte != '&') continue;
        const std::string_view name = text.substr(i, text.find(';', i) - i);
        EXPECT_TRUE(name == "&amp" || name == "&lt" || name == "&gt") << text;
    }
}

/// ` name="value"` any number of times, each name once.
void expect_attributes(std::string_view text) {
    std::set<std::string_view> names;
    while (!text.empty()) {
        const size_t equals = text.find("=\"");
        ASSERT_NE(equals, text.npos) << text;
        ASSERT_EQ(text.front(), ' ') << text;
        const std::string_view name = text.substr(1, equals - 1);
        EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyzBCT0123456789-"), name.npos) << text;
        EXPECT_TRUE(names.insert(name).second) << name;
        const size_t end = text.find('"', equals + 2);
        ASSERT_NE(end, text.npos) << text;
        EXPECT_EQ(text.substr(0, end).find('&'), text.npos) << text;
        text.remove_prefix(end + 1);
    }
}

}  // namespace

void expect_sound_svg(std::string_view svg) {
    EXPECT_THAT(svg, ::testing::StartsWith("<svg "));
    EXPECT_THAT(svg, ::testing::EndsWith("</svg>\n"));
    for (const char* const wrong : {"nan", "inf"}) EXPECT_THAT(svg, Not(HasSubstr(wrong)));
    std::vector<std::string_view> open;
    for (size_t at = 0; (at = svg.find('<')) != svg.npos;) {
        expect_text(svg.substr(0, at));
        const size_t end = svg.find('>', at);
        ASSERT_NE(end, svg.npos);
        std::string_view element = svg.substr(at + 1, end - at - 1);
        svg.remove_prefix(end + 1);
        EXPECT_EQ(element.find('<'), element.npos) << element;
        if (element.starts_with('/')) {
            ASSERT_FALSE(open.empty());
            EXPECT_EQ(open.back(), element.substr(1));
            open.pop_back();
            EXPECT_EQ(open.empty(), svg == "\n");
            continue;
        }
        const bool closed = element.ends_with('/');
        if (closed) element.remove_suffix(1);
        const size_t name_end = std::min(element.find(' '), element.size());
        expect_attributes(element.substr(name_end));
        if (!closed) open.push_back(element.substr(0, name_end));
    }
    EXPECT_TRUE(open.empty());
}

}  // namespace rondo::testing
