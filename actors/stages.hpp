#pragma once

#include "actors/handles.hpp"

namespace rondo {

/// The stages of a pipeline, as they stand since they were last started.
struct Stages {
    restore_actor restore;
    prefill_actor prefill;
    decode_actor decode;
    store_actor store;
};

}  // namespace rondo
