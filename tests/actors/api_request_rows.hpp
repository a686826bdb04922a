#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "actors/gateway/bodies/api_error.hpp"

namespace rondo {

constexpr int64_t vocabulary = 100;

template <class Request>
Request accepted(const ApiResult<Request>& request) {
    EXPECT_TRUE(request.is_ok()) << request.error().message;
    return request ? *request : Request{};
}

/// A member that makes an otherwise right body wrong, the parameter its error must name, and a part of its message.
struct WrongMember {
    std::string member;
    std::string param;
    std::string message_part;
};

/// Every row must be refused with status 400, its parameter and one line that tells what it must be. `parse` takes
/// the member.
template <class Parse>
void expect_refused(const std::vector<WrongMember>& rows, const Parse& parse) {
    for (const WrongMember& row : rows) {
        const auto request = parse(row.member);
        ASSERT_FALSE(request.is_ok()) << row.member;
        const ApiError& error = request.error();
        EXPECT_EQ(error.status, 400) << row.member;
        EXPECT_EQ(error.type, "invalid_request_error") << row.member;
        EXPECT_EQ(error.param, row.param) << row.member << ": " << error.message;
        EXPECT_NE(error.message.find(row.message_part), std::string::npos) << row.member << ": " << error.message;
        EXPECT_NE(error.message.find("must be "), std::string::npos) << row.member << ": " << error.message;
        EXPECT_EQ(error.message.find('\n'), std::string::npos) << row.member;
        EXPECT_FALSE(error.code.empty()) << row.member;
    }
}

/// A number's field, and the numbers that are just within and just beyond it.
struct NumberField {
    std::string name;
    std::vector<std::string> right;
    std::vector<std::string> wrong;
    std::string range;  ///< as errors write it
};

/// For each field: what is beyond either end, absurd numbers, other types. Values within and null must pass.
template <class Parse>
void expect_numbers_checked(const std::vector<NumberField>& fields, const Parse& parse) {
    const std::vector<std::string> never = {
        "1e308", "-1e308", "99999999999999999999", "-99999999999999999999", R"("1")", "true", "[]", "[1]",
        "{}",    R"("")"};
    for (const NumberField& field : fields) {
        const auto member = [&](const std::string& value) { return "\"" + field.name + "\":" + value; };
        std::vector<WrongMember> rows;
        for (const auto* values : {&field.wrong, &never}) {
            for (const std::string& value : *values) {
                rows.push_back({member(value), field.name, field.range});
            }
        }
        expect_refused(rows, parse);
        for (const std::string& value : field.right) {
            const auto request = parse(member(value));
            EXPECT_TRUE(request.is_ok()) << field.name << " " << value << ": " << request.error().message;
        }
        const auto null = parse(member("null"));
        EXPECT_TRUE(null.is_ok()) << field.name << ": " << null.error().message;
        for (const char* no_json : {"NaN", "Infinity", "-Infinity", "1e999", "+1", "01", "0x1", "1.", ""}) {
            const auto request = parse(member(no_json));
            ASSERT_FALSE(request.is_ok()) << field.name << " " << no_json;
            EXPECT_EQ(request.error().code, "invalid_json");
        }
    }
}

}  // namespace rondo
