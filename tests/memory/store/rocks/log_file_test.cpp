#include "memory/store/rocks/log_file.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "memory/store/rocks/description.hpp"
#include "tests/memory/store/fault_amount.hpp"

namespace rondo {
namespace {

using testing::fault_amount;

std::vector<std::string> some_records() {
    std::vector<std::string> records;
    std::mt19937_64 random(5);
    for (const size_t bytes : {0UL, 1UL, 100UL, 32'000UL, 32'761UL, 700UL, 100'000UL, 32'754UL, 5UL, 40'000UL}) {
        std::string record(bytes, '\0');
        for (char& byte : record) byte = static_cast<char>(random());
        records.push_back(record);
    }
    return records;
}

std::string file_of(const std::vector<std::string>& records) {
    std::string file;
    for (const std::string& record : records) append_log_record(file, record);
    return file;
}

struct ReadLog {
    std::vector<std::string> records;
    bool whole = false;
};

ReadLog read(std::string_view file) {
    ReadLog log;
    log.whole = each_log_record(file, [&](std::string_view record) { log.records.emplace_back(record); });
    return log;
}

bool is_begin_of(const std::vector<std::string>& some, const std::vector<std::string>& all) {
    return some.size() <= all.size() && std::equal(some.begin(), some.end(), all.begin());
}

TEST(LogFile, WhatIsAppendedIsRead) {
    const auto records = some_records();
    const ReadLog log = read(file_of(records));
    EXPECT_TRUE(log.whole);
    EXPECT_EQ(log.records, records);
}

TEST(LogFile, ACutLosesTheEndAlone) {
    const auto records = some_records();
    const std::string file = file_of(records);
    for (size_t size = 0; size < file.size(); size += 997) {
        const ReadLog log = read(std::string_view(file).substr(0, size));
        EXPECT_TRUE(log.whole) << size;
        EXPECT_TRUE(is_begin_of(log.records, records)) << size;
    }
}

TEST(LogFile, ADamagedRecordEndsIt) {
    const auto records = some_records();
    const std::string file = file_of(records);
    std::mt19937_64 random(6);
    for (int64_t turn = 0; turn < fault_amount(300, 20'000); ++turn) {
        std::string bad = file;
        bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
        const ReadLog log = read(bad);
        EXPECT_TRUE(is_begin_of(log.records, records));
        EXPECT_TRUE(!log.whole || log.records == records) << "a wrong length is no cut";
    }
}

TEST(Description, SaysWhatWasWritten) {
    const auto read = read_description(write_description(300, 70'000));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->first_log, 300U);
    EXPECT_TRUE(read->tables.empty());
    EXPECT_FALSE(read_description(""));
    std::string file;
    append_log_record(file, "\x07what was never written");
    EXPECT_FALSE(read_description(file));
}

}  // namespace
}  // namespace rondo
