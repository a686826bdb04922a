#include "tests/model/tokenizer_fixture.hpp"

namespace rondo {
namespace {

using Json = nlohmann::json;

void expect_golden(const Tokenizer& tokenizer, const Json& cases) {
    ASSERT_GT(cases.size(), 5U);
    for (const auto& c : cases) {
        const auto text = c["text"].get<std::string>();
        const auto ids = c["ids"].get<std::vector<int32_t>>();
        ASSERT_EQ(ids_of(tokenizer, text), ids) << c;
        EXPECT_EQ(tokenizer.decode(ids), c["decoded"].get<std::string>()) << c;
        const Json& full = c.contains("full") ? c["full"] : c["ids"];
        EXPECT_EQ(tokenizer.with_template_tokens(ids), full.get<std::vector<int32_t>>()) << c;
    }
}

void expect_golden_variants(const std::string& file) {
    ASSERT_FALSE(golden_file(file)["variants"].empty());
    for (const auto& variant : golden_file(file)["variants"]) {
        SCOPED_TRACE(variant["name"].get<std::string>());
        const auto tokenizer = load(patched(golden_file(file)["tokenizer"], variant["patch"]));
        ASSERT_NE(tokenizer, nullptr);
        expect_golden(*tokenizer, variant["cases"]);
    }
}

TEST(TokenizerJson, GivesHuggingFacesIdsForTheDemoModel) {
    const auto tokenizer = tokenizer_from_json(file_text("examples/demo_model/tokenizer.json"), "demo");
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ((*tokenizer)->vocabulary(), 640);
    expect_golden(**tokenizer, golden_file("byte_level.json")["demo_cases"]);
}

TEST(TokenizerJson, GivesHuggingFacesIdsForByteLevelVariants) {
    expect_golden_variants("byte_level.json");
}

TEST(TokenizerJson, GivesHuggingFacesIdsForSentencePieceVariants) {
    expect_golden_variants("sentencepiece.json");
}

TEST(TokenizerJson, ReadsMergesAsPairsAndAsStrings) {
    Json base = byte_tokenizer({"a b", "ab c"});
    const auto strings = load(base);
    base["model"]["merges"] = Json::array({Json::array({"a", "b"}), Json::array({"ab", "c"})});
    const auto pairs = load(base);
    ASSERT_TRUE(strings && pairs);
    EXPECT_EQ(ids_of(*strings, "abcab").size(), 2U);
    EXPECT_EQ(ids_of(*pairs, "abcab"), ids_of(*strings, "abcab"));
}

TEST(TokenizerJson, OfAMergeThatIsListedAgainTheLastPlaceCounts) {
    const auto ids_with = [](const std::vector<std::string>& merges) {
        Json json = byte_tokenizer({"a b", "b c"});
        json["model"]["merges"] = merges;
        const auto tokenizer = load(json);
        return tokenizer ? ids_of(*tokenizer, "abc") : std::vector<int32_t>{};
    };
    const std::vector<int32_t> ab_first = ids_with({"a b", "b c"}), bc_first = ids_with({"b c", "a b"});
    ASSERT_NE(ab_first, bc_first);
    // What Hugging Face's tokenizers 0.23 gives.
    EXPECT_EQ(ids_with({"a b", "b c", "a b"}), bc_first);
    EXPECT_EQ(ids_with({"a b", "b c", "a b", "b c", "a b", "b c"}), ab_first);
    EXPECT_NE(
        load_error(R"({"model":{"vocab":{"a":0},"merges":[["a","b"]],"merges":[]}})").find("'merges' is there twice"),
        std::string::npos);
}

/// As Hugging Face's tokenizers 0.23, which stops at 128 levels where this reader stops at 64.
TEST(TokenizerJson, AnEmptySequenceDoesNothingHoweverOften) {
    const auto sequence = [](Json steps) { return Json{{"type", "Sequence"}, {"pretokenizers", std::move(steps)}}; };
    const auto ids_with = [](const Json& step) {
        Json json = byte_tokenizer({"a b"});
        json["pre_tokenizer"] = step;
        const auto tokenizer = load(json);
        return tokenizer ? ids_of(*tokenizer, "ab abc") : std::vector<int32_t>{};
    };
    const auto nested = [&](int times) {
        Json step = sequence(Json::array());
        for (int i = 1; i < times; ++i) step = sequence(Json::array({step}));
        return step;
    };
    const std::vector<int32_t> none = ids_with(nullptr);
    ASSERT_FALSE(none.empty());
    EXPECT_EQ(ids_with(sequence(Json::array())), none);
    EXPECT_EQ(ids_with(nested(25)), none);
    EXPECT_EQ(ids_with(sequence(Json(std::vector<Json>(100, sequence(Json::array()))))), none);
    Json deep = byte_tokenizer({});
    deep["pre_tokenizer"] = nested(100);
    EXPECT_EQ(load_error(deep.dump()), "test.json: JSON nested deeper than 64");
}

/// As Hugging Face's tokenizers 0.23 reads them: only the model's options, and two of Metaspace's, may be null.
TEST(TokenizerJson, NullIsReadOnlyWhereHuggingFaceReadsIt) {
    Json options = byte_tokenizer({"a b"});
    for (const char* key : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                            "byte_fallback", "ignore_merges"}) {
        options["model"][key] = nullptr;
    }
    EXPECT_EQ(load_error(options.dump()), "(loaded)");
    for (const char* key : {"special", "lstrip", "rstrip", "single_word", "normalized", "id", "content"}) {
        Json json = byte_tokenizer({"a b"});
        json["added_tokens"] = Json::array({{{"id", 500}, {"content", "<x>"}, {"special", true}}});
        ASSERT_EQ(load_error(json.dump()), "(loaded)");
        json["added_tokens"][0][key] = nullptr;
        EXPECT_NE(load_error(json.dump()).find("added_tokens[0]: " + std::string(key) + " must be"), std::string::npos)
            << load_error(json.dump());
    }
    const auto error_with = [](const char* part, const char* step) {
        Json json = byte_tokenizer({"a b"});
        json[part] = Json::parse(step);
        return load_error(json.dump());
    };
    for (const char* step :
         {R"({"type":"ByteLevel","add_prefix_space":null})", R"({"type":"ByteLevel","use_regex":null})",
          R"({"type":"Metaspace","prepend_scheme":null})", R"({"type":"Digits","individual_digits":null})",
          R"({"type":"Split","pattern":{"String":"a"},"behavior":"Isolated","invert":null})",
          R"({"type":"Punctuation","behavior":null})", R"({"type":null})"}) {
        EXPECT_NE(error_with("pre_tokenizer", step).find(" must be "), std::string::npos) << step;
    }
    for (const char* step : {R"({"type":"Strip","strip_left":null})", R"({"type":"Prepend","prepend":null})"})
        EXPECT_NE(error_with("normalizer", step).find(" must be "), std::string::npos) << step;
    EXPECT_EQ(error_with("pre_tokenizer", R"({"type":"Metaspace","add_prefix_space":null,"split":null})"), "(loaded)");
}

TEST(TokenizerJson, OneByteOrderMarkBeforeTheJsonIsPassedOver) {
    const std::string mark = "\xEF\xBB\xBF", json = byte_tokenizer({"a b"}).dump();
    EXPECT_EQ(load_error(mark + json), "(loaded)");
    EXPECT_NE(load_error(mark + mark + json).find("not valid JSON"), std::string::npos);
    EXPECT_NE(load_error(mark.substr(0, 2) + json).find("not valid JSON"), std::string::npos);
}

TEST(TokenizerJson, AcceptsMergesBeforeTheVocabulary) {
    const std::string text =
        R"({"model":{"merges":["a b"],"vocab":{"a":0,"b":1,"ab":7},"type":"BPE"},"decoder":{"type":"Fuse"}})";
    const auto tokenizer = tokenizer_from_json(text, "test.json");
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(ids_of(**tokenizer, "aab"), (std::vector<int32_t>{0, 7}));
    EXPECT_EQ((*tokenizer)->vocabulary(), 8);
    EXPECT_EQ((*tokenizer)->bytes_of(3, true), "");
    EXPECT_EQ((*tokenizer)->bytes_of(-1, true), "");
    EXPECT_EQ((*tokenizer)->bytes_of(8, true), "");
}

TEST(TokenizerJson, MetaspaceReadsTheOldFormOfItsPrefixOption) {
    Json base = golden_file("sentencepiece.json")["tokenizer"];
    base["normalizer"] = nullptr;
    for (const bool prefix : {true, false}) {
        const Json space = {{"type", "Metaspace"}, {"replacement", "▁"}, {"add_prefix_space", prefix}};
        base["pre_tokenizer"] = base["decoder"] = space;
        const auto tokenizer = load(base);
        ASSERT_NE(tokenizer, nullptr);
        EXPECT_EQ(tokenizer->strips_first_space(), prefix);
        EXPECT_EQ(tokenizer->decode(ids_of(*tokenizer, "the red"), true), "the red");
    }
    base["pre_tokenizer"] = {{"type", "Metaspace"}, {"prepend_scheme", "first"}, {"add_prefix_space", false}};
    EXPECT_NE(load_error(base.dump()).find("prepend_scheme must be never"), std::string::npos);
}

TEST(TokenizerJson, NeverMakesSpecialTokensOfPlainText) {
    // The vocabulary could merge, look up and fall back to its special tokens; none of the ways may be taken.
    Json base = byte_tokenizer({"< s", "<s >", "x y"});
    const Json& vocabulary = base["model"]["vocab"];
    base["model"]["ignore_merges"] = true;
    for (const char* token : {"<s>", "xy", "!"})
        base["added_tokens"].push_back(
            {{"id", vocabulary[token]}, {"content", token}, {"special", true}, {"normalized", false}});
    const auto tokenizer = load(base);
    ASSERT_NE(tokenizer, nullptr);
    const int32_t end = vocabulary["<s>"].get<int32_t>();
    EXPECT_EQ(ids_of(*tokenizer, "<s>", true), (std::vector<int32_t>{end}));
    for (const char* text : {"<s>", "a<s>b", "xy", "!", "<s>xy!"})
        for (const int32_t id : ids_of(*tokenizer, text, false))
            EXPECT_FALSE(tokenizer->is_special(id)) << text << " " << id;
    EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{end}), "");
    EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{end}, true), "<s>");
    EXPECT_EQ(tokenizer->find("<s>"), end);
    EXPECT_EQ(tokenizer->find("nothing"), -1);
}

