#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "memory/store/key_file.hpp"
#include "memory/store/record_header.hpp"

namespace rondo {

/// What is in a store's folder.
struct StoreSurvey {
    struct Sum {
        int64_t records = 0;
        uint64_t bytes = 0;
        int64_t tokens = 0;
    };
    Sum all;
    std::map<uint64_t, Sum> by_kind;     ///< by a checksum of the kind of KV
    std::map<StoreName, Sum> by_tenant;  ///< by the tenant's name in the store
    int64_t sealed = 0;                  ///< of the records
    int64_t conversations = 0;           ///< on the shelf
    int64_t conversations_sealed = 0;

    struct Segment {
        std::string name;  ///< of its file
        uint64_t file_bytes = 0;
        uint64_t disk_bytes = 0;  ///< without the file's holes
        uint64_t used_bytes = 0;  ///< by records, and by its own header
        int64_t records = 0;
        bool sealed = false;
    };
    std::vector<Segment> segments;

    enum class Thing : uint8_t { record, conversation };
    struct Damage {
        Thing thing = Thing::record;
        StoreName name{};
        std::string why;
    };
    std::vector<Damage> damaged;  ///< what the next start or whoever reads it will find lost
    int64_t proved = 0;           ///< records and conversations of which every byte was read
};

struct SurveyOptions {
    std::string path;
    bool verify = false;  ///< reads every byte; what is sealed only with its keys
    std::optional<KeyFile> keys = {};
    std::function<void(double share)> progress = {};  ///< of `verify`
};

/// Looks into a folder that no process has open as a store, and changes nothing there. Damage is in what it says; an
/// error says that there is no store, or that its manifest cannot be read.
Result<StoreSurvey> survey_store(const SurveyOptions& options);

}  // namespace rondo
