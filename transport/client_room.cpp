#include "transport/client_room.hpp"

#include <sys/resource.h>

#include <algorithm>

namespace rondo {

namespace {

constexpr size_t others_max = 512;

}  // namespace

size_t clients_within(size_t descriptors, size_t wanted) {
    return std::min(wanted, descriptors - std::min(descriptors / 2, others_max));
}

/// A shell and systemd give a process 1,024 and let it have many more.
size_t make_room_for_clients(size_t wanted) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
    const rlimit more{std::min<rlim_t>(wanted + others_max, limit.rlim_max), limit.rlim_max};
    if (limit.rlim_cur < more.rlim_cur && ::setrlimit(RLIMIT_NOFILE, &more) == 0) limit = more;
    return clients_within(limit.rlim_cur, wanted);
}

}  // namespace rondo
