#include "model/format/number_range.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "tests/model/formats.hpp"

namespace rondo {
namespace {

using testing::allowed;
using testing::Allowed;
using testing::format_of;

std::string shown(double value) {
    char text[64];
    std::snprintf(text, sizeof text, "%.15g", value);
    return text;
}

struct Range {
    double least, most;
    bool least_excluded, most_excluded;

    std::string schema(const char* type) const {
        return std::string(R"({"type":")") + type + (least_excluded ? R"(","exclusiveMinimum":)" : R"(","minimum":)") +
               shown(least) + (most_excluded ? R"(,"exclusiveMaximum":)" : R"(,"maximum":)") + shown(most) + "}";
    }
    bool holds(double value) const {
        return (least_excluded ? value > least : value >= least) && (most_excluded ? value < most : value <= most);
    }
};

std::string without_zeros(std::string text) {
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
    return text;
}

TEST(NumberRange, WholeNumbersAreThoseWithin) {
    std::mt19937 random(1);
    for (int round = 0; round < 45; ++round) {
        const int scale = round % 3 == 0 ? 10 : round % 3 == 1 ? 300 : 3000;
        const auto draw = [&] {
            return static_cast<double>(static_cast<int>(random() % (2 * scale)) - scale) / (round % 2 == 0 ? 1 : 2);
        };
        Range range{draw(), draw(), random() % 2 == 0, random() % 2 == 0};
        if (range.least > range.most) std::swap(range.least, range.most);
        const auto made = AnswerFormat::json_schema(range.schema("integer"), "schema");
        for (int value = -scale - 2; value <= scale + 2; ++value) {
            const bool is_in = made && allowed(*made, std::to_string(value)) == Allowed::whole;
            ASSERT_EQ(is_in, range.holds(value)) << value << " " << range.schema("integer");
        }
        if (!made) continue;
        for (const char* text : {"-0", "00", "01", "1.0", "1e1", "+1", "-"})
            EXPECT_NE(allowed(*made, text), Allowed::whole) << text;
    }
}

TEST(NumberRange, FractionsAreThoseWithin) {
    std::mt19937 random(2);
    for (int round = 0; round < 45; ++round) {
        const double part = round % 3 == 0 ? 1 : round % 3 == 1 ? 10 : 1000;
        const auto draw = [&] { return (static_cast<int>(random() % 24'000) - 12'000) / part; };
        Range range{draw(), draw(), random() % 2 == 0, random() % 2 == 0};
        if (range.least > range.most) std::swap(range.least, range.most);
        const auto made = AnswerFormat::json_schema(range.schema("number"), "schema");
        for (int i = 0; i < 300; ++i) {
            char text[64];
            const double spread = i % 2 == 0 ? 1.0 : 0.01;  // about the bounds, too
            const double about = i % 3 == 0 ? range.least : i % 3 == 1 ? range.most : draw();
            std::snprintf(text, sizeof text, "%.*f", i % 6,
                          about + spread * (static_cast<int>(random() % 200) - 100) / 100.0);
            if (std::strtod(text, nullptr) == 0) continue;  // zero's sign is another matter
            const double value = std::strtod(text, nullptr);
            for (const std::string& written :
                 {std::string(text), i % 6 > 0 ? without_zeros(text) : std::string(text)}) {
                const bool is_in = made && allowed(*made, written) == Allowed::whole;
                ASSERT_EQ(is_in, range.holds(value)) << written << " " << range.schema("number");
            }
        }
    }
}

TEST(NumberRange, OneBoundIsEnough) {
    const auto positive = format_of(R"({"type":"number","exclusiveMinimum":0})");
    for (const char* text : {"0.1", "1", "12.5", "123456789012345", "0.00000000000001"})
        EXPECT_EQ(allowed(positive, text), Allowed::whole) << text;
    for (const char* text : {"0", "0.0", "-1", "1e5", "00.1", "0."})
        EXPECT_NE(allowed(positive, text), Allowed::whole) << text;
    const auto share = format_of(R"({"type":"number","minimum":0,"maximum":1})");
    for (const char* text : {"0", "0.0", "1", "1.0", "1.00", "0.999", "0.5"})
        EXPECT_EQ(allowed(share, text), Allowed::whole) << text;
    for (const char* text : {"1.01", "2", "-0.1", "-0"}) EXPECT_NE(allowed(share, text), Allowed::whole) << text;
    const auto below = format_of(R"({"type":"integer","maximum":-5})");
    for (const char* text : {"-5", "-6", "-10", "-999999999999999"})
        EXPECT_EQ(allowed(below, text), Allowed::whole) << text;
    for (const char* text : {"-4", "0", "5"}) EXPECT_NE(allowed(below, text), Allowed::whole) << text;
    const auto tiny = format_of(R"({"type":"number","minimum":1e-20,"maximum":2e-20})");
    EXPECT_EQ(allowed(tiny, "0.000000000000000000015"), Allowed::whole);
    EXPECT_NE(allowed(tiny, "0.00000000000000000003"), Allowed::whole);
}

}  // namespace
}  // namespace rondo
