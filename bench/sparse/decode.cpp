#include <cassert>
#include <numeric>

#include "sparse/choices.hpp"
#include "sparse/parts.hpp"

namespace rondo::bench {

namespace {

constexpr int64_t chosen_keys = 1024;  // for each KV head, beside the last block, to which all attend
constexpr int64_t tail_keys = kv_block_tokens;

/// By KV head, ascending, all before the tail.
using Chosen = std::vector<std::vector<int32_t>>;

/// What the newest row of a context attends to.
struct Attended {
    const Context* context = nullptr;
    std::vector<KvEntry> entries;
    std::vector<int32_t> counts;

    AttendedKeys keys() const {
        return {entries.data(), counts.data(), static_cast<int32_t>(entries.size() / counts.size()),
                static_cast<int32_t>(context->keys() - tail_keys)};
    }
    /// What is read: whole atoms, and the last block's of every KV head.
    double bytes() const {
        const int64_t atoms = std::accumulate(counts.begin(), counts.end(), std::ssize(counts));
        return static_cast<double>(atoms) * static_cast<double>(context->store().atom().bytes());
    }
};

Attended where_they_lie(const Context& context, const Chosen& chosen) {
    const size_t stride = context.block_begin().size() - 1;
    Attended made{&context, std::vector<KvEntry>(chosen.size() * stride), {}};
    for (size_t head = 0; head < chosen.size(); ++head) {
        KvEntry* const entries = made.entries.data() + head * stride;
        int32_t count = 0;
        for (const int32_t key : chosen[head]) {
            const int32_t slot = context.slot_of(key, static_cast<int>(head)), atom = slot / kv_block_tokens;
            if (count == 0 || entries[count - 1].atom != atom) entries[count++] = {atom, 0, kv_block_tokens};
            entries[count - 1].allowed |= static_cast<uint16_t>(1U << slot % kv_block_tokens);
        }
        made.counts.push_back(count);
    }
    return made;
}

/// The chosen keys copied together, into atoms from this one on. Each KV head has as many, and fills its last atom.
Attended copied(const Context& context, const Chosen& chosen, int32_t first_atom) {
    Attended made{&context, {}, {}};
    std::vector<int32_t> from, to;
    int32_t slot = first_atom * kv_block_tokens;
    for (size_t head = 0; head < chosen.size(); ++head) {
        assert(chosen[head].size() % kv_block_tokens == 0 && chosen[head].size() == chosen[0].size());
        for (const int32_t key : chosen[head]) {
            if (slot % kv_block_tokens == 0) made.entries.push_back({slot / kv_block_tokens, 0xffff, kv_block_tokens});
            from.push_back(context.slot_of(key, static_cast<int>(head)));
            to.push_back(slot++);
        }
        made.counts.push_back(static_cast<int32_t>(chosen[head].size() / kv_block_tokens));
    }
    const KvStore& store = context.store();
    expect(store.device().ops().move_kv(store.atom(), store.atoms(), from.data(), to.data(), std::ssize(from)));
    return made;
}

/// Contexts of one depth that share a store, and what their newest rows attend to.
class Depth {
public:
    Depth(const KvStore& store, int64_t depth)
        : store_(store),
          what_(std::string(store.shape().name) + " at depth " + std::to_string(depth) + ", "),
          q_(random_floats(store.shape().columns(), 5)),
          out_(q_.size()) {
        for (int64_t first = 0; first + depth <= store.keys(); first += depth) {
            for (int layer = 0; layer < store.layers(); ++layer) contexts_.emplace_back(store, layer, first, depth, 1);
        }
    }

    /// Chooses, and checks the first and the last choice of each kind.
    void choose_and_validate() {
        const Context& first = contexts_.front();
        const Chosen all(static_cast<size_t>(store_.shape().kv_heads), some(first, first.keys() - tail_keys)[0]);
        attend(first);
        check(first, all, "dense attention");
        attend(where_they_lie(first, all));
        check(first, all, "attention to all keys where they lie");
        attend(copied(first, all, store_.copies()));
        check(first, all, "attention to copies of all keys");

        for (const Context& context : contexts_) {
            const Chosen chosen = some(context, chosen_keys);
            lying_.push_back(where_they_lie(context, chosen));
            if (lying_.size() != 1 && lying_.size() != contexts_.size()) continue;
            attend(lying_.back());
            check(context, chosen, "attention to keys where they lie");
        }
        const auto atoms = static_cast<int32_t>(store_.shape().kv_heads * chosen_keys / kv_block_tokens);
        const int32_t sets = store_.copies() / atoms;
        for (int32_t set = 0; set < sets; ++set) {
            const Context& context = contexts_[static_cast<size_t>(set) % contexts_.size()];
            const Chosen chosen = some(context, chosen_keys);
            copies_.push_back(copied(context, chosen, store_.copies() + set * atoms));
            if (set != 0 && set != sets - 1) continue;
            attend(copies_.back());
            check(context, chosen, "attention to copies");
        }
    }

