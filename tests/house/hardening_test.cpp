// Checks the protections that compiler and linker put into the program, on the program itself: a flag that is lost on
// the way changes nothing that another test would see.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

namespace rondo::house {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

/// What readelf, of the compiler's own binutils, says of the program.
std::string read_elf(const std::string& options) {
    const std::string command = "readelf --wide " + options + " '" RONDO_PROGRAM "' 2>&1";
    FILE* const pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return "readelf did not start";
    std::string text;
    std::array<char, 4096> piece;
    while (const size_t bytes = fread(piece.data(), 1, piece.size(), pipe)) text.append(piece.data(), bytes);
    EXPECT_EQ(pclose(pipe), 0) << text;
    return text;
}

TEST(Hardening, TheProgramIsLoadedAnywhere) {
    EXPECT_THAT(read_elf("--file-header"), ContainsRegex("Type: +DYN"));
    EXPECT_THAT(read_elf("--dynamic"), AllOf(ContainsRegex("FLAGS_1.*PIE"), Not(HasSubstr("TEXTREL"))));
}

TEST(Hardening, WhatTheLoaderFillsInIsReadOnlyBeforeTheProgramRuns) {
    EXPECT_THAT(read_elf("--program-headers"), HasSubstr("GNU_RELRO"));
    EXPECT_THAT(read_elf("--dynamic"), AllOf(ContainsRegex("FLAGS.*BIND_NOW"), ContainsRegex("FLAGS_1.*NOW")));
}

TEST(Hardening, NoMemoryIsBothWrittenAndRun) {
    EXPECT_THAT(read_elf("--program-headers"), AllOf(ContainsRegex("GNU_STACK.* RW "), Not(HasSubstr("RWE"))));
}

TEST(Hardening, OverflowsEndTheProgram) {
    const std::string symbols = read_elf("--dyn-syms");
    EXPECT_THAT(symbols, HasSubstr(" __stack_chk_fail@GLIBC"));
    EXPECT_THAT(symbols, ContainsRegex(" __(memcpy|memmove|read|snprintf|vsnprintf)_chk@GLIBC"));
    EXPECT_THAT(symbols, HasSubstr("__glibcxx_assert_fail"));
}

}  // namespace
}  // namespace rondo::house
