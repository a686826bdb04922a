#include "config/result.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace rondo {
namespace {

struct Place {
    int line = 0;
};

Result<std::unique_ptr<int>, Place> read(int line) {
    if (line > 3) return Place{line};
    return std::make_unique<int>(line);
}

Result<int, Place> sum(int first, int second) {
    RONDO_ASSIGN(const std::unique_ptr<int> a, read(first));
    RONDO_ASSIGN(const std::unique_ptr<int> b, read(second));
    return *a + *b;
}

Result<bool, Place> both(int first, int second) {
    RONDO_TRY(sum(first, second));
    return true;
}

TEST(Result, CarriesAnErrorOfAnotherTypeThroughItsMacros) {
    EXPECT_EQ(sum(1, 2).value(), 3);
    ASSERT_FALSE(sum(1, 7).is_ok());
    EXPECT_EQ(sum(1, 7).error().line, 7);
    EXPECT_TRUE(both(1, 2).value());
    EXPECT_EQ(both(9, 2).error().line, 9);
}

template <class R>
concept HasStatus = requires(const R& result) {
    result.status();
};

TEST(Result, IsAStatusOnlyWithAnError) {
    static_assert(HasStatus<Result<int>>);
    static_assert(!HasStatus<Result<int, Place>>);
    EXPECT_TRUE(Result<int>(1).status());
    EXPECT_EQ(Result<int>(make_error(ErrorCode::timeout, "late")).status().error().code, ErrorCode::timeout);
}

}  // namespace
}  // namespace rondo
