#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "kernels/backend.hpp"
#include "model/generator.hpp"
#include "model/model.hpp"
#include "tests/cli/rondo_process.hpp"
#include "tests/model/golden_models.hpp"
#include "tests/model/model_bytes.hpp"

namespace rondo {
namespace {

using testing::expect_failure;
using ::testing::HasSubstr;
using testing::joined;
using testing::run_json;
using testing::run_rondo;
using testing::TemporaryFolder;

const std::vector<int32_t> some_ids = {84, 104, 101, 32,  300, 265, 261, 275, 1, 2,
                                       3,  255, 256, 511, 639, 0,   7,   7,   7, 100};

struct Npy {
    std::string header;
    std::vector<float> values;
};

/// Reads what numpy would: format 1.0, its header padded to 64 bytes, then little-endian floats.
Npy read_npy(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    EXPECT_GE(bytes.size(), 10U);
    EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
    const size_t length = static_cast<unsigned char>(bytes[8]) + 256U * static_cast<unsigned char>(bytes[9]);
    EXPECT_EQ((10 + length) % 64, 0U);
    EXPECT_GE(bytes.size(), 10 + length);
    Npy npy{bytes.substr(10, length), std::vector<float>((bytes.size() - 10 - length) / sizeof(float))};
    EXPECT_EQ(npy.header.back(), '\n');
    std::memcpy(npy.values.data(), bytes.data() + 10 + length, npy.values.size() * sizeof(float));
    return npy;
}

std::vector<float> engine_logits(const std::filesystem::path& path, std::span<const int32_t> ids) {
    const auto device = open_device(parse_device("cpu:2").value()).value();
    const Model model = load_model(path, {}, *device).value();
    const auto generator = Generator::create(model, *device, {}).value();
    std::vector<float> all;
    const Status status =
        generator->score(ids, [&](std::span<const float> rows) { all.insert(all.end(), rows.begin(), rows.end()); });
    EXPECT_TRUE(status.is_ok());
    return all;
}

TEST(Score, LogitsFileHoldsWhatTheEngineComputes) {
    const TemporaryFolder folder;
    const auto file = folder.path() / "logits.npy";
    const auto outcome =
        run_rondo({"score", "--tokens", joined(some_ids), "--logits", file.string(), "--threads", "2"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    const Npy npy = read_npy(file);
    EXPECT_THAT(npy.header, HasSubstr("'descr': '<f4'"));
    EXPECT_THAT(npy.header, HasSubstr("'fortran_order': False"));
    EXPECT_THAT(npy.header, HasSubstr("'shape': (20, 640)"));
    EXPECT_EQ(npy.values, engine_logits(demo_model_path(), some_ids));
}

TEST(Score, LogitsMatchTheIndependentReference) {
    const golden::Case model_case = golden::read_cases("qwen3").at(8);
    const golden::Folder model(model_case, DType::f32);
    const TemporaryFolder folder;
    const auto file = folder.path() / "logits.npy";
    for (const char* chunk : {"7", "512"}) {
        const auto outcome = run_rondo({"score", "--model", model.path(), "--tokens", joined(model_case.ids), "--kv",
                                        "f32", "--chunk", chunk, "--logits", file.string()});
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        const std::vector<float> all = read_npy(file).values;
        ASSERT_EQ(all.size(), model_case.ids.size() * static_cast<size_t>(model_case.vocabulary));
        std::vector<float> chosen;
        for (const int64_t row : model_case.rows) {
            const auto begin = all.begin() + row * model_case.vocabulary;
            chosen.insert(chosen.end(), begin, begin + model_case.vocabulary);
        }
        EXPECT_LE(golden::relative_error(chosen, model_case.f32), 1e-5) << model_case.name << ", chunk " << chunk;
    }
}

TEST(Score, LogprobsAreTheSoftmaxOfTheLogits) {
    const TemporaryFolder folder;
    const auto file = folder.path() / "logits.npy";
    const auto json = run_json({"score", "--tokens", joined(some_ids), "--logits", file.string()});
    EXPECT_EQ(json.at("ids").get<std::vector<int32_t>>(), some_ids);
    const auto logprobs = json.at("logprobs").get<std::vector<double>>();
    ASSERT_EQ(logprobs.size(), some_ids.size() - 1);
    const std::vector<float> logits = read_npy(file).values;
    double total = 0.0;
    for (size_t i = 0; i < logprobs.size(); ++i) {
        const auto row = std::span(logits).subspan(i * 640, 640);
        double sum = 0.0;
        for (const float logit : row) sum += std::exp(static_cast<double>(logit));
        const double expected = row[static_cast<size_t>(some_ids[i + 1])] - std::log(sum);
        EXPECT_NEAR(logprobs[i], expected, 1e-4) << "position " << i;
        total += logprobs[i];
    }
    EXPECT_NEAR(json.at("perplexity").get<double>(), std::exp(-total / static_cast<double>(logprobs.size())), 1e-6);
}

TEST(Score, TextIsTokenizedFirst) {
    const auto json = run_json({"score", "--text", "The code of the red box"});
    EXPECT_EQ(json.at("ids"), run_json({"tokenize", "--text", "The code of the red box"}).at("ids"));
    const auto plain = run_rondo({"score", "--text", "The code of the red box"});
    EXPECT_EQ(plain.status, 0);
    EXPECT_THAT(plain.out, ::testing::MatchesRegex("[0-9]+ tokens, log-probability -[0-9.]+, perplexity [0-9.]+\n"));
}

TEST(Score, BadInputIsRefused) {
    expect_failure(run_rondo({"score", "--tokens", ""}), "nothing to score");
    expect_failure(run_rondo({"score", "--text", ""}), "nothing to score");
    expect_failure(run_rondo({"score", "--tokens", "1,640"}), "must be 0 to 639");
    expect_failure(run_rondo({"score", "--text", "\xff"}), "UTF-8");
    expect_failure(run_rondo({"score", "--tokens", "1,2", "--logits", "/no/such/folder/out.npy"}), "cannot be written");
    std::string ids = "1";
    for (int i = 0; i < 4096; ++i) ids += ",1";
    expect_failure(run_rondo({"score", "--tokens", ids}), "4097 tokens, must be at most the context of 4096");
    if (std::filesystem::exists("/dev/full")) {
        expect_failure(run_rondo({"score", "--tokens", "1,2,3", "--logits", "/dev/full"}),
                       "could not be written whole");
    }
}

}  // namespace
}  // namespace rondo
