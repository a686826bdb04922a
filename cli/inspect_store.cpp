#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/progress.hpp"
#include "memory/store/store_survey.hpp"

namespace rondo::cli {

namespace {

using Json = nlohmann::ordered_json;

struct InspectStoreOptions {
    std::string folder, key_file;
    bool verify = false, json = false;
};

std::string hex(std::span<const std::byte> bytes) {
    std::string text;
    for (const std::byte byte : bytes) {
        char digits[3];
        std::snprintf(digits, sizeof digits, "%02x", std::to_integer<unsigned>(byte));
        text += digits;
    }
    return text;
}

std::string hex(uint64_t number) {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
    return digits;
}

/// Half of it tells tenants apart, and fits into a line.
std::string short_hex(const StoreName& name) {
    return hex(std::span(name).first<8>());
}

std::string_view name_of(StoreSurvey::Thing thing) {
    return thing == StoreSurvey::Thing::record ? "record" : "conversation";
}

Json sum_of(const char* key, const std::string& name, const StoreSurvey::Sum& sum) {
    return {{key, name}, {"records", sum.records}, {"bytes", sum.bytes}, {"tokens", sum.tokens}};
}

Json numbers_of(const StoreSurvey& survey) {
    return {{"records", survey.all.records},
            {"bytes", survey.all.bytes},
            {"tokens", survey.all.tokens},
            {"sealed", survey.sealed},
            {"conversations", survey.conversations},
            {"conversations_sealed", survey.conversations_sealed},
            {"proved", survey.proved}};
}

void print_json(const StoreSurvey& survey) {
    Json out = numbers_of(survey);
    for (const char* list : {"kinds", "tenants", "segments", "damaged"}) out[list] = Json::array();
    for (const auto& [kind, sum] : survey.by_kind) out["kinds"].push_back(sum_of("kind", hex(kind), sum));
    for (const auto& [name, sum] : survey.by_tenant) out["tenants"].push_back(sum_of("tenant", short_hex(name), sum));
    for (const StoreSurvey::Segment& segment : survey.segments)
        out["segments"].push_back({{"name", segment.name},
                                   {"file_bytes", segment.file_bytes},
                                   {"disk_bytes", segment.disk_bytes},
                                   {"used_bytes", segment.used_bytes},
                                   {"records", segment.records},
                                   {"sealed", segment.sealed}});
    for (const StoreSurvey::Damage& one : survey.damaged)
        out["damaged"].push_back({{"thing", name_of(one.thing)}, {"name", hex(one.name)}, {"why", one.why}});
    std::printf("%s\n", out.dump().c_str());
}

void print_sum(const std::string& what, const StoreSurvey::Sum& sum) {
    std::printf("%-24s %lld records, %llu bytes, %lld tokens\n", what.c_str(), static_cast<long long>(sum.records),
                static_cast<unsigned long long>(sum.bytes), static_cast<long long>(sum.tokens));
}

void print_lines(const StoreSurvey& survey) {
    const Json numbers = numbers_of(survey);
    for (const auto& [key, value] : numbers.items()) std::printf("%-24s %s\n", key.c_str(), value.dump().c_str());
    std::printf("%-24s %zu\n", "damaged", survey.damaged.size());
    for (const auto& [kind, sum] : survey.by_kind) print_sum("kind " + hex(kind), sum);
    for (const auto& [name, sum] : survey.by_tenant) print_sum("tenant " + short_hex(name), sum);
    for (const StoreSurvey::Segment& segment : survey.segments)
        std::printf("%-24s %lld records, %llu bytes used, %llu on the disk, %llu in the file, %s\n",
                    segment.name.c_str(), static_cast<long long>(segment.records),
                    static_cast<unsigned long long>(segment.used_bytes),
                    static_cast<unsigned long long>(segment.disk_bytes),
                    static_cast<unsigned long long>(segment.file_bytes), segment.sealed ? "sealed" : "plain");
    for (const StoreSurvey::Damage& one : survey.damaged)
        std::printf("damaged %s %s: %s\n", std::string(name_of(one.thing)).c_str(), hex(one.name).c_str(),
                    one.why.c_str());
}

Status inspect_store(const InspectStoreOptions& options) {
    SurveyOptions how{options.folder, options.verify, {}, {}};
    if (!options.key_file.empty()) {
        RONDO_ASSIGN(KeyFile keys, KeyFile::read(options.key_file));
        how.keys.emplace(std::move(keys));
    }
    Progress progress("verifying " + options.folder);
    how.progress = [&progress](double share) { progress.show(share); };
    RONDO_ASSIGN(const StoreSurvey survey, survey_store(how));
    progress.finish();
    options.json ? print_json(survey) : print_lines(survey);
    if (!options.verify || survey.damaged.empty()) return Status::ok();
    const std::string count = std::to_string(survey.damaged.size());
    return make_error(ErrorCode::corrupt,
                      options.folder + ": the store is damaged (records and conversations: " + count + ")");
}

}  // namespace

void add_inspect_store(CLI::App& inspect, Action& run) {
    auto options = std::make_shared<InspectStoreOptions>();
    CLI::App* const command = inspect.add_subcommand("store", "what is in a store of KV, and whether it is whole");
    command->add_option("folder", options->folder, "the folder that memory.disk.path names")
        ->type_name("FOLDER")
        ->required();
    CLI::Option* const verify =
        command->add_flag("--verify", options->verify, "read every byte; status 1 if anything is damaged");
    command->add_option("--key-file", options->key_file, "the key of what is sealed, which is left out without it")
        ->type_name("FILE")
        ->needs(verify);
    command->add_flag("--json", options->json);
    command->callback([options, &run] { run = [options] { return inspect_store(*options); }; });
}

}  // namespace rondo::cli
