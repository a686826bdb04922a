#pragma once

#include "actors/handles.hpp"

namespace rondo {

/// The stages of a pipeline, as they stand since they were last started.
struct Stages {
    admission_actor admission;
    prefill_actor prefill;
    decode_actor decode;
    cache_actor cache;
    store_actor store;  ///< none: nothing is put away. It is not started anew with the others

    /// Those that a session hands its turn to, and watches meanwhile.
    template <class Visit>
    void each(const Visit& visit) const {
        visit(admission);
        visit(prefill);
        visit(decode);
    }
};

}  // namespace rondo
