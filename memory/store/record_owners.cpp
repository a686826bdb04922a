#include "memory/store/record_owners.hpp"

namespace rondo {

const std::set<StoreName>& RecordOwners::found_in(const Names& names, const StoreName& of) {
    static const std::set<StoreName> none;
    const auto found = names.find(of);
    return found == names.end() ? none : found->second;
}

void RecordOwners::erase(Names& names, const StoreName& of, const StoreName& name) {
    const auto found = names.find(of);
    if (found == names.end()) return;
    found->second.erase(name);
    if (found->second.empty()) names.erase(found);
}

bool RecordOwners::add(const StoreName& owner, const StoreName& record) {
    owners_[record].insert(owner);
    return records_[owner].insert(record).second;
}

void RecordOwners::remove(const StoreName& owner, const StoreName& record) {
    erase(records_, owner, record);
    erase(owners_, record, owner);
}

void RecordOwners::is_gone(const StoreName& record) {
    const auto owners = owners_.extract(record);
    if (owners.empty()) return;
    for (const StoreName& owner : owners.mapped()) erase(records_, owner, record);
}

}  // namespace rondo