    /// Seconds of one row's attention: dense, to copies, and to keys where they lie.
    std::vector<double> seconds(int rounds) {
        const std::vector<std::function<void()>> works{[&] {
                                                           for (const Context& context : contexts_) attend(context);
                                                       },
                                                       [&] {
                                                           for (const Attended& attended : copies_) attend(attended);
                                                       },
                                                       [&] {
                                                           for (const Attended& attended : lying_) attend(attended);
                                                       }};
        std::vector<double> seconds = seconds_in_turn(rounds, works);
        const size_t counts[] = {contexts_.size(), copies_.size(), lying_.size()};
        for (size_t i = 0; i < seconds.size(); ++i) seconds[i] /= static_cast<double>(counts[i]);
        return seconds;
    }
    std::vector<double> bytes() const {
        const int64_t atoms = contexts_[0].keys() / kv_block_tokens * store_.shape().kv_heads;
        double lying = 0.0;
        for (const Attended& attended : lying_) lying += attended.bytes();
        return {static_cast<double>(atoms) * static_cast<double>(store_.atom().bytes()), copies_[0].bytes(),
                lying / static_cast<double>(lying_.size())};
    }

private:
    AttendArgs args_of(const Context& context) {
        const int64_t columns = store_.shape().columns();
        return context.attend_args(Tensor::of(q_.data(), DType::f32, 1, columns),
                                   Tensor::of(out_.data(), DType::f32, 1, columns));
    }
    void attend(const Context& context) { expect(store_.device().ops().attend(args_of(context))); }
    void attend(const Attended& attended) {
        const AttendedKeys keys = attended.keys();
        expect(store_.device().ops().attend_selected(args_of(*attended.context), &keys, store_.atoms()));
    }
    void check(const Context& context, const Chosen& chosen, const char* of) {
        Deviation sum;
        for (int head = 0; head < store_.shape().heads; ++head) {
            std::vector<int32_t> keys = chosen[static_cast<size_t>(head / store_.shape().group())];
            for (int64_t key = context.keys() - tail_keys; key < context.keys(); ++key)
                keys.push_back(static_cast<int32_t>(key));
            context.compare(args_of(context), 0, head, keys, sum);
        }
        expect_small(sum.relative(), what_ + of);
    }
    Chosen some(const Context& context, int64_t count) {
        Chosen chosen;
        for (int head = 0; head < store_.shape().kv_heads; ++head)
            chosen.push_back(some_of(context.keys() - tail_keys, count, random_));
        return chosen;
    }

    const KvStore& store_;
    std::string what_;
    std::mt19937_64 random_{6};
    std::vector<float> q_, out_;
    std::vector<Context> contexts_;
    std::vector<Attended> copies_, lying_;
};

}  // namespace

void bench_decode(const Setting& setting, const KvStore& store, const AddRow& add_row) {
    for (const int64_t keys : {8192, 32768}) {
        Depth depth(store, keys);
        depth.choose_and_validate();
        const std::vector<double> seconds = depth.seconds(3 * setting.repeat), bytes = depth.bytes();
        const char* const methods[] = {"dense", "copied", "where_they_lie"};
        for (size_t i = 0; i < seconds.size(); ++i) {
            const double rate = bytes[i] / seconds[i] / 1e9;
            add_row({{"shape", store.shape().name},
                     {"method", methods[i]},
                     {"depth", keys},
                     {"keys", i == 0 ? keys : chosen_keys + tail_keys},
                     {"ms", seconds[i] * 1e3},
                     {"speed_up", seconds[0] / seconds[i]},
                     {"read_mib", bytes[i] / (1 << 20)},
                     {"gb_per_s", rate},
                     {"of_read", rate / setting.read_gb_per_s}});
        }
    }
}

}  // namespace rondo::bench
