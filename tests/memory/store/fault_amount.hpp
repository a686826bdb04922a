#pragma once

#include <cstdint>
#include <cstdlib>

namespace rondo::testing {

/// How much a fault run does: little beside all other tests, or, where RONDO_STORE_FAULTS is set (`make soak`), a lot.
inline int64_t fault_amount(int64_t little, int64_t lot) {
    return std::getenv("RONDO_STORE_FAULTS") == nullptr ? little : lot;
}

}  // namespace rondo::testing
