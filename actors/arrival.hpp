#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

namespace rondo {

/// How much has come of keys that are read back for a prompt, layer by layer: told by the store, asked by the stage
/// that computes behind them. Safe from any thread.
class Arrival {
public:
    static constexpr double for_ever = 0.0;

    enum class Why : uint8_t { not_wanted, hangs };  ///< nothing has come for too long
    /// Keys of tokens [begin, end) in so many layers are on their way. Whoever waits for them does so as long as in
    /// `patience` seconds something comes. `unwanted` is called when nobody waits any more, at most once, on any
    /// thread.
    ///
    /// Where keys before them are computed meanwhile, `computed_ahead` says so once these are there.
    Arrival(int64_t begin, int64_t end, int layers, double patience, std::function<void(Why)> unwanted)
        : begin_(begin), end_(end), layers_(layers), patience_(patience), unwanted_(std::move(unwanted)) {}

    int64_t begin() const { return begin_; }
    int64_t end() const { return end_; }
    /// In seconds, or `for_ever`.
    double patience() const {
        const std::lock_guard lock(mutex_);
        return patience_;
    }
    /// From now on, however long nothing comes.
    void wait_for_ever() {
        const std::lock_guard lock(mutex_);
        patience_ = for_ever;
    }

    /// The keys of layers [0, layers) are there.
    void come(int layers) {
        const std::lock_guard lock(mutex_);
        come_ = layers;
        if (changed_) changed_();
    }
    /// Nothing more comes: those of tokens up to `whole` are there, in every layer.
    void finish(int64_t whole) {
        const std::lock_guard lock(mutex_);
        whole_ = whole;
        if (changed_) changed_();
    }
    /// Whoever waits computes what stands before them: `computed` is called once that is there, on any thread, unless
    /// the rest is given up before.
    void expect_ahead(std::function<void()> computed) {
        const std::lock_guard lock(mutex_);
        ahead_ = std::move(computed);
    }
    void computed_ahead() {
        std::function<void()> computed;
        const std::lock_guard lock(mutex_);
        std::swap(computed, ahead_);
        if (computed) computed();
    }
    /// Calls at each change from now on, on any thread; it must only send a message.
    void tell(std::function<void()> changed) {
        const std::lock_guard lock(mutex_);
        changed_ = std::move(changed);
    }
    /// The rest is not waited for.
    void give_up(Why why = Why::not_wanted) {
        std::function<void(Why)> unwanted;
        const std::lock_guard lock(mutex_);
        changed_ = nullptr;
        std::swap(unwanted, unwanted_);
        const bool all_is_there = (whole_ || come_ == layers_) && !ahead_;
        ahead_ = nullptr;
        if (unwanted && !all_is_there) unwanted(why);
    }

    /// First layers whose keys are there.
    int layers() const {
        const std::lock_guard lock(mutex_);
        return come_;
    }
    /// Once nothing more comes: where tokens end whose keys are there in every layer.
    std::optional<int64_t> whole() const {
        const std::lock_guard lock(mutex_);
        return come_ == layers_ ? std::optional(end_) : whole_;
    }

private:
    const int64_t begin_, end_;
    const int layers_;
    mutable std::mutex mutex_;
    double patience_;
    std::function<void(Why)> unwanted_;
    std::function<void()> changed_, ahead_;
    int come_ = 0;
    std::optional<int64_t> whole_;
};

}  // namespace rondo
