#include "model/attention/policies/decode_selection/decode_selection.hpp"
#include "model/attention/policies/decode_selection/methods.hpp"

namespace rondo {

namespace {

/// In the order of DecodeAttention::Method. A row without a maker does not link.
constexpr std::unique_ptr<DecodeSelection> (*makers[])(const DecodeAttention&) = {
    nullptr,  // dense
#define RONDO_METHOD(method, ...) make_##method,
#include "config/decode_methods.inc"
};

}  // namespace

std::unique_ptr<DecodeSelection> make_decode_selection(const DecodeAttention& settings) {
    const auto make = makers[static_cast<size_t>(settings.method)];
    return make == nullptr ? nullptr : make(settings);
}

}  // namespace rondo