/// A token that is looked for in normalized text is found there, but where it is special not in what a user says.
TEST(TokenizerJson, NeverMakesNormalizedSpecialTokensOfPlainText) {
    Json base = byte_tokenizer({});
    base["added_tokens"] = Json::array({{{"id", 300}, {"content", "<end>"}, {"special", true}, {"normalized", true}},
                                        {{"id", 301}, {"content", "<mark>"}, {"special", false}}});
    const auto tokenizer = load(base);
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_EQ(ids_of(*tokenizer, "a<end><mark>", true), (std::vector<int32_t>{'a', 300, 301}));
    EXPECT_EQ(ids_of(*tokenizer, "a<end><mark>", false), (std::vector<int32_t>{'a', '<', 'e', 'n', 'd', '>', 301}));
}

/// As Hugging Face's tokenizers 0.23: what follows an added token is not the beginning of the text.
TEST(TokenizerJson, MetaspaceComesBeforeTheFirstWordOfATextOnly) {
    for (const bool normalized : {true, false}) {
        const Json file = {
            {"added_tokens", Json::array({{{"id", 9}, {"content", "<x>"}, {"normalized", normalized}}})},
            {"pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "first"}}},
            {"decoder", {{"type", "Fuse"}}},
            {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"_", 2}}}, {"merges", Json::array()}}}};
        const auto tokenizer = load(file);
        ASSERT_NE(tokenizer, nullptr);
        EXPECT_EQ(ids_of(*tokenizer, "ab"), (std::vector<int32_t>{2, 0, 1}));
        EXPECT_EQ(ids_of(*tokenizer, "<x>ab"), (std::vector<int32_t>{9, 0, 1})) << normalized;
        EXPECT_EQ(ids_of(*tokenizer, "a<x>b"), (std::vector<int32_t>{2, 0, 9, 1})) << normalized;
        EXPECT_EQ(ids_of(*tokenizer, "a <x> b"), (std::vector<int32_t>{2, 0, 2, 9, 2, 1})) << normalized;
    }
}

