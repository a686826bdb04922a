#include "config/yaml_tree.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace rondo {
namespace {

std::string error_of(const std::string& text) {
    const auto tree = parse_yaml(text, "f.yaml");
    if (tree) return "no error";
    EXPECT_EQ(tree.error().message.find('\n'), std::string::npos);
    return tree.error().message;
}

TEST(YamlTree, KeepsOrderKindsAndPlaces) {
    const auto tree = parse_yaml("a: 1\nb:\n  - 'x'\n  - ~\n  - {c: d}\n", "f.yaml");
    ASSERT_TRUE(tree);
    ASSERT_EQ(tree->children.size(), 2U);
    const YamlNode &a = tree->children[0], &b = tree->children[1];
    EXPECT_EQ(a.key, "a");
    EXPECT_EQ(a.text, "1");
    EXPECT_FALSE(a.quoted);
    EXPECT_EQ(a.place, "f.yaml:1");
    ASSERT_EQ(b.kind, YamlNode::Kind::list);
    ASSERT_EQ(b.children.size(), 3U);
    EXPECT_TRUE(b.children[0].quoted);
    EXPECT_EQ(b.children[1].kind, YamlNode::Kind::nothing);
    EXPECT_EQ(b.children[2].find("c")->place, "f.yaml:5");
    EXPECT_EQ(b.children[2].find("d"), nullptr);
}

TEST(YamlTree, OneLineTextHasNoLineNumber) {
    const auto tree = parse_yaml("a: b: c", "--set a", 0);
    ASSERT_FALSE(tree);
    EXPECT_TRUE(tree.error().message.starts_with("--set a: not valid YAML: ")) << tree.error().message;
}

TEST(YamlTree, AliasesAnchorsMergeKeysAndTagsAreRefused) {
    const std::string anchors = "anchors (&) and aliases (*) are not read, write the value out";
    EXPECT_EQ(error_of("a: &x 1"), "f.yaml:1: a: " + anchors);
    EXPECT_EQ(error_of("a:\n  b: &x [1]\n  c: *x"), "f.yaml:2: a.b: " + anchors);
    EXPECT_EQ(error_of("a: &x\nb: 1"), "f.yaml:1: a: " + anchors);
    EXPECT_EQ(error_of("&x a: 1"), "f.yaml:1: the document: " + anchors);
    EXPECT_EQ(error_of("a: *x").substr(0, 9), "f.yaml:1:");
    EXPECT_EQ(error_of("<<: {a: 1}"), "f.yaml:1: the document: merge keys (<<) are not read, write the values out");
    EXPECT_EQ(error_of("a: !!int 1"), "f.yaml:1: a: tags (!) are not read, write the value alone");
    EXPECT_EQ(error_of("a: !x {}"), "f.yaml:1: a: tags (!) are not read, write the value alone");
}

TEST(YamlTree, AnAliasBombIsRefusedAtItsFirstLine) {
    std::ostringstream bomb;
    bomb << "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
    for (int i = 1; i < 30; ++i) {
        bomb << "a" << i << ": &a" << i << " [*a" << i - 1;
        for (int j = 1; j < 9; ++j) bomb << ", *a" << i - 1;
        bomb << "]\n";
    }
    EXPECT_EQ(error_of(bomb.str()).substr(0, 25), "f.yaml:1: a0: anchors (&)");
}

TEST(YamlTree, DuplicateKeysAreRefusedWithBothPlaces) {
    EXPECT_EQ(error_of("a:\n  b: 1\n  c: 2\n  b: 3\n"), "f.yaml:4: a.b: given twice, first at f.yaml:2");
    EXPECT_EQ(error_of("{a: 1, \"a\": 2}"), "f.yaml:1: a: given twice, first at f.yaml:1");
}

TEST(YamlTree, KeysAreWords) {
    EXPECT_EQ(error_of("? [a]\n: 1"), "f.yaml:1: the document: a key must be a word; is a bracket left open?");
    EXPECT_EQ(error_of("? {a: b}\n: 1"), "f.yaml:1: the document: a key must be a word; is a bracket left open?");
    EXPECT_EQ(error_of("~: 1"), "f.yaml:1: the document: a key must be a word; is a bracket left open?");
}

TEST(YamlTree, SizeDepthAndCountAreBounded) {
    EXPECT_EQ(error_of(std::string(65537, ' ')), "f.yaml: is 65537 bytes, must be at most 65536");
    EXPECT_EQ(error_of(std::string(65536, ' ')), "no error");
    EXPECT_EQ(error_of(std::string(16, '[') + std::string(16, ']')), "no error");
    EXPECT_EQ(error_of(std::string(17, '[') + std::string(17, ']')),
              "f.yaml:1: the document: is nested deeper than 16");
    EXPECT_NE(error_of(std::string(65000, '[')), "no error");
    EXPECT_NE(error_of(std::string(65000, '{')), "no error");
    std::string blocks;
    for (int i = 0; i < 300; ++i) blocks += std::string(static_cast<size_t>(i), ' ') + "a:\n";
    EXPECT_NE(error_of(blocks).find("is nested deeper than 16"), std::string::npos);
    std::string many;
    for (int i = 0; i < 4095; ++i) many += "- a\n";
    EXPECT_EQ(error_of(many), "no error");
    EXPECT_EQ(error_of(many + "- a\n"), "f.yaml:4096: the document: has more than 4096 values");
}

TEST(YamlTree, BytesThatAreNoTextAreRefused) {
    EXPECT_EQ(error_of("a: 1\nb: \x04 2"), "f.yaml:2: has the control character \"\\x04\", must be UTF-8 text");
    EXPECT_EQ(error_of(std::string("a\0b", 3)), "f.yaml:1: has the control character \"\\x00\", must be UTF-8 text");
    for (const char* text : {"a: \xff\xfe", "\xfe\xff", "\xc3", "a: \"\\ud800\"", "\"\\xzz\"", "a: 'b", "a: b: c",
                             "\ta: 1", "- a\nb: 1", "{a: 1", "%YAML 9.9\n---\na: 1", "a: |\n\tb", "@a", "`"})
        (void)error_of(text);  // some are valid to the parser; none may crash or give two lines
    EXPECT_EQ(error_of("a: b: c"), "f.yaml:1: not valid YAML: illegal map value");
}

TEST(YamlTree, OneDocumentOnly) {
    EXPECT_EQ(error_of("a: 1\n---\nb: 2\n"), "f.yaml:2: the document: has a second document, must be one");
}

TEST(YamlTree, ShownTextIsPrintableAndShort) {
    EXPECT_EQ(shown("a\x1b[0m\r\n\xc3\xa9"), "\"a\\x1b[0m\\x0d\\x0a\\xc3\\xa9\"");
    EXPECT_EQ(shown(std::string(61, 'x')), std::string(60, 'x').insert(0, 1, '"') + "...\"");
}

}  // namespace
}  // namespace rondo
