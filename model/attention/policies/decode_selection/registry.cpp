#include <array>

#include "model/attention/policies/decode_selection/decode_selection.hpp"
#include "model/attention/policies/decode_selection/methods.hpp"
#include "model/attention/policies/decode_selection/oracle.hpp"

namespace rondo {

namespace {

using Method = DecodeAttention::Method;

/// Where the right keys are is known to an evaluation only; for everyone else there are none.
std::unique_ptr<DecodeSelection> make_oracle_without_gold(const DecodeAttention& settings) {
    return make_oracle_selection(settings, {});
}

struct Row {
    Method method;
    std::unique_ptr<DecodeSelection> (*make)(const DecodeAttention&);
};

/// Not here: dense, which chooses nothing, and quest, which chooses pages before each step (quest.hpp).
constexpr std::array rows{
    Row{Method::progressive, make_progressive},
    Row{Method::snapkv, make_snapkv},
    Row{Method::adakv, make_adakv},
    Row{Method::streaming_llm, make_streaming_llm},
    Row{Method::h2o, make_h2o},
    Row{Method::random, make_random_keys},
    Row{Method::recent, make_recent},
    Row{Method::oracle, make_oracle_without_gold},
};

}  // namespace

std::unique_ptr<DecodeSelection> make_decode_selection(const DecodeAttention& settings) {
    for (const Row& row : rows) {
        if (row.method == settings.method) return row.make(settings);
    }
    return nullptr;
}

}  // namespace rondo