/// What is encoded behind known ids is what the whole text would have there.
TEST(TokenizerJson, GoesOnBehindATokenAsInOneText) {
    const Json file = {
        {"added_tokens", Json::array({{{"id", 9}, {"content", "<x>"}, {"normalized", false}},
                                      {{"id", 8}, {"content", "<y>"}, {"normalized", false}, {"rstrip", true}}})},
        {"pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "first"}}},
        {"decoder", {{"type", "Fuse"}}},
        {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"_", 2}}}, {"merges", Json::array()}}}};
    const auto tokenizer = load(file);
    ASSERT_NE(tokenizer, nullptr);
    const auto behind = [&](int32_t before, const std::string& text) {
        return tokenizer->encode_behind(before, text, true, {}).value();
    };
    Json with_prepend = file;
    with_prepend["normalizer"] = {{"type", "Prepend"}, {"prepend", "_"}};
    with_prepend.erase("pre_tokenizer");
    const auto prepends = load(with_prepend);
    EXPECT_EQ(ids_of(*prepends, "<x>ab"), (std::vector<int32_t>{9, 2, 0, 1}));
    EXPECT_EQ(prepends->encode_behind(9, "ab", true, {}).value(), (std::vector<int32_t>{2, 0, 1}));
    EXPECT_EQ(prepends->encode_behind(0, "b<x>a", true, {}).value(), (std::vector<int32_t>{1, 9, 2, 0}));
    Json always = file;
    always["pre_tokenizer"]["prepend_scheme"] = "always";
    const auto each = load(always);
    EXPECT_EQ(ids_of(*each, "a<x>b"), (std::vector<int32_t>{2, 0, 9, 2, 1}));
    EXPECT_EQ(each->encode_behind(0, "b<x>a", true, {}).value(), (std::vector<int32_t>{1, 9, 2, 0}));
    EXPECT_EQ(each->encode_behind(9, "b", true, {}).value(), (std::vector<int32_t>{2, 1}));
    for (const std::string text : {"ab", " ab", "a<x>b", "  <y>  a"}) {
        std::vector<int32_t> whole = ids_of(*tokenizer, "<x>" + text);
        EXPECT_EQ(behind(9, text), std::vector<int32_t>(whole.begin() + 1, whole.end())) << text;
        whole = ids_of(*tokenizer, "<y>" + text);
        EXPECT_EQ(behind(8, text), std::vector<int32_t>(whole.begin() + 1, whole.end())) << text;
        EXPECT_EQ(behind(-1, text), ids_of(*tokenizer, text)) << text;
    }
}

