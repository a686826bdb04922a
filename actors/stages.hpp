#pragma once

#include "actors/handles.hpp"

namespace rondo {

/// The stages of a pipeline, as they stand since they were last started.
struct Stages {
    admission_actor admission;
    prefill_actor prefill;
    decode_actor decode;
    cache_actor cache;
};

}  // namespace rondo
