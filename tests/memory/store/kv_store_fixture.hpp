#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "config/checked.hpp"
#include "memory/store/kv_store.hpp"
#include "tests/any_file_has.hpp"
#include "tests/memory/store/store_fixture.hpp"

/// A store whose thread is the test's, and rounds for it whose bytes are made from their ids.
namespace rondo::testing {

/// Tasks that other threads post, run by who waits for what they bring.
class Tasks {
public:
    void post(std::function<void()> task) {
        const std::lock_guard lock(mutex_);
        tasks_.push_back(std::move(task));
        any_.notify_all();
    }
    void run_until(const std::function<bool()>& done) {
        std::unique_lock lock(mutex_);
        while (!done()) {
            ASSERT_TRUE(any_.wait_for(lock, std::chrono::seconds(20), [this] { return !tasks_.empty(); }));
            auto task = std::move(tasks_.front());
            tasks_.pop_front();
            lock.unlock();
            task();
            task = nullptr;  // what it holds may post
            lock.lock();
        }
    }
    void run_all() {
        while (true) {
            std::unique_lock lock(mutex_);
            if (tasks_.empty()) return;
            const auto task = std::move(tasks_.front());
            tasks_.pop_front();
            lock.unlock();
            task();
        }
    }

private:
    std::mutex mutex_;
    std::condition_variable any_;
    std::deque<std::function<void()>> tasks_;
};

inline KvKind small_kind() {
    KvKind kind;
    kind.model.fill(std::byte{9});
    kind.layers = 3;
    kind.kv_heads = 1;
    kind.head_dim = 8;
    return kind;
}

inline SealKey::Bytes some_root() {
    SealKey::Bytes root{};
    root.fill(std::byte{0x21});
    return root;
}

class StoreTest : public ::testing::Test {
protected:
    static constexpr const char* method = "some";

    StoreTest() {
        options_.path = folder_.path() + "/kv";
        options_.bytes_max = uint64_t{64} << 20;
        options_.bytes_free_min = 0;
        options_.kind = small_kind();
        options_.segments.segment_bytes = uint64_t{1} << 20;
        options_.now = [this] { return now_; };
        options_.post = [tasks = tasks_](std::function<void()> task) { tasks->post(std::move(task)); };
    }
    ~StoreTest() override {
        close();
        queue_.reset();
    }
    void close() {
        tasks_->run_all();
        store_.reset();
        tasks_->run_all();
    }
    void open() {
        close();
        auto opened = KvStore::open(options_, *queue_);
        ASSERT_TRUE(opened) << opened.error().message;
        store_ = std::move(*opened);
    }

    std::vector<std::filesystem::path> segment_files() const {
        std::vector<std::filesystem::path> files;
        for (const auto& entry : std::filesystem::directory_iterator(options_.path))
            if (Segments::number_of(entry.path().filename()) != 0) files.push_back(entry.path());
        std::ranges::sort(files);
        return files;
    }

    /// So many tokens behind others.
    struct Round {
        std::string tenant = "t";
        RecordIndex::Border before;
        int64_t tokens_before = 0;
        std::vector<int32_t> ids;
        RecordIndex::Border end;
    };
    static Round round(std::string tenant, const Round* before, int32_t first, int count,
                       Exactness exactness = Exactness::exact) {
        Round made;
        made.tenant = std::move(tenant);
        if (before == nullptr) {
            made.before.prefix = name_of_space(made.tenant);
        } else {
            made.before = before->end;
            made.tokens_before = before->tokens_before + std::ssize(before->ids);
        }
        for (int i = 0; i < count; ++i) made.ids.push_back(first + i);
        made.end = {made.before.prefix, exactness};
        for (size_t at = 0; at < made.ids.size(); at += kv_block_tokens)
            made.end.prefix =
                name_of_block(made.end.prefix,
                              std::span(made.ids).subspan(at, std::min<size_t>(kv_block_tokens, made.ids.size() - at)));
        return made;
    }
    RecordHeader header_of(const Round& round) const {
        const auto names = store_->names(LayerGroup::upper, method);
        RecordHeader header;
        header.name = names(round.end);
        header.before = names(round.before);
        header.tenant = store_->tenant_name(round.tenant);
        header.kind = options_.kind;
        header.exactness = round.end.exactness;
        header.tokens_before = round.tokens_before;
        header.ids = round.ids;
        header.layers.resize(static_cast<size_t>(options_.kind.layers));
        return header;
    }
    StoreName name_of(const Round& round) const { return store_->names(LayerGroup::upper, method)(round.end); }
    static size_t padded(const RecordHeader& header) { return round_up<size_t>(header.layer_bytes(), disk_alignment); }
    /// Of a layer of a round, the same at each time.
    static AlignedBytes bytes_of(const RecordHeader& header, size_t layer) {
        AlignedBytes bytes(padded(header));
        std::mt19937_64 random(static_cast<uint64_t>(header.ids.front()) * 1000 + layer);
        for (size_t i = 0; i < header.layer_bytes(); ++i) bytes[i] = static_cast<std::byte>(random());
        return bytes;
    }