TEST(TokenizerJson, TakesTheLongestOfSeveralAddedTokens) {
    Json base = byte_tokenizer({});
    int id = 300;
    for (const char* token : {"<a", "<a>", "<a>b", "<a>bcd", "a>bcdefg"})
        base["added_tokens"].push_back({{"id", id++}, {"content", token}, {"special", false}, {"normalized", false}});
    base["added_tokens"][2]["special"] = true;
    const auto tokenizer = load(base);
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_EQ(ids_of(*tokenizer, "<a>bc"), (std::vector<int32_t>{302, 'c'}));
    EXPECT_EQ(ids_of(*tokenizer, "<a>bc", false), (std::vector<int32_t>{301, 'b', 'c'}));
    EXPECT_EQ(ids_of(*tokenizer, "<a>bcdefg"), (std::vector<int32_t>{303, 'e', 'f', 'g'}));
    EXPECT_EQ(ids_of(*tokenizer, "<<a"), (std::vector<int32_t>{'<', 300}));
}

TEST(TokenizerJson, RefusesTextThatIsNotUtf8) {
    const auto tokenizer = load(byte_tokenizer({}));
    for (const std::string text : {"\xFF", "a\xC3", "\xED\xA0\x80", "\xC0\x80", "\xF4\x90\x80\x80"}) {
        const auto ids = tokenizer->encode(text, false);
        ASSERT_FALSE(ids);
        EXPECT_EQ(ids.error().code, ErrorCode::invalid_argument);
    }
}

