#include "model/attention/query_ring.hpp"

#include <gtest/gtest.h>

#include "model/attention/step_attention.hpp"
#include "tests/model/tiny_engine.hpp"

namespace rondo {
namespace {

using testing::need;

class Ring : public ::testing::Test {
protected:
    static constexpr int64_t width = 32;

    /// Keeps `rows` queries, the last one key `keys` - 1; every element of a key's query is its number.
    int64_t keep(int64_t rows, int64_t keys) {
        std::vector<float> q(static_cast<size_t>(rows * width));
        for (int64_t row = 0; row < rows; ++row)
            std::fill_n(q.begin() + row * width, width, static_cast<float>(keys - rows + row));
        need(ring_.keep(*device_, 0, Tensor::of(q.data(), DType::f32, rows, width), keys));
        return ring_.kept_from(0);
    }
    /// The query that is looked at for a key.
    float looked_at(int32_t key) {
        std::vector<float> query(width);
        need(ring_.copy(*device_, 0, key, query.data()));
        return query[0];
    }

    const ModelSpec spec_ = [] {
        ModelSpec spec;
        spec.layers = spec.heads = spec.kv_heads = 1;
        spec.head_dim = width;
        return spec;
    }();
    const std::unique_ptr<Device> device_ = need(open_device(need(parse_device("cpu:1"))));
    QueryRing ring_ = need(QueryRing::create(spec_, *device_, 8));
};

TEST_F(Ring, HoldsTheLastQueries) {
    EXPECT_EQ(keep(5, 5), 0);
    EXPECT_EQ(keep(1, 6), 0);
    EXPECT_EQ(keep(20, 26), 18);
    EXPECT_EQ(keep(3, 29), 18);
    for (int32_t key = 21; key < 29; ++key) EXPECT_EQ(looked_at(key), static_cast<float>(key));
}

TEST_F(Ring, QueriesBeforeAGapDoNotCount) {
    EXPECT_EQ(keep(3, 40), 37) << "of a prompt whose beginning was known";
    EXPECT_EQ(keep(1, 41), 37);
    EXPECT_EQ(keep(2, 50), 48);
}

TEST_F(Ring, BehindARewindThoseCountThatWereNotOverwritten) {
    keep(20, 20);
    EXPECT_EQ(keep(1, 16), 12);
    for (int32_t key = 12; key < 16; ++key) EXPECT_EQ(looked_at(key), static_cast<float>(key));
    EXPECT_EQ(keep(2, 9), 7) << "further back than anything that is there";
}

TEST(StepAttentionTest, APromptsLastQueriesAreComputedWhereAChoiceLooksAtThem) {
    const auto rows = [](DecodeAttention::Method method, int cold) {
        return StepAttention::prompt_rows(
            {.method = method, .reselect_every = 16, .cold_tokens = cold, .observe = 16, .window = 8});
    };
    using Method = DecodeAttention::Method;
    EXPECT_EQ(rows(Method::dense, 2), 1);
    EXPECT_EQ(rows(Method::progressive, 16), 1);
    EXPECT_EQ(rows(Method::progressive, 2), 14);
    EXPECT_EQ(rows(Method::progressive, 0), 16);
    EXPECT_EQ(rows(Method::snapkv, 2), 8);
    EXPECT_EQ(rows(Method::random, 0), 1);
}

}  // namespace
}  // namespace rondo
