#pragma once

#include <cstddef>

namespace rondo {

/// Raises the process's limit of descriptors, as far as it may be, so that so many clients can be connected. Returns
/// how many can be.
size_t make_room_for_clients(size_t wanted);

/// How many of them so many descriptors leave room for, beside what else a process opens: the files of a store, above
/// all.
size_t clients_within(size_t descriptors, size_t wanted);

}  // namespace rondo