struct BadFile {
    const char* name;
    const char* patch;    // put over a good tokenizer.json
    const char* message;  // part of the error
};

class TokenizerJsonErrors : public ::testing::TestWithParam<BadFile> {};

TEST_P(TokenizerJsonErrors, NameWhatIsWrong) {
    const Json bad = patched(byte_tokenizer({"a b"}), Json::parse(GetParam().patch));
    EXPECT_NE(load_error(bad.dump()).find(GetParam().message), std::string::npos) << load_error(bad.dump());
}

INSTANTIATE_TEST_SUITE_P(
    All, TokenizerJsonErrors,
    ::testing::Values(
        BadFile{"unigram", R"({"model":{"type":"Unigram"}})", "model type 'Unigram' is not supported"},
        BadFile{"word_piece", R"({"model":{"type":"WordPiece"}})", "model type 'WordPiece' is not supported"},
        BadFile{"pre_tokenizer", R"({"pre_tokenizer":{"type":"BertPreTokenizer"}})",
                "pre_tokenizer: type 'BertPreTokenizer'"},
        BadFile{"normalizer", R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"Precompiled"}]}})",
                "normalizer: type 'Precompiled'"},
        BadFile{"decoder", R"({"decoder":{"type":"CTC"}})", "decoder: type 'CTC'"},
        BadFile{"no_decoder", R"({"decoder":null})", "decoder is missing"},
        BadFile{"decoder_order",
                R"({"decoder":{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"ByteFallback"}]}})",
                "'ByteFallback' after Fuse"},
        BadFile{"strip",
                R"({"decoder":{"type":"Sequence","decoders":[{"type":"Fuse"},)"
                R"({"type":"Strip","content":" ","start":2,"stop":0}]}})",
                "Strip is supported for one leading space"},
        BadFile{"decoder_grows", R"({"decoder":{"type":"Replace","pattern":{"String":"a"},"content":"aa"}})",
                "content must be no longer than the pattern"},
        BadFile{"post_processor", R"({"post_processor":{"type":"RobertaProcessing"}})",
                "post_processor: type 'RobertaProcessing'"},
        BadFile{"template_id",
                R"({"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}},)"
                R"({"Sequence":{"id":"A"}}],"special_tokens":{"x":{"ids":[999999]}}}})",
                "id outside the vocabulary"},
        BadFile{"template_twice",
                R"({"post_processor":{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A"}},)"
                R"({"Sequence":{"id":"A"}}]}})",
                "one Sequence"},
        BadFile{"behavior", R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"a"},"behavior":"isolated"}})",
                "behavior must be Removed, Isolated"},
        BadFile{"regex", R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated"}})",
                "regex '(a' does not compile"},
        BadFile{"regex_class",
                R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"[a-z&&[^b]]"},"behavior":"Isolated"}})",
                "'&&' inside [ ] is not supported"},
        BadFile{"merge_names", R"({"model":{"merges":["a zz"]}})",
                "model.merges[0] names 'zz', which is not in the vocabulary"},
        BadFile{"merge_makes", R"({"model":{"merges":["a c"]}})",
                "model.merges[0] makes 'ac', which is not in the vocabulary"},
        BadFile{"merge_form", R"({"model":{"merges":["abc"]}})", "model.merges[0] must be"},
        BadFile{"merge_triple", R"({"model":{"merges":[["a","b","c"]]}})", "model.merges[0] must be"},
        BadFile{"merges_object", R"({"model":{"merges":{}}})", "model.merges must be a list"},
        BadFile{"vocab_list", R"({"model":{"vocab":[]}})", "model.vocab must be an object"},
        BadFile{"vocab_empty", R"({"model":{"vocab":{}}})", "model.vocab is missing or empty"},
        BadFile{"id_text", R"({"model":{"vocab":{"a":"0"}}})", "the id of 'a' must be an integer"},
        BadFile{"id_negative", R"({"model":{"vocab":{"a":-1}}})", "'a' has id -1"},
        BadFile{"id_huge", R"({"model":{"vocab":{"a":18446744073709551615}}})", "ids go from 0 to"},
        BadFile{"id_twice", R"({"model":{"vocab":{"a":0,"b":0}}})", "'b' has id 0, which 'a' has too"},
        BadFile{"unknown_token", R"({"model":{"unk_token":"<none>"}})", "unk_token must be in the vocabulary"},
        BadFile{"prefix", R"({"model":{"continuing_subword_prefix":"##"}})",
                "continuing_subword_prefix '##' is not supported"},
        BadFile{"dropout", R"({"model":{"dropout":0.1}})", "model.dropout"},
        BadFile{"added_conflict", R"({"added_tokens":[{"id":500,"content":"a"}]})",
                "'a' has id 500 here and 97 elsewhere"},
        BadFile{"added_taken", R"({"added_tokens":[{"id":97,"content":"<x>"}]})", "'<x>' has id 97, which 'a' has too"},
        BadFile{"added_empty", R"({"added_tokens":[{"id":500,"content":""}]})", "content must be"},
        BadFile{"added_twice", R"({"added_tokens":[{"id":500,"content":"<x>"},{"id":500,"content":"<x>"}]})",
                "is there twice"},
        BadFile{"added_grows",
                R"({"added_tokens":[{"id":500,"content":"aaaaaaa"}],"normalizer":{"type":"Replace",)"
                R"("pattern":{"String":"a"},"content":"0123456789 123456789 123456789"}})",
                "content must be text that the normalizer makes no longer than 176 bytes"},
        BadFile{"added_no_list", R"({"added_tokens":{}})", "added_tokens must be a list"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(TokenizerJson, RefusesTextThatIsNoTokenizer) {
    EXPECT_NE(load_error("").find("not valid JSON"), std::string::npos);
    EXPECT_NE(load_error("[]").find("not a JSON object"), std::string::npos);
    EXPECT_NE(load_error("{}").find("model must be an object"), std::string::npos);
    EXPECT_NE(load_error(std::string("{}\0x", 4)).find("zero byte"), std::string::npos);
    EXPECT_NE(load_error("{\"a\":" + std::string(100000, '[')).find("nested deeper"), std::string::npos);
    EXPECT_NE(load_error(R"({"model":{"vocab":{"a":0,"a":1}}})").find("token 'a' is there twice"), std::string::npos);
    EXPECT_NE(load_error(R"({"model":{"vocab":{"a":0},"vocab":{"b":1}}})").find("key 'vocab' is there twice"),
              std::string::npos);
    EXPECT_NE(load_error("{\"model\":{\"vocab\":{\"\xFF\":0}}}").find("not valid JSON"), std::string::npos);
}

TEST(TokenizerJson, IdsFarBeyondTheFilesSizeAreRefused) {
    const Json gap = Json::parse(R"({"model":{"vocab":{"x":60000}}})");
    EXPECT_EQ(load_error(patched(byte_tokenizer({}), gap).dump()), "(loaded)");
    EXPECT_NE(load_error(R"({"model":{"vocab":{"x":4194303}}})").find("'x' has id 4194303; ids go from 0 to 655"),
              std::string::npos);
    const Json added = Json::parse(R"({"added_tokens":[{"id":4194303,"content":"<x>"}]})");
    EXPECT_NE(load_error(patched(byte_tokenizer({}), added).dump()).find("in so small a file"), std::string::npos);
}

TEST(TokenizerJson, EveryTruncationIsAnError) {
    const std::string whole = byte_tokenizer({"a b"}).dump();
    for (size_t bytes = 0; bytes < whole.size(); bytes += 7)
        EXPECT_NE(load_error(whole.substr(0, bytes)), "(loaded)") << bytes;
}

}  // namespace
}  // namespace rondo
