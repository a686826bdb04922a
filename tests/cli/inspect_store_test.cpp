#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/cli/rondo_process.hpp"
#include "tests/flip_bit.hpp"
#include "tests/memory/store/kv_store_fixture.hpp"

namespace rondo {
namespace {

namespace fs = std::filesystem;

using testing::expect_error;
using testing::expect_failure;
using ::testing::HasSubstr;
using testing::run_json;
using testing::run_rondo;
using Refusal = KvStore::Refusal;

class InspectStore : public testing::StoreTest {
protected:
    std::string folder() const { return options_.path; }
    /// The store's key, in a file.
    std::string key_file() const {
        const std::string path = folder_.path() + "/key";
        std::ofstream file(path);
        for (size_t i = 0; i < sizeof(SealKey::Bytes); ++i) file << "21";
        file.close();
        chmod(path.c_str(), S_IRUSR | S_IWUSR);
        return path;
    }
};

TEST_F(InspectStore, AMissingFolderIsNotMade) {
    expect_failure(run_rondo({"inspect", "store", folder()}), "/kv: No such file or directory");
    EXPECT_FALSE(fs::exists(folder()));
    expect_failure(run_rondo({"inspect", "store", folder_.path()}), "there is no store's manifest");
    expect_error(run_rondo({"inspect", "store"}), 2, "required");
    expect_error(run_rondo({"inspect", "store", folder(), "--key-file", "k"}), 2, "--verify");
}

TEST_F(InspectStore, AnEmptyStoreHasNothing) {
    open();
    expect_failure(run_rondo({"inspect", "store", folder()}), "another process has this store open");
    close();
    const auto json = run_json({"inspect", "store", folder()});
    for (const char* number : {"records", "bytes", "tokens", "sealed", "conversations", "proved"})
        EXPECT_EQ(json.at(number), 0) << number;
    for (const char* list : {"kinds", "tenants", "segments", "damaged"}) EXPECT_EQ(json.at(list).size(), 0U) << list;
    const auto plain = run_rondo({"inspect", "store", folder(), "--verify"});
    EXPECT_EQ(plain.status, 0);
    EXPECT_EQ(plain.err, "");
    EXPECT_THAT(plain.out, HasSubstr("records                  0\n"));
}

TEST_F(InspectStore, RecordsAreCountedAndDamageIsStatusOne) {
    open();
    const Round one = round("a", nullptr, 0, 40), other = round("b", nullptr, 0, 20);
    for (const Round& written : {one, other}) ASSERT_EQ(write(written), Refusal::none);
    const RecordPlace place = store_->index().find(name_of(one))->place;
    close();
    const auto json = run_json({"inspect", "store", folder(), "--verify"});
    EXPECT_EQ(json.at("records"), 2);
    EXPECT_EQ(json.at("tokens"), 60);
    EXPECT_EQ(json.at("proved"), 2);
    EXPECT_EQ(json.at("sealed"), 0);
    EXPECT_EQ(json.at("kinds").size(), 1U);
    EXPECT_EQ(json.at("tenants").size(), 2U);
    EXPECT_EQ(json.at("tenants").at(0).at("tenant").get<std::string>().size(), 16U);
    EXPECT_EQ(json.at("segments").at(0).at("records"), 2);
    EXPECT_EQ(json.at("damaged").size(), 0U);

    const std::string segment = Segments::name_of(place.segment);
    testing::flip_bit(folder() + "/" + segment, place.offset + place.bytes - 1);
    EXPECT_EQ(run_rondo({"inspect", "store", folder()}).status, 0) << "it does not read what is damaged";
    const auto damaged = run_rondo({"inspect", "store", folder(), "--verify"});
    EXPECT_EQ(damaged.status, 1);
    EXPECT_THAT(damaged.out, HasSubstr("damaged                  1\n"));
    EXPECT_THAT(damaged.out, HasSubstr("\n" + segment));
    EXPECT_THAT(damaged.out, ::testing::ContainsRegex("\ndamaged record [0-9a-f]+: layer 2: [^\n]+\n$"));
    EXPECT_THAT(damaged.err, HasSubstr("the store is damaged (records and conversations: 1)\n"));
}

TEST_F(InspectStore, WhatIsSealedIsProvedWithItsKeyFile) {
    options_.keys.emplace(testing::some_root());
    open();
    ASSERT_EQ(write(round("a", nullptr, 0, 40)), Refusal::none);
    close();
    const std::string key = key_file();
    const auto without = run_json({"inspect", "store", folder(), "--verify"});
    EXPECT_EQ(without.at("sealed"), 1);
    EXPECT_EQ(without.at("proved"), 0);
    EXPECT_EQ(without.at("damaged").size(), 0U);
    const auto with = run_json({"inspect", "store", folder(), "--verify", "--key-file", key});
    EXPECT_EQ(with.at("sealed"), 1);
    EXPECT_EQ(with.at("proved"), 1);
    chmod(key.c_str(), 0644);
    expect_failure(run_rondo({"inspect", "store", folder(), "--verify", "--key-file", key}), "chmod 600");
}

}  // namespace
}  // namespace rondo
