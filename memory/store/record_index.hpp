#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memory/prefix_name.hpp"
#include "memory/store/record_header.hpp"
#include "memory/store/segments.hpp"

namespace rondo {

/// What is known of a record without reading it.
struct StoredRecord {
    StoreName name{}, before{}, tenant{};
    LayerGroup group = LayerGroup::upper;
    Exactness exactness = Exactness::exact;
    int64_t tokens_before = 0;
    int32_t tokens = 0;
    int32_t layers = 0;  ///< of the group
    RecordPlace place;
    double saved_seconds = 0.0;  ///< that computing it would take
    int64_t used_at = 0;         ///< seconds since 1970
    /// Names of places within it, as if a record ended there: at 1, 2 and 4 blocks, and at every eighth.
    std::vector<StoreName> waypoints = {};
    bool read = false;  ///< since the start
    bool operator==(const StoredRecord&) const = default;
};

/// The records there are, by what comes before them. Finds the way that ids lead along, and who goes when room is
/// needed: of those behind which nothing is stored, the one that saves the fewest seconds a byte; what was used lately
/// counts for more. Plain numbers: no disk.
class RecordIndex {
public:
    /// False: there is one of that name.
    bool add(const StoredRecord& record) { return insert({record, value_of(record), record.used_at}); }
    /// False: there is none.
    bool remove(const StoreName& name);
    const StoredRecord* find(const StoreName& name) const;

    /// A place among ids: what comes before it, and whether all of that is exact.
    struct Border {
        PrefixName prefix;
        Exactness exactness = Exactness::exact;
    };
    /// The name of the record that ends at a border, of the group and method that are looked for.
    using NameOf = std::function<StoreName(const Border&)>;
    /// The records that hold most of the `ids` behind a border, one behind the other. Behind what is exact may come
    /// what is not, if that is `allowed`; never the other way round.
    /// Only the last one may be a part: it goes on otherwise behind its first tokens.
    struct Step {
        const StoredRecord* record = nullptr;
        int32_t tokens = 0;  ///< of the record, that are those of the ids
        bool is_part() const { return tokens < record->tokens; }
    };
    std::vector<Step> way(const Border& from, std::span<const int32_t> ids, Exactness allowed,
                          const NameOf& name_of) const;
    /// The names of places in a record that holds these ids behind `before` and is so exact.
    static std::vector<StoreName> waypoints_of(const PrefixName& before, Exactness exactness,
                                               std::span<const int32_t> ids, const NameOf& name_of);
    /// Of a place within records that stand behind `before`: one of them; null where there is none. Others may lead
    /// through the same place that begin elsewhere.
    const StoredRecord* find_through(const StoreName& waypoint, const StoreName& before) const;

    /// Used now: it goes later, and so does what it stands behind. Returns those of whose use was last told so long
    /// ago.
    std::vector<StoreName> use(const StoreName& name, int64_t now, int64_t told_each = 24 * 3600);
    /// Who goes next that room may be made for `record`, of one tenant or of all: of those that may go the one that is
    /// worth least, unless it is worth more than the record. Null: nobody. Who goes makes all others older.
    using MayGo = std::function<bool(const StoredRecord&)>;
    const StoredRecord* next_to_go(const StoredRecord& record, const StoreName* tenant, const MayGo& may_go) const;
    /// At most so many bytes may be used once some records have gone, whose bytes are among those that are used.
    struct Limit {
        const StoreName* tenant = nullptr;  ///< whose records go; null: everybody's
        uint64_t used = 0, most = 0;
    };
    struct Taken {
        StoredRecord record;
        double credit = 0.0;
        int64_t told_at = 0;
    };
    struct Room {
        std::vector<Taken> taken;
        uint64_t bytes = 0;      ///< of them
        size_t limits_kept = 0;  ///< the first so many; if these are not all, nobody has been taken out
    };
    /// Takes out who goes next, until all limits are kept or nobody else may go. Those who were taken out go, or are
    /// put back as they were.
    Room make_room(const StoredRecord& record, std::span<const Limit> limits, const MayGo& may_go);
    void put_back(const Room& room);
    void gone(const Room& room);
    /// Those used before.
    std::vector<StoreName> unused_since(int64_t time) const;

    uint64_t bytes() const { return bytes_; }
    uint64_t bytes_of(const StoreName& tenant) const;
    int64_t records_of(const StoreName& tenant) const;
    size_t count() const { return records_.size(); }
    void each(const std::function<void(const StoredRecord&)>& each) const;

private:
    struct Hash {
        size_t operator()(const StoreName& name) const noexcept;
    };
    struct Entry {
        StoredRecord record;
        double credit = 0.0;
        int64_t behind = 0;   // records that stand behind it
        int64_t told_at = 0;  // when its use was told of last
    };
    struct Tenant {
        uint64_t bytes = 0;
        int64_t records = 0;
        std::set<std::pair<double, StoreName>> leaves;  // by credit: nothing stands behind them
    };
    using Records = std::unordered_map<StoreName, Entry, Hash>;

    bool insert(const Taken& added);
    bool take_out(const StoredRecord& record, const Limit& limit, const MayGo& may_go, Room& room);
    Taken take(const StoreName& name);
    double value_of(const StoredRecord& record) const;
    void set_credit(Entry& entry, double credit);
    void leaf(const Entry& entry, bool is);
    struct Search;
    struct Branch;
    bool branch(Search& search, const Border& from, std::span<const int32_t> ids, std::vector<Branch>& branches) const;
    void walk(Search& search, const Border& from, std::span<const int32_t> ids) const;
    void look_for_part(Search& search, const Border& from, std::span<const int32_t> ids) const;
    const StoredRecord* next_of(const Search& search, const Border& from, Border& to, int32_t tokens) const;

    Records records_;
    /// By what comes before: how many there are of a number of tokens.
    std::unordered_map<StoreName, std::map<int32_t, int32_t>, Hash> sizes_;
    /// By the names of places, then by what the records stand behind.
    std::unordered_map<StoreName, std::map<StoreName, std::set<StoreName>>, Hash> through_;
    std::map<StoreName, Tenant> tenants_;
    uint64_t bytes_ = 0;
    double age_ = 0.0;
};

}  // namespace rondo
