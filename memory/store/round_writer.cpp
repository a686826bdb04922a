#include "memory/store/round_writer.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "config/checked.hpp"
#include "memory/store/kv_bytes.hpp"

namespace rondo {

namespace {

constexpr size_t together_max = 32;  // records that are committed together

}  // namespace

/// On its way: its layers are copied, proved and written side by side. It holds the blocks itself.
struct RoundWriter::Record {
    KvStore::WritingPtr writing;
    KvLease blocks;
    HostArena::RecordPtr in_arena;  // null: it is not kept in host memory
    StoreName name{};
    std::optional<StoreName> before;  // none: it is the first of its sequence
    LayerGroup group = LayerGroup::upper;
    int64_t tokens = 0;
    size_t layers = 0, layer_bytes = 0;
    bool is_last = false;                     // of its sequence
    size_t next = 0, copying = 0, ended = 0;  // layers
    size_t staged = 0;                        // bytes
    Status status;                            // the first that went wrong
};

void RoundWriter::add(Sequence sequence) {
    waiting_.push_back(std::move(sequence));
    next();
}

void RoundWriter::when_idle(std::function<void()> done) {
    if (idle()) return done();
    idle_.push_back(std::move(done));
}

/// The next record that is not stored yet, if none is under way. What stands behind a refused one would not be found.
void RoundWriter::next() {
    if (finishing_.empty()) drop_what_leads_nowhere();  // first: a full batch of those would end the loop
    while (!busy_ && !waiting_.empty() && written_.size() < together_max) {
        const Sequence& sequence = waiting_.front();
        if (rounds_.empty()) rounds_ = rounds_of(sequence.space, sequence.ids, sequence.kv, pool_.shape());
        if (record_ == rounds_.size() * layer_groups.size()) {
            end_sequence();
            continue;
        }
        const LayerGroup group = layer_groups[record_ % layer_groups.size()];
        const StoredRound& round = rounds_[record_++ / layer_groups.size()];
        if (pool_.shape().has(group) && !begin(round, group)) end_sequence();
    }
    if (!busy_) finish_written();
    if (idle()) staging_.clear();
    if (idle())
        for (const auto& done : std::exchange(idle_, {})) done();
}

/// It is found, or it waits to be. Nothing is found behind any other record.
bool RoundWriter::is_or_may_be_found(const StoreName& name) const {
    const auto is_it = [&](const Written& one) { return one.name == name; };
    return store_.index().find(name) != nullptr || std::ranges::any_of(written_, is_it) ||
           std::ranges::any_of(finishing_, is_it);
}

/// A record was on its way when a record behind it was written, and has failed since.
void RoundWriter::drop_what_leads_nowhere() {
    std::set<StoreName> names;
    std::erase_if(written_, [&](const Written& one) {
        const bool leads = !one.before || names.contains(*one.before) || store_.index().find(*one.before) != nullptr;
        if (one.writing == nullptr) return false;
        if (leads)
            names.insert(one.name);
        else
            store_.give_up(*one.writing);  // who waits may write the same
        return !leads;
    });
}

/// What has been written since the last time is found together: a disk syncs many as soon as one.
void RoundWriter::finish_written() {
    if (!finishing_.empty()) return;
    drop_what_leads_nowhere();
    if (written_.empty()) return;
    finishing_ = std::exchange(written_, {});
    std::vector<KvStore::WritingPtr> writings;
    for (Written& one : finishing_)
        if (one.writing != nullptr) writings.push_back(std::move(one.writing));
    store_.finish(std::move(writings), [this, thread = thread_](const Status&) {
        if (!thread.has_owner()) return;
        const std::vector<Written> those = std::exchange(finishing_, {});
        // Kept first: whoever hears of a record may remove it. The last one first, so that ends go before beginnings.
        for (auto one = those.rbegin(); one != those.rend(); ++one)
            if (one->in_arena != nullptr && store_.index().find(one->name) != nullptr)
                options_.arena->keep(one->in_arena);
        for (const Written& one : those)
            if (store_.index().find(one.name) != nullptr) one.stored(one.name);
        next();
    });
}

void RoundWriter::let_go(Sequence& sequence) {
    sequence.kv = SequenceKv(pool_);
    std::exchange(sequence.copied, [] {})();
}

/// A record that is copied already goes on to the disk; it is the last of its sequence then.
int64_t RoundWriter::give_up() {
    int64_t given_up = 0;
    for (const Sequence& one : waiting_) given_up += one.turns;
    // It is copied, and ends as soon as there is a place for another record behind its last one.
    const bool only_ends = !busy_ && !rounds_.empty() && record_ == rounds_.size() * layer_groups.size();
    if (only_ends) given_up -= waiting_.front().turns;
    if (busy_) {
        const bool counted = std::exchange(gives_up_, true);
        if (busy_->status && busy_->next < busy_->layers)
            busy_->status = make_error(ErrorCode::cancelled, "a record was given up");
        const bool is_written = busy_->status && busy_->is_last;
        if (counted || is_written) given_up -= waiting_.front().turns;
        if (busy_->copying == 0) copied_all(busy_);
    }
    while (waiting_.size() > 1) {
        let_go(waiting_.back());
        waiting_.pop_back();
    }
    if (!busy_ && !waiting_.empty()) end_sequence();
    return given_up;
}

/// What was stored already is used by whoever computed with it, also where it never left memory.
void RoundWriter::end_sequence() {
    for (const LayerGroup group : layer_groups)
        if (last_stored_[group]) store_.use(*std::exchange(last_stored_[group], {}));
    let_go(waiting_.front());
    waiting_.pop_front();
    rounds_.clear();
    record_ = 0;
    gives_up_ = false;
}

/// False: it is refused, and so is all that stands behind it.
bool RoundWriter::begin(const StoredRound& round, LayerGroup group) {
    const Sequence& sequence = waiting_.front();
    const RecordIndex::NameOf names = store_.names(group, sequence.space.method);
    RecordHeader header;
    header.name = names(round.end);
    header.before = names(round.before);
    header.tenant = store_.tenant_name(sequence.space.tenant);
    header.kind = store_.kind();
    header.group = group;
    header.exactness = round.end.exactness;
    header.tokens_before = round.first_token;
    header.ids = round.ids;
    header.layers.resize(static_cast<size_t>(pool_.shape().layers_in(group)));
    const auto record = std::make_shared<Record>();
    record->name = header.name;
    if (round.first_token > 0) record->before = header.before;
    if (record->before && !is_or_may_be_found(*record->before)) return false;
    record->group = group;
    record->tokens = std::ssize(round.ids);
    record->layers = header.layers.size();
    record->layer_bytes = round_up<size_t>(header.layer_bytes(), disk_alignment);
    const auto begins = sequence.kv.block_begin(group);
    const auto first = static_cast<size_t>(std::ranges::lower_bound(begins, round.first_token) - begins.begin());
    const auto last = static_cast<size_t>(std::ranges::lower_bound(begins, round.end_token()) - begins.begin());
    record->blocks = sequence.kv.share_blocks(group, first, last - first);
    auto [writing, refusal] =
        store_.begin(std::move(header), sequence.seconds_per_token * static_cast<double>(record->tokens),
                     RecordIndex::waypoints_of(round.before.prefix, round.end.exactness, round.ids, names));
    if (refusal == KvStore::Refusal::stored_already) {
        if (store_.index().find(record->name) != nullptr) {
            sequence.stored(record->name);
            last_stored_[group] = record->name;
        } else {
            written_.push_back({nullptr, record->name, sequence.stored});  // it is on its way
        }
        return true;
    }
    if (writing == nullptr) return false;
    record->writing = std::move(writing);
    if (options_.arena != nullptr)
        record->in_arena = options_.arena->begin(record->name, round.ids, record->layers, record->layer_bytes);
    record->is_last = record_ == rounds_.size() * layer_groups.size();
    busy_ = record;
    copy_layers(record);
    return true;
}

void RoundWriter::copy_layers(const RecordPtr& record) {
    while (record->status && record->next < record->layers &&
           (record->staged == 0 || record->staged + record->layer_bytes <= options_.staging_bytes))
        copy_layer(record);
    if (record->ended == record->next && (!record->status || record->next == record->layers)) end_record(record);
}

void RoundWriter::copy_layer(const RecordPtr& record) {
    const Staging::Piece piece = staging_.take(record->layer_bytes);
    std::ranges::fill(piece.bytes.subspan(bytes_of_layer(pool_, record->blocks.blocks().size())), std::byte{0});
    const int first = pool_.shape().first_layer(record->group);
    const size_t layer = record->next++;
    record->staged += piece.bytes.size();
    ++record->copying;
    const Status put = copy_out(device_, pool_, first + static_cast<int>(layer), record->blocks.blocks(), piece.bytes);
    // Blocks and bytes are held until the stream has passed.
    // A failure is posted as well: whoever copies layers still looks at the record.
    const auto heard = thread_.handing_over<Status>(
        [=, this](const Status& status) { copied(record, layer, piece, put ? status : put); });
    const Status told = device_.notify(StreamId::store, heard);
    if (told) return;
    static_cast<void>(device_.drain(StreamId::store));
    heard(told);
}

void RoundWriter::copied(const RecordPtr& record, size_t layer, const Staging::Piece& piece, const Status& status) {
    --record->copying;
    if (record->status) record->status = status;
    if (record->copying == 0 && (!record->status || record->next == record->layers)) copied_all(record);
    if (!record->status) return end_layer(record, piece, status);
    clear_unwritten(pool_.shape().atom, pool_.shape().kv_heads, record->tokens, piece.bytes);
    if (record->in_arena != nullptr) {  // now: with a key the bytes are sealed where they lie
        std::span<const std::byte> from = piece.bytes;
        options_.arena->begin_fill(from.size());
        for (const auto part : HostArena::layer_of(*record->in_arena, layer)) {
            std::ranges::copy(from.first(part.size()), part.begin());
            from = from.subspan(part.size());
        }
        options_.arena->end_fill();
    }
    store_.write_layer(record->writing, layer, piece.bytes, [=, this, thread = thread_](const Status& written) {
        if (thread.has_owner()) end_layer(record, piece, written);
    });
}

void RoundWriter::end_layer(const RecordPtr& record, const Staging::Piece& piece, const Status& status) {
    record->staged -= piece.bytes.size();
    staging_.give(piece);
    ++record->ended;
    if (record->status) record->status = status;
    copy_layers(record);
}

/// Nobody reads its blocks any more.
void RoundWriter::copied_all(const RecordPtr& record) {
    record->blocks = {};
    if (record->is_last || gives_up_ || !record->status) let_go(waiting_.front());
}

/// What was not whole leaves nothing behind.
void RoundWriter::end_record(const RecordPtr& record) {
    busy_.reset();
    if (record->status)
        written_.push_back({std::move(record->writing), record->name, waiting_.front().stored, record->before,
                            std::move(record->in_arena)});
    else
        store_.give_up(*record->writing);  // who waits may write the same
    record->writing.reset();
    if (!record->status || gives_up_) end_sequence();
    next();
}

}  // namespace rondo
