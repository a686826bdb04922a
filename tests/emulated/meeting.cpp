#include "tests/emulated/meeting.hpp"

#include <cstring>

namespace rondo::emulated {

std::string place(const std::source_location& at) {
    const std::string path = at.file_name();
    return path.substr(path.rfind('/') + 1) + ":" + std::to_string(at.line());
}

namespace {

bool same_place(const std::source_location& a, const std::source_location& b) {
    return a.line() == b.line() && a.column() == b.column() &&
           (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

/// Joins the meeting, which ends when `all` have arrived. Who `orders` sees afterwards what the others did before.
void meet(Meeting& meeting, unsigned mine, unsigned all, bool orders) {
    const uint64_t seen = meeting.generation;
    const unsigned parity = seen & 1;
    if (orders) release(&meeting.ordered[parity]);
    meeting.arrived += mine;
    if (meeting.arrived == all) {
        meeting.arrived = 0;
        ++meeting.generation;
    } else {
        wait_in(meeting, seen);
    }
    if (orders) acquire(&meeting.ordered[parity]);
}

void expect_same_place(Meeting& meeting, const char* what, const std::source_location& at) {
    if (meeting.arrived == 0) {
        meeting.at = at;
        meeting.what = what;
    } else if (meeting.what != what || !same_place(meeting.at, at)) {
        fail(std::string("threads meet at different places: the ") + meeting.what + " of " + place(meeting.at) +
             " and the " + what + " of " + place(at));
    }
}

Warp& current_warp() {
    return block.warps[block.current->number / warp_lanes];
}

Meeting& meeting_of(unsigned mask, const char* what, const std::source_location& at) {
    if ((mask >> lane() & 1) == 0) fail(std::string("a lane outside its own mask in the ") + what + " of " + place(at));
    for (Meeting& meeting : current_warp().meetings) {
        if (meeting.mask != mask && meeting.mask != 0) continue;
        meeting.mask = mask;
        expect_same_place(meeting, what, at);
        return meeting;
    }
    fail("more than " + std::to_string(masks_max) + " masks in one warp, which is not emulated");
}

}  // namespace

unsigned lane() {
    return block.current->number % warp_lanes;
}

void block_barrier(const std::source_location& at) {
    if (block.live < block.count) fail("a barrier at " + place(at) + " after other threads of the block have ended");
    expect_same_place(block.barrier, "barrier", at);
    meet(block.barrier, 1, block.live, true);
}

void warp_barrier(unsigned mask, const std::source_location& at) {
    meet(meeting_of(mask, "warp barrier", at), 1U << lane(), mask, true);
}

uint64_t exchange(unsigned mask, uint64_t mine, unsigned from, const std::source_location& at) {
    Meeting& meeting = meeting_of(mask, "shuffle", at);
    if ((mask >> from & 1) == 0) fail("a shuffle at " + place(at) + " from a lane outside the mask");
    Warp& warp = current_warp();
    warp.brought[lane()] = mine;
    warp.from[lane()] = from;
    if ((meeting.arrived | 1U << lane()) == mask) {
        for (unsigned l = 0; l < warp_lanes; ++l) {
            if (mask >> l & 1) warp.given[l] = warp.brought[warp.from[l]];
        }
    }
    meet(meeting, 1U << lane(), mask, false);
    return warp.given[lane()];
}

}  // namespace rondo::emulated