    Status wait(const std::function<void(KvStore::Done)>& begin) {
        std::optional<Status> end;
        begin([&end](Status status) { end = std::move(status); });
        tasks_->run_until([&end] { return end.has_value(); });
        return end ? *end : Status(make_error(ErrorCode::timeout, "no end"));
    }
    Status write_layers(const KvStore::WritingPtr& writing, const RecordHeader& header) {
        for (size_t layer = 0; layer < header.layers.size(); ++layer) {
            AlignedBytes bytes = bytes_of(header, layer);
            RONDO_TRY(wait([&](auto done) { store_->write_layer(writing, layer, bytes.span(), std::move(done)); }));
        }
        return Status::ok();
    }
    KvStore::Refusal write(const Round& round, double saved_seconds = 1.0) {
        const RecordHeader header = header_of(round);
        KvStore::Begun begun = store_->begin(header, saved_seconds);
        // A thread of the disk's may have let go of an earlier one, whose end is on its way here.
        while (begun.refusal == KvStore::Refusal::stored_already && store_->index().find(name_of(round)) == nullptr) {
            std::this_thread::yield();
            tasks_->run_all();
            begun = store_->begin(header, saved_seconds);
        }
        if (begun.writing == nullptr) return begun.refusal;
        const Status written = write_layers(begun.writing, header);
        EXPECT_TRUE(written) << written.error().message;
        const Status status = wait([&](auto done) { store_->finish(begun.writing, std::move(done)); });
        EXPECT_TRUE(status) << status.error().message;
        // A thread of the disk's may be letting go of it, too; until then its name is taken.
        const std::weak_ptr<KvStore::Writing> held = std::exchange(begun.writing, nullptr);
        while (!held.expired()) std::this_thread::yield();
        tasks_->run_all();
        return KvStore::Refusal::none;
    }
    Result<KvStore::ReadingPtr> open_record(const StoreName& name, const std::vector<int32_t>& ids) {
        std::optional<Result<KvStore::ReadingPtr>> end;
        store_->read(name, ids, [&end](Result<KvStore::ReadingPtr> result) { end.emplace(std::move(result)); });
        tasks_->run_until([&end] { return end.has_value(); });
        return std::move(*end);
    }
    /// Whether it is there with the bytes that were written; an error where it is not.
    Status check(const Round& round) {
        RONDO_ASSIGN(const auto reading, open_record(name_of(round), round.ids));
        const RecordHeader& header = KvStore::header_of(*reading);
        for (size_t layer = 0; layer < header.layers.size(); ++layer) {
            AlignedBytes bytes(padded(header)), expected = bytes_of(header, layer);
            RONDO_TRY(wait([&](auto done) { store_->read_layer(reading, layer, {bytes.span()}, std::move(done)); }));
            if (!std::ranges::equal(bytes.span(), expected.span()))
                return make_error(ErrorCode::internal, "WRONG BYTES");
        }
        return Status::ok();
    }
    bool is_there(const Round& round) {
        const Status status = check(round);
        EXPECT_TRUE(status || status.error().code == ErrorCode::not_found) << status.error().message;
        return status.is_ok();
    }
    bool any_file_has(std::string_view text) const { return testing::any_file_has(options_.path, text); }

    Folder folder_;
    int64_t now_ = 1'800'000'000;
    std::shared_ptr<Tasks> tasks_ = std::make_shared<Tasks>();
    std::unique_ptr<DiskQueue> queue_ = DiskQueue::open({}).value();
    KvStore::Options options_;
    std::unique_ptr<KvStore> store_;
};

}  // namespace rondo::testing
