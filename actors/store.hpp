#pragma once

#include <map>
#include <memory>
#include <optional>

#include "actors/handles.hpp"
#include "actors/load.hpp"
#include "actors/opened_store.hpp"
#include "actors/restoring.hpp"
#include "actors/store_figures.hpp"
#include "actors/timespan.hpp"
#include "memory/store/round_writer.hpp"

namespace rondo {

/// The shell around the disk tier. It belongs to the engine, not to the stages: they die and start anew, and it stays.
class Store : public store_actor::base {
public:
    /// `is_woken`: threads of the disk's and the device's tell it that there are tasks. CAF's test scheduler is one
    /// thread's alone, so there the test does.
    Store(caf::actor_config& config, RuntimePtr runtime, OpenedStore opened, std::shared_ptr<const Load> load,
          std::shared_ptr<StoreFigures> figures, bool is_woken);
    behavior_type make_behavior() override;
    const char* name() const override { return "store"; }
    /// What is on its way is given up: what has not been committed is not found again.
    void on_exit() override;

private:
    using Promise = caf::typed_response_promise<bool>;
    caf::result<StageReply> restore(const TurnOfferPtr& offer);
    void keep(KeepSlot& slot);
    Promise drain();
    Promise put(const PutAwayPtr& put);
    void copied(uint64_t put);
    void answer_all(bool with);
    StoreUse use_of(const Tenant& tenant) const;
    void tell_figures();
    void tell_queue();
    void commit_soon();
    Status commit();
    void clear_removed();
    void look_at_folder();
    void give_room();
    void forget_after(double seconds);
    void forget();
    double now() { return seconds_of(clock().now()); }

    RuntimePtr runtime_;
    OpenedStore opened_;
    const std::shared_ptr<StoreFigures> figures_;
    const bool is_woken_;
    std::optional<HostArena> arena_;  // none: what is on the disk lies there alone
    std::optional<RoundWriter> writer_;
    std::optional<RoundReader> reader_;
    std::optional<Restoring> restoring_;
    bool commits_ = false;              // what conversations have changed, soon
    std::optional<double> forgets_at_;  // then what was removed is taken out of the manifest's files
    double forgets_from_ = 0.0;         // not before
    bool forgets_later_ = true;         // what left by itself, or before the start, with the next ageing
    bool gives_up_soon_ = false;
    struct Removal {
        Promise done;
        bool soon = false;  // its bytes are wanted to go
    };
    std::vector<Removal> removals_;  // of conversations that are on the disk still
    struct Put {
        Promise copied;
        uint64_t bytes = 0;  // of the blocks that it holds
    };
    std::map<uint64_t, Put> puts_;  // what was put and is not copied yet
    uint64_t last_put_ = 0, put_bytes_ = 0;
    std::vector<Promise> rooms_, drains_;  // of those who wait for blocks, and for everything to be written
    double looked_at_ = 0.0;
};

}  // namespace rondo
