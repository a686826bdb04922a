// No two seals have the same key and the same number (nonce), whatever kills a process and whatever a disk refuses.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "memory/store/folder_key.hpp"
#include "memory/store/shelf.hpp"
#include "tests/memory/store/child_process.hpp"
#include "tests/memory/store/disk_faults.hpp"
#include "tests/memory/store/fault_amount.hpp"
#include "tests/memory/store/store_work.hpp"

namespace rondo {
namespace {

using testing::ChildProcess;
using testing::DiskFaults;
using testing::fault_amount;

constexpr size_t seal_key_bytes = 32, seal_nonce_bytes = 12;
constexpr int steps_of_sealing_child = 12;

/// Hears the key and the nonce of each seal that begins in this process, as AES-256-GCM gets them.
std::function<void(const std::string& key_and_nonce)> told_of_seal;

std::string hex_of(const unsigned char* bytes, size_t count) {
    constexpr const char* digits = "0123456789abcdef";
    std::string text;
    for (size_t i = 0; i < count; ++i) text.append({digits[bytes[i] >> 4U], digits[bytes[i] & 15U]});
    return text;
}

class StoreKillNonces : public testing::StoreWork {
protected:
    StoreKillNonces() {
        options_.keys.emplace(testing::some_root());
        queue_ = DiskQueue::open({8, DiskQueue::Way::threads}).value();  // what io_uring does is no boundary
        told_of_seal = [this](const std::string& seal) { hear(seal); };
    }
    ~StoreKillNonces() override {
        DiskFaults::end();
        close();
        told_of_seal = nullptr;
    }
    void hear(const std::string& seal) {
        ++seals_;
        nonces_.insert(seal.substr(2 * seal_key_bytes));
        if (!different_.insert(seal).second) again_.push_back(seal);
    }
    /// All seals so far. Some of them have the same nonce, so it is their keys that differ.
    void expect_all_different(size_t seals_min) const {
        EXPECT_TRUE(again_.empty()) << again_.size() << " of " << seals_ << ", as " << again_.front();
        EXPECT_GE(seals_, seals_min);
        EXPECT_LT(nonces_.size(), seals_) << "nothing is shown";
    }
    RecordPlace place_of(const Round& round) const { return store_->index().find(name_of(round))->place; }
    /// As soon as nobody holds an earlier one of that name.
    KvStore::WritingPtr begin_again(const RecordHeader& header) {
        for (int i = 0; i < 10'000; ++i) {
            if (KvStore::Begun begun = store_->begin(header, 1.0); begun.writing != nullptr) return begun.writing;
            tasks_->run_all();
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return nullptr;
    }
    void put_conversation() {
        Shelf shelf(store_->manifest(), store_->keys());
        const std::string text = body_of(1, 1);
        const auto bytes = std::as_bytes(std::span(text));
        ASSERT_TRUE(shelf.put(shelf.name("t", "c"), tenant(), bytes, bytes, {}));
    }
    /// A child works in the folder until it is killed. False: it came to its end.
    bool is_killed(DiskFaults::Kind kind, int64_t at, bool in_middle) {
        std::ostringstream task;
        task << options_.path << ' ' << static_cast<int>(kind) << ' ' << at << ' ' << in_middle << ' ' << first_;
        ChildProcess child("StoreKillNonces.DISABLED_Child", task.str(), folder_.path());
        const std::string output = child.output();
        const int status = child.wait();
        constexpr std::string_view said = "@sealed ";
        std::istringstream lines(output);
        for (std::string line; std::getline(lines, line);)
            if (line.starts_with(said)) hear(line.substr(said.size()));
        first_ += steps_of_sealing_child;
        const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        EXPECT_TRUE(killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) << output;
        return killed;
    }

    size_t seals_ = 0;
    std::set<std::string> different_, nonces_;
    std::vector<std::string> again_;  // had before
    int first_ = 0;                   // of the records that come next
};

/// Says each seal before it is made.
TEST_F(StoreKillNonces, DISABLED_Child) {
    if (ChildProcess::task() == nullptr) GTEST_SKIP() << "a child of other tests";
    told_of_seal = [](const std::string& seal) { ChildProcess::say("sealed " + seal); };
    std::istringstream in(ChildProcess::task());
    DiskFaults::Plan plan;
    int kind = 0;
    in >> plan.folder >> kind >> plan.from >> plan.in_middle >> first_;
    plan.kind = static_cast<DiskFaults::Kind>(kind);
    plan.seed = static_cast<uint64_t>(plan.from);
    options_.path = plan.folder;
    DiskFaults::begin(plan);
    open();
    ASSERT_TRUE(store_);
    work(0, first_, steps_of_sealing_child);
    close();
    DiskFaults::end();
}

class StoreKilledNonces : public StoreKillNonces, public ::testing::WithParamInterface<DiskFaults::Kind> {};

INSTANTIATE_TEST_SUITE_P(Disk, StoreKilledNonces,
                         ::testing::Values(DiskFaults::Kind::kill, DiskFaults::Kind::kill_and_forget),
                         [](const auto& of) { return of.param == DiskFaults::Kind::kill ? "keeps" : "forgets"; });

/// One folder sees all kills, and each start goes on in it.
TEST_P(StoreKilledNonces, AreNeverUsedTwiceUnderOneKey) {
    int64_t kills = 0;
    for (const bool in_middle : {false, true}) {
        for (int64_t at = 1 + in_middle; !HasFailure(); at += fault_amount(29, 1)) {
            const ::testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(at));
            if (!is_killed(GetParam(), at, in_middle)) break;  // it has fewer boundaries
            ++kills;
            open();
            ASSERT_TRUE(store_);
            EXPECT_EQ(write(numbered(first_), worth(numbered(first_))), KvStore::Refusal::none);
            ++first_;
            close();
        }
    }
    std::cout << kills << " kills, " << seals_ << " seals, of which " << nonces_.size() << " nonces differ\n";
    EXPECT_GE(kills, fault_amount(4, 150));
    expect_all_different(static_cast<size_t>(fault_amount(40, 1000)));
}

/// The same record at the same place of a file of the same name, which is another file.
TEST_F(StoreKillNonces, AFileWithTheNumberOfAnotherHasAKeyOfItsOwn) {
    const Round round = numbered(1);
    std::optional<RecordPlace> place;
    for (int start = 0; start < 3; ++start) {
        open();
        ASSERT_TRUE(store_);
        ASSERT_EQ(write(round), KvStore::Refusal::none);
        EXPECT_TRUE(!place || *place == place_of(round)) << place_of(round).segment << ' ' << place_of(round).offset;
        place = place_of(round);
        EXPECT_TRUE(is_there(round));
        put_conversation();
        ASSERT_TRUE(store_->remove(name_of(round)));
        open();  // removes the file, and knows its number until it ends
        ASSERT_TRUE(segment_files().empty());
    }
    expect_all_different(3 * (4 + 3));
}

/// The place of a record that a disk refused is not given to another one.
TEST_F(StoreKillNonces, WhatWasRefusedIsSealedAnewElsewhere) {
    open();
    ASSERT_TRUE(store_);
    const RecordHeader header = header_of(numbered(0));
    for (int i = 0; i < 3; ++i) {
        const KvStore::WritingPtr writing = begin_again(header);
        ASSERT_NE(writing, nullptr);
        DiskFaults::begin({options_.path, DiskFaults::Kind::no_space, 1, 1000});
        EXPECT_FALSE(write_layers(writing, header));
        DiskFaults::end();
    }
    std::set<uint64_t> offsets;
    for (int i = 1; i < 4; ++i) {  // what is removed leaves its place free, and nobody gets it
        ASSERT_EQ(write(numbered(i)), KvStore::Refusal::none);
        EXPECT_TRUE(offsets.insert(place_of(numbered(i)).offset).second);
        EXPECT_TRUE(is_there(numbered(i)));
        ASSERT_TRUE(store_->remove(name_of(numbered(i))));
    }
    open();  // the same places come again, in another file
    ASSERT_EQ(write(numbered(4)), KvStore::Refusal::none);
    EXPECT_TRUE(is_there(numbered(4)));
    expect_all_different(3 + 4 * 4);
}

/// An operator's key seals nothing but keys of folders, each time under another nonce.
TEST_F(StoreKillNonces, AFoldersKeyIsSealedUnderAnotherNonceEachTime) {
    const auto key = [](int byte) {
        SealKey::Bytes made{};
        made.fill(static_cast<std::byte>(byte));
        return made;
    };
    const auto folder = StoreFolder::open(options_.path);
    ASSERT_TRUE(folder);
    for (const int first : {1, 2, 1, 2, 1}) {
        KeyFile file(key(first));
        file.add(key(3 - first));
        ASSERT_TRUE(FolderKey::open(*folder, file));
    }
    std::set<std::string> keys;
    for (const std::string& seal : different_) keys.insert(seal.substr(0, 2 * seal_key_bytes));
    EXPECT_EQ(keys.size(), 2U) << "each comes again";
    EXPECT_EQ(seals_, 5U);
    EXPECT_EQ(different_.size(), 5U);
}

}  // namespace
}  // namespace rondo

// Under a name of our own for the compiler, as in disk_faults.cpp: whoever seals comes by here.
extern "C" int heard_encrypt_init(EVP_CIPHER_CTX* context, const EVP_CIPHER* cipher, ENGINE* engine,
                                  const unsigned char* key, const unsigned char* nonce) __asm__("EVP_EncryptInit_ex");
extern "C" __attribute__((visibility("default"))) int heard_encrypt_init(EVP_CIPHER_CTX* context,
                                                                         const EVP_CIPHER* cipher, ENGINE* engine,
                                                                         const unsigned char* key,
                                                                         const unsigned char* nonce) {
    using Init = int(EVP_CIPHER_CTX*, const EVP_CIPHER*, ENGINE*, const unsigned char*, const unsigned char*);
    static Init* const next = reinterpret_cast<Init*>(dlsym(RTLD_NEXT, "EVP_EncryptInit_ex"));
    using namespace rondo;
    if (told_of_seal && key != nullptr && nonce != nullptr)
        told_of_seal(hex_of(key, seal_key_bytes) + hex_of(nonce, seal_nonce_bytes));
    return next(context, cipher, engine, key, nonce);
}
