#pragma once

#include <map>
#include <set>

#include "memory/store/record_header.hpp"

namespace rondo {

/// Which stored records belong to which conversations, by their names: the one place where that is counted. Plain
/// names: no disk.
class RecordOwners {
public:
    /// False: it was its owner before.
    bool add(const StoreName& owner, const StoreName& record);
    void remove(const StoreName& owner, const StoreName& record);
    /// The record has left the store. Should it be written again, it is another one that nobody owns yet.
    void is_gone(const StoreName& record);

    const std::set<StoreName>& records_of(const StoreName& owner) const { return found_in(records_, owner); }
    const std::set<StoreName>& owners_of(const StoreName& record) const { return found_in(owners_, record); }
    bool has_owner(const StoreName& record) const { return owners_.contains(record); }

private:
    using Names = std::map<StoreName, std::set<StoreName>>;
    static const std::set<StoreName>& found_in(const Names& names, const StoreName& of);
    static void erase(Names& names, const StoreName& of, const StoreName& name);

    Names records_, owners_;  // by the other; no set is empty
};

}  // namespace rondo
