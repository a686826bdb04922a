#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>

#include "model/sampler.hpp"

namespace rondo {
namespace {

struct Field {
    const char* name;
    double low, high;
    bool whole;
    std::function<void(SamplingParams&, double)> set;
};

/// The conversion a careless reader of JSON would make, without its undefined behaviour.
int as_int(double value) {
    if (std::isnan(value)) return std::numeric_limits<int>::min();
    return static_cast<int>(std::clamp(value, -2147483648.0, 2147483647.0));
}

TEST(SamplingParams, EveryFieldOutOfRangeIsRefusedByNameAndRange) {
    constexpr int64_t vocabulary = 1000;
    const Field fields[] = {
        {"temperature", 0, 2, false, [](auto& p, double v) { p.temperature = static_cast<float>(v); }},
        {"top_k", 0, 1000, true, [](auto& p, double v) { p.top_k = as_int(v); }},
        {"min_p", 0, 1, false, [](auto& p, double v) { p.min_p = static_cast<float>(v); }},
        {"repetition_penalty", 0.125, 8, false,
         [](auto& p, double v) { p.repetition_penalty = static_cast<float>(v); }},
        {"presence_penalty", -2, 2, false, [](auto& p, double v) { p.presence_penalty = static_cast<float>(v); }},
        {"frequency_penalty", -2, 2, false, [](auto& p, double v) { p.frequency_penalty = static_cast<float>(v); }},
        {"logprobs", -1, 20, true, [](auto& p, double v) { p.logprobs = as_int(v); }},
        {"logit_bias[5]", -100, 100, false,
         [](auto& p, double v) {
             p.logit_bias = {{5, static_cast<float>(v)}};
         }},
        {"logit_bias token id", 0, 999, true,
         [](auto& p, double v) {
             p.logit_bias = {{as_int(v), 1.0F}};
         }},
        {"logit_bias entries", 0, 1024, true,
         [](auto& p, double v) { p.logit_bias.resize(static_cast<size_t>(std::clamp(v, 0.0, 5000.0))); }},
    };
    for (const Field& field : fields) {
        for (const double value : {field.low, field.high}) {
            SamplingParams params;
            field.set(params, value);
            EXPECT_TRUE(params.check(vocabulary)) << field.name << " " << value;
        }
        for (const double value : {field.low - 1, field.high + 1, -1.0, 2147483647.0, std::nan(""), 1e308, -1e308}) {
            if (value >= field.low && value <= field.high) continue;
            if (std::string(field.name) == "logit_bias entries" && !(value > field.high)) continue;
            SamplingParams params;
            field.set(params, value);
            const Status status = params.check(vocabulary);
            ASSERT_FALSE(status) << field.name << " " << value;
            const std::string& message = status.error().message;
            EXPECT_TRUE(message.starts_with(std::string(field.name) + ": is ")) << message;
            char range[64];
            std::snprintf(range, sizeof range, "must be %g to %g", field.low, field.high);
            EXPECT_TRUE(message.ends_with(range)) << message;
        }
    }
}

TEST(SamplingParams, TopPIsAboveZero) {
    for (const float right : {1.0F, 0.5F, std::numeric_limits<float>::denorm_min()})
        EXPECT_TRUE(SamplingParams{.top_p = right}.check(10)) << right;
    for (const float wrong : {0.0F, -0.0F, -0.5F, 1.01F, std::numeric_limits<float>::quiet_NaN()}) {
        const Status status = SamplingParams{.top_p = wrong}.check(10);
        ASSERT_FALSE(status) << wrong;
        EXPECT_TRUE(status.error().message.ends_with("must be above 0 to 1")) << status.error().message;
    }
}

}  // namespace
}  // namespace rondo
