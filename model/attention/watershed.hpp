#pragma once

#include "config/result.hpp"
#include "config/settings.hpp"
#include "model/files/spec.hpp"

namespace rondo {

/// How many of a model's layers lie below the watershed: they attend to all rounds. As settings say, or as is known of
/// the model. An error says how to find out.
Result<int> watershed_layer(const ModelSpec& spec, const RoundSettings& settings);

/// The same for a pool: 0, no layers apart, where all rounds are attended to.
inline Result<int> layers_below_watershed(const ModelSpec& spec, const RoundSettings& settings) {
    if (settings.method == RoundSettings::Method::none) return 0;
    return watershed_layer(spec, settings);
}

}  // namespace rondo
