#include "model/attention/policies/round_selection/methods.hpp"

namespace rondo {

namespace {

/// In the order of RoundSettings::Method. A row without a maker does not link.
constexpr std::unique_ptr<RoundSelection> (*makers[])(const RoundSettings&) = {
    nullptr,  // none
#define RONDO_METHOD(method, ...) make_##method,
#include "config/round_methods.inc"
};

}  // namespace

std::unique_ptr<RoundSelection> make_round_selection(const RoundSettings& settings) {
    const auto make = makers[static_cast<size_t>(settings.method)];
    return make == nullptr ? nullptr : make(settings);
}

}  // namespace rondo
