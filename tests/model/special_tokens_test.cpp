#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "model/model_files.hpp"
#include "tests/model/model_bytes.hpp"

namespace rondo {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;
using testing::TemporaryFolder;

/// Where a model's folder says which its first and its last token are.
class SpecialTokens : public ::testing::Test {
protected:
    SpecialTokens() { folder_.write("config.json", testing::tiny_config); }
    void configure(const std::string& json) const { folder_.write("tokenizer_config.json", json); }
    void map(const std::string& json) const { folder_.write("special_tokens_map.json", json); }
    /// BOS and EOS, or the error.
    std::pair<std::string, std::string> tokens() const {
        const auto files = open_model_files(folder_.path(), {}, WeightsNeed::not_read);
        if (!files) return {"error", files.error().message};
        return {files->bos_token, files->eos_token};
    }

private:
    const TemporaryFolder folder_;
};

TEST_F(SpecialTokens, ComeFromTheirMapWhereTheConfigurationHasNone) {
    map(R"({"bos_token":"<b>","eos_token":{"content":"<e>","lstrip":false},"unk_token":7})");
    EXPECT_THAT(tokens(), Pair("<b>", "<e>")) << "without a tokenizer_config.json";
    configure("{}");
    EXPECT_THAT(tokens(), Pair("<b>", "<e>"));
    configure(R"({"bos_token":{"content":"<c>"}})");
    EXPECT_THAT(tokens(), Pair("<c>", "<e>"));
    configure(R"({"bos_token":null,"eos_token":null})");
    EXPECT_THAT(tokens(), Pair("", "")) << "a null says that there is none";
    map(R"({"bos_token":null})");
    configure(R"({"tokenizer_class":"LlamaTokenizer"})");
    EXPECT_THAT(tokens(), Pair("", "</s>"));
}

TEST_F(SpecialTokens, ComeFromTheClassWhereNoFileHasThem) {
    EXPECT_THAT(tokens(), Pair("", ""));
    configure(R"({"tokenizer_class":"LlamaTokenizerFast"})");
    EXPECT_THAT(tokens(), Pair("<s>", "</s>"));
    configure(R"({"tokenizer_class":"Qwen2Tokenizer"})");
    EXPECT_THAT(tokens(), Pair("", "<|endoftext|>"));
    configure(R"({"tokenizer_class":"PreTrainedTokenizerFast"})");
    EXPECT_THAT(tokens(), Pair("", ""));
    for (const char* odd : {"", "Fast", "LlamaTokenizerFastFast"}) {
        configure(std::string(R"({"tokenizer_class":")") + odd + "\"}");
        EXPECT_THAT(tokens(), Pair("", "")) << odd;
    }
}

TEST_F(SpecialTokens, AWrongMapIsNamed) {
    for (const auto& [json, message] : {std::pair(R"({"eos_token":3})", "eos_token must be a string"),
                                        {R"({"bos_token":{"content":null}})", "bos_token.content must be a string"},
                                        {"[]", "not a JSON object"},
                                        {"{", "JSON"}}) {
        map(json);
        EXPECT_THAT(tokens().second, HasSubstr("special_tokens_map.json: ")) << json;
        EXPECT_THAT(tokens().second, HasSubstr(message)) << json;
    }
}

}  // namespace
}  // namespace rondo
