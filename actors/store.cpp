#include "actors/store.hpp"

#include <algorithm>
#include <utility>

namespace rondo {

namespace {

// So that many removals are one rewriting of the manifest's files, which takes no more than a tenth of the time.
constexpr double forgets_after = 3.0, forgets_again_after = 60.0, forgetting_share = 0.1;
constexpr auto ages_every = std::chrono::minutes(10);
constexpr double looks_every = 1.0;
// Whoever needs the blocks of what is written waits for so long before that is given up.
constexpr auto patience = std::chrono::milliseconds(100);

uint64_t bytes_of(const KvShape& shape, const SequenceKv& kv) {
    uint64_t bytes = 0;
    for (const LayerGroup group : layer_groups) bytes += kv.blocks(group).size() * shape.block_bytes(group);
    return bytes;
}

}  // namespace

Store::Store(caf::actor_config& config, RuntimePtr runtime, OpenedStore opened, std::shared_ptr<const Load> load,
             std::shared_ptr<StoreFigures> figures, bool is_woken)
    : store_actor::base(config),
      runtime_(std::move(runtime)),
      opened_(std::move(opened)),
      figures_(std::move(figures)),
      is_woken_(is_woken) {
    const auto post = [tasks = opened_.tasks](std::function<void()> task) { tasks->post(std::move(task)); };
    Device& device = runtime_->answers_device();
    if (opened_.host_bytes_max > 0) {
        arena_.emplace(device, HostArena::Options{.bytes_max = opened_.host_bytes_max});
        opened_.store->when_gone([this](const StoreName& name) { arena_->drop(name); });
    }
    HostArena* const arena = arena_ ? &*arena_ : nullptr;
    writer_.emplace(*opened_.store, *runtime_->pool, device, RoundWriter::Options{.post = post, .arena = arena});
    reader_.emplace(*opened_.store, *runtime_->pool, device, RoundReader::Options{.post = post, .arena = arena});
    Restoring::Options options{[this] { return now(); },
                               [load = std::move(load)] { return load->prompt_tokens.load(); }, post};
    options.bytes_to_write = [this] { return opened_.queue->bytes_to_write(); };
    options.probed_seconds_per_byte = [this] { return opened_.queue->probed_seconds_per_byte(); };
    restoring_.emplace(*opened_.store, *reader_, *runtime_->pool, std::move(options));
}

Store::behavior_type Store::make_behavior() {
    if (is_woken_) {
        opened_.tasks->begin([self = caf::actor_cast<caf::weak_actor_ptr>(ctrl())] {
            if (const auto strong = self.lock()) caf::anon_send(caf::actor_cast<store_actor>(strong), pump_atom::value);
        });
    }
    tell_figures();
    delayed_send(this, ages_every, age_atom::value);  // a machine that starts may not know the time yet
    return {
        [this](restore_atom, const TurnOfferPtr& offer) { return restore(offer); },
        [this](withdraw_atom) { restoring_->let_go_of_taken_back(); },
        [this](put_atom, const PutAwayPtr& what) { return put(what); },
        [this](keep_atom, const KeepSlotPtr& slot) { keep(*slot); },
        [this](copy_atom, const ConversationName& name) -> caf::result<ConversationBytesPtr> {
            auto body = opened_.conversations->body(name);
            if (!body) return to_caf(body.error());
            return ConversationBytesPtr(std::make_shared<std::vector<std::byte>>(std::move(*body)));
        },
        [this](remove_atom, const ConversationKey& key, bool soon) -> caf::result<bool> {
            if (const Status removed = opened_.conversations->remove(key); !removed) {
                ++figures_->conversations_failed;
                return to_caf(removed.error());
            }
            removals_.push_back({make_response_promise<bool>(), soon});
            commit_soon();
            return removals_.back().done;
        },
        [this](list_atom, const std::string& tenant) { return use_of(tenant); },
        [this](expire_atom) {
            if (forgets_at_ && now() >= *forgets_at_) forget();
        },
        [this](age_atom) {
            static_cast<void>(opened_.store->expire());
            if (std::exchange(forgets_later_, false)) forget_after(forgets_after);
            delayed_send(this, ages_every, age_atom::value);
        },
        [this](room_atom) {
            auto promise = make_response_promise<bool>();
            rooms_.push_back(promise);
            if (!std::exchange(gives_up_soon_, true)) delayed_send(this, patience, give_up_atom::value);
            give_room();
            return promise;
        },
        [this](give_up_atom) {
            gives_up_soon_ = false;
            if (!rooms_.empty()) figures_->unwritten += writer_->give_up();
            give_room();
        },
        [this](drain_atom) { return drain(); },
        [this](pump_atom) {
            opened_.tasks->run();
            static_cast<void>(commit());  // it counts what fails
            clear_removed();
            give_room();
            tell_figures();
            look_at_folder();
        },
    };
}

void Store::on_exit() {
    figures_->serves = false;
    if (opened_.conversations) {
        static_cast<void>(commit());
        clear_removed();
        const bool forgets = forgets_at_ && opened_.store->is_there();
        if (forgets) static_cast<void>(opened_.conversations->forget_removed());
    }
    if (restoring_) restoring_->end_waiting();
    const auto unfinished = restoring_ ? restoring_->under_way() : std::vector<std::shared_ptr<Arrival>>();
    restoring_.reset();
    reader_.reset();
    writer_.reset();
    opened_.tasks->close();
    // Copies that are under way end before their blocks go.
    Device& device = runtime_->answers_device();
    static_cast<void>(device.drain(StreamId::load));
    static_cast<void>(device.drain(StreamId::store));
    opened_.conversations.reset();
    opened_.store.reset();
    opened_.queue.reset();
    arena_.reset();
    for (const auto& arrival : unfinished) arrival->finish(arrival->begin());
    answer_all(false);
    runtime_.reset();
}

/// Whoever waits would wait for ever: a promise that goes answers nobody.
void Store::answer_all(bool with) {
    for (auto& [number, put] : std::exchange(puts_, {})) put.copied.deliver(with);
    figures_->queue_sequences = 0;
    figures_->queue_bytes = 0;
    for (std::vector<Promise>* const waiting : {&rooms_, &drains_})
        for (Promise& one : std::exchange(*waiting, {})) one.deliver(with);
}

caf::result<StageReply> Store::restore(const TurnOfferPtr& offer) {
    if (!offer->take()) {
        restoring_->came_too_late(offer->tenant(), offer->tokens());
        return StageReply{};
    }
    auto promise = make_response_promise<StageReply>();
    restoring_->restore(offer, [promise, offer]() mutable {
        if (offer->was_taken_back()) {
            promise.deliver(StageReply{});
        } else {
            promise.deliver(StageReply{StageReply::Outcome::done, offer->turn(), {}});
        }
    });
    return promise;
}

void Store::keep(KeepSlot& slot) {
    const auto conversation = slot.take();
    if (conversation && !opened_.conversations->keep(*conversation)) ++figures_->conversations_failed;
    commit_soon();
}

Store::Promise Store::drain() {
    auto promise = make_response_promise<bool>();
    drains_.push_back(promise);
    if (drains_.size() > 1) return promise;
    writer_->when_idle([this] {
        Status committed = commit();
        if (committed) committed = opened_.conversations->all_written();
        clear_removed();
        tell_figures();  // first: whoever waits may look
        for (Promise& drain : std::exchange(drains_, {}))
            committed ? drain.deliver(true) : drain.deliver(to_caf(committed.error()));
    });
    return promise;
}

Store::Promise Store::put(const PutAwayPtr& what) {
    auto promise = make_response_promise<bool>();
    restoring_->computed(what->computed);
    if (what->kv.tokens() < opened_.tokens_min) {
        promise.deliver(false);
        return promise;
    }
    RoundWriter::Sequence sequence{std::move(what->space), std::move(what->ids), std::move(what->kv),
                                   what->seconds_per_token, what->turns};
    const uint64_t bytes = bytes_of(runtime_->pool->shape(), sequence.kv);
    puts_[++last_put_] = {promise, bytes};
    put_bytes_ += bytes;
    tell_queue();
    sequence.copied = [this, number = last_put_] { copied(number); };
    if (!what->conversation.name.id.empty()) {
        sequence.stored = [this, conversation = what->conversation](const StoreName& record) {
            if (!opened_.conversations->tie(conversation, record)) ++figures_->conversations_failed;
        };
    }
    writer_->add(std::move(sequence));
    tell_figures();  // of what was refused at once nobody hears later
    return promise;
}

void Store::copied(uint64_t put) {
    Put done = std::move(puts_.extract(put).mapped());
    put_bytes_ -= done.bytes;
    tell_queue();
    done.copied.deliver(true);
}

/// Behind all messages that have come: many conversations change together.
void Store::commit_soon() {
    if (!std::exchange(commits_, true)) send(store_actor(this), pump_atom::value);
}

Status Store::commit() {
    commits_ = false;
    const Status committed = opened_.conversations->commit();
    if (!committed) ++figures_->conversations_failed;
    return committed;
}

/// Those that leave together, such as by age, wait for the disk once.
void Store::clear_removed() {
    if (removals_.empty()) return;
    const Status removed = opened_.conversations->clear_removed();
    if (figures_->serves) tell_figures();  // first: whoever waits may look
    bool soon = false;
    for (Removal& one : std::exchange(removals_, {})) {
        soon = soon || one.soon;
        forgets_later_ = forgets_later_ || !one.soon;
        removed ? one.done.deliver(true) : one.done.deliver(to_caf(removed.error()));
        if (!removed) ++figures_->conversations_failed;
    }
    if (soon || !removed) forget_after(removed ? forgets_after : forgets_again_after);
}

/// What is written to a folder that was removed is lost at the end, so nobody is told that it is kept.
void Store::look_at_folder() {
    if (now() - looked_at_ < looks_every) return;
    looked_at_ = now();
    if (!opened_.store->is_there())
        quit(to_caf(make_error(ErrorCode::not_found, "its folder, or what is in it, was removed or replaced")));
}

void Store::forget_after(double seconds) {
    const double at = std::max(now() + seconds, forgets_from_);
    if (forgets_at_ && *forgets_at_ <= at) return;
    forgets_at_ = at;
    const auto wait = timespan_of(at - now());
    delayed_send(this, wait + std::chrono::milliseconds(1), expire_atom::value);
}

/// A disk that refuses is asked again.
void Store::forget() {
    forgets_at_.reset();
    const double begin = now();
    const Status forgotten = opened_.conversations->forget_removed();
    forgets_from_ = now() + (now() - begin) / forgetting_share;
    if (forgotten) return;
    ++figures_->conversations_failed;
    forget_after(forgets_again_after);
}

/// All that were put hold nothing any more.
void Store::give_room() {
    if (!puts_.empty()) return;
    for (auto& promise : std::exchange(rooms_, {})) promise.deliver(true);
}

StoreUse Store::use_of(const Tenant& tenant) const {
    const KvStore& store = *opened_.store;
    const Restoring::Counts counts = restoring_->counts_of(tenant);
    StoreUse use;
    const StoreName name = store.tenant_name(tenant);
    use.bytes = store.index().bytes_of(name);
    use.records = store.index().records_of(name);
    use.conversations = opened_.conversations->count_of(tenant);
    use.tokens_asked = counts.asked;
    use.tokens_restored = counts.restored;
    use.restore_seconds = counts.seconds;
    use.bytes_max = store.tenant_bytes_max();
    use.encrypted = store.keys().has_value();
    if (!arena_) return use;
    arena_->each([&](const StoreName& record, uint64_t bytes) {
        if (const StoredRecord* const stored = store.index().find(record); stored != nullptr && stored->tenant == name)
            use.host_bytes += bytes;
    });
    return use;
}

void Store::tell_queue() {
    figures_->queue_sequences = static_cast<int64_t>(puts_.size());
    figures_->queue_bytes = put_bytes_ + opened_.queue->bytes_to_write();
}

void Store::tell_figures() {
    const KvStore& store = *opened_.store;
    const KvStore::Counts& counts = store.counts();
    StoreFigures& told = *figures_;
    tell_queue();
    told.serves = true;
    told.bytes = store.bytes();
    told.records = store.index().count();
    told.conversations = opened_.conversations->count();
    told.bytes_written = counts.bytes_written;
    told.bytes_read = counts.bytes_read;
    told.written = counts.written;
    told.bytes_never_read = counts.bytes_never_read;
    told.seconds_writing = opened_.queue->seconds_writing();
    told.seconds_reading = opened_.queue->seconds_reading();
    told.read = counts.read;
    told.foreign = counts.foreign;
    told.evicted = counts.evicted;
    told.expired = counts.expired;
    told.damaged = counts.damaged;
    told.never_read = counts.never_read;
    for (size_t i = 0; i < store_refusals; ++i) told.refused[i] = counts.refused[i];
    const Restoring::Counts& restored = restoring_->counts();
    told.tokens_asked = restored.asked;
    told.tokens_found = restored.found;
    told.tokens_restored = restored.restored;
    told.tokens_not_worth = restored.not_worth;
    told.tokens_failed = restored.failed;
    told.tokens_ahead = restored.ahead;
    told.restore_seconds = restored.seconds;
    told.ahead_seconds = restored.ahead_seconds;
    if (!arena_) return;
    told.host_bytes = arena_->bytes();
    told.host_records = arena_->records();
    told.host_bytes_copied = arena_->counts().bytes_copied;
    told.host_bytes_filled = arena_->counts().bytes_filled;
    told.host_seconds_copying = arena_->seconds_copying();
    told.host_seconds_filling = arena_->seconds_filling();
    told.host_found = arena_->counts().found;
    told.host_evicted = arena_->counts().evicted;
}

}  // namespace rondo
