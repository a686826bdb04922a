#include "config/setting_keys.hpp"

#include <algorithm>
#include <charconv>

#include "config/method_rows.hpp"

namespace rondo {

namespace {

bool is_path(std::string_view text) {
    const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7F; };
    return !text.empty() && text.size() <= 4096 && std::ranges::none_of(text, is_control);
}

bool is_weights(std::string_view text) {
    constexpr std::string_view random = "random:";
    if (text == "auto") return true;
    if (!text.starts_with(random)) return false;
    text.remove_prefix(random.size());
    uint64_t seed = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
    return error == std::errc() && end == text.data() + text.size();
}

/// Devices' names are checked when all devices are known.
bool is_any(std::string_view) {
    return true;
}

bool is_path_or_none(std::string_view text) {
    return text.empty() || is_path(text);
}

bool is_host(std::string_view text) {
    constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:-";
    return !text.empty() && text.size() <= 255 && text.find_first_not_of(allowed) == std::string_view::npos;
}

/// Containers have names with '_', too.
bool is_host_name(std::string_view text) {
    constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    return !text.empty() && text.size() <= 255 && text.find_first_not_of(allowed) == std::string_view::npos;
}

/// A name must be printable, so that it can stand in a log or an error; slashes are usual.
bool is_model_name(std::string_view text) {
    return is_path(text) && text.size() <= 256;
}

bool is_origin_or_none(std::string_view text) {
    return text.empty() || text == "*" ||
           ((text.starts_with("http://") || text.starts_with("https://")) && is_path(text));
}

DeviceSettings& device_of(Settings& settings, std::string_view name) {
    return *std::ranges::find(settings.devices, name, &DeviceSettings::name);
}

constexpr std::string_view device_kinds[] = {"cpu", "cuda"};
constexpr std::string_view bf16_ways[] = {"measured", "tiles", "pairs",
                                          "floats"};  // in the order of DeviceSettings::Bf16
constexpr std::string_view kv_types[] = {"bf16", "f32", "int8"};
constexpr std::string_view alphas_of[] = {"sum", "each_row"};
constexpr std::string_view overlaps[] = {"exact", "literal"};
constexpr std::string_view pool_sides[] = {"own", "after", "around"};
constexpr std::string_view reasonings[] = {"auto", "off"};
constexpr std::string_view yes_or_no[] = {"false", "true"};

constexpr std::string_view a_share = "a number above 0 and up to 1";

constexpr SettingKey keys[] = {
    {.path = "preset",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.preset; },
     .names = names_of_methods(MethodSlot::preset)},
    {.path = "model.path",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.model.path; },
     .valid = is_path,
     .shape = "a Hugging Face folder, a .gguf file or demo"},
    {.path = "model.weights",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.model.weights; },
     .valid = is_weights,
     .shape = "auto or random:SEED"},
    {.path = "devices.*.kind",
     .slot = [](Settings& s, std::string_view d) -> SettingSlot { return &device_of(s, d).kind; },
     .names = device_kinds},
    {.path = "devices.*.threads",
     .slot = [](Settings& s, std::string_view d) -> SettingSlot { return &device_of(s, d).threads; },
     .high = 1024},
    {.path = "devices.*.ordinal",
     .slot = [](Settings& s, std::string_view d) -> SettingSlot { return &device_of(s, d).ordinal; },
     .high = 63},
    {.path = "devices.*.bf16",
     .slot = [](Settings& s, std::string_view d) -> SettingSlot { return &device_of(s, d).bf16; },
     .names = bf16_ways},
    {.path = "pipeline.prefill.on",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.prefill.on; },
     .low = 1,
     .list = true,
     .valid = is_any,
     .shape = "a list of devices' names"},
    {.path = "pipeline.prefill.chunk_tokens",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.prefill.chunk_tokens; },
     .low = 1,
     .high = 65536},
    {.path = "pipeline.prefill.attention.method",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.prefill.attention.method; },
     .names = names_of_methods(MethodSlot::prefill)},
    {.path = "pipeline.prefill.attention.alpha",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.prefill.attention.alpha; },
     .shape = a_share},
    {.path = "pipeline.prefill.attention.sample_rows",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.prefill.attention.sample_rows; },
     .high = 256},
    {.path = "pipeline.prefill.attention.min_tokens",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.prefill.attention.min_tokens; },
     .high = 1 << 20},
    {.path = "pipeline.prefill.attention.alpha_of",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.prefill.attention.alpha_of; },
     .names = alphas_of},
    {.path = "pipeline.prefill.attention.first_keys",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.prefill.attention.first_keys; },
     .high = 4096},
    {.path = "pipeline.prefill.attention.near_keys",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.prefill.attention.near_keys; },
     .high = 1 << 20},
    {.path = "pipeline.prefill.attention.blocks",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.prefill.attention.blocks; },
     .high = 4096},
    {.path = "pipeline.prefill.attention.overlap",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.prefill.attention.overlap; },
     .names = overlaps},
    {.path = "pipeline.prefill.attention.density",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.prefill.attention.density; },
     .shape = a_share},
    {.path = "pipeline.prefill.attention.patterns_file",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.prefill.attention.patterns_file; },
     .valid = is_path_or_none,
     .shape = "a file as MInference's search writes it, or \"\""},
    {.path = "pipeline.decode.on",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.decode.on; },
     .shape = "a list of one device's name"},
    {.path = "pipeline.decode.batch_max",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.decode.batch_max; },
     .low = 1,
     .high = 1024},
    {.path = "pipeline.decode.step_ms_max",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.decode.step_ms_max; },
     .low = 1,
     .high = 60'000},
    {.path = "pipeline.decode.attention.method",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.decode.attention.method; },
     .names = names_of_methods(MethodSlot::decode)},
    {.path = "pipeline.decode.attention.budget_tokens",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.decode.attention.budget_tokens; },
     .low = least_budget_tokens,
     .high = 1 << 24},
    {.path = "pipeline.decode.attention.reselect_every",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.decode.attention.reselect_every; },
     .low = 1,
     .high = 4096},
    {.path = "pipeline.decode.attention.cold_tokens",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.decode.attention.cold_tokens; },
     .high = 1 << 20},
    {.path = "pipeline.decode.attention.observe",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.decode.attention.observe; },
     .low = 1,
     .high = 256},
    {.path = "pipeline.decode.attention.pool",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.decode.attention.pool; },
     .high = 255},
    {.path = "pipeline.decode.attention.pool_side",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.decode.attention.pool_side; },
     .names = pool_sides},
    {.path = "pipeline.decode.attention.lag_steps",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.decode.attention.lag_steps; },
     .high = 256},
    {.path = "pipeline.decode.attention.window",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.decode.attention.window; },
     .low = 1,
     .high = 4096},
    {.path = "pipeline.decode.attention.sinks",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.decode.attention.sinks; },
     .high = 4096},
    {.path = "pipeline.decode.attention.shift",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.decode.attention.shift; },
     .names = yes_or_no},
    {.path = "pipeline.rounds.method",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.rounds.method; },
     .names = names_of_methods(MethodSlot::rounds)},
    {.path = "pipeline.rounds.share",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.rounds.share; },
     .shape = a_share},
    {.path = "pipeline.rounds.mass_min",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.rounds.mass_min; },
     .shape = a_share},
    {.path = "pipeline.rounds.deviations",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.rounds.deviations; },
     .low = 1,
     .high = 16},
    {.path = "pipeline.rounds.watershed_layer",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.rounds.watershed_layer; },
     .high = 1024},
    {.path = "pipeline.methods",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.methods; },
     .names = names_of_methods(MethodSlot::any),
     .list = true},
    {.path = "pipeline.budget_tokens_max",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.pipeline.budget_tokens_max; },
     .high = 1 << 24},
    {.path = "memory.device_kv_mib",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.memory.device_kv_mib; },
     .low = 1,
     .high = 1 << 24},
    {.path = "memory.host_kv_mib",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.memory.host_kv_mib; },
     .high = 1 << 24},
    {.path = "memory.kv_dtype",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.memory.kv_dtype; },
     .names = kv_types},
    {.path = "memory.disk.path",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.memory.disk.path; },
     .valid = is_path_or_none,
     .shape = "a folder, or \"\""},
    {.path = "memory.disk.kv_mib",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.memory.disk.kv_mib; },
     .low = 1,
     .high = 1 << 30},
    {.path = "memory.disk.free_mib",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.memory.disk.free_mib; },
     .high = 1 << 30},
    {.path = "memory.disk.tenant_mib",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.memory.disk.tenant_mib; },
     .high = 1 << 30},
    {.path = "memory.disk.written_a_day_mib",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.memory.disk.written_a_day_mib; },
     .high = 1 << 30},
    {.path = "memory.disk.min_tokens",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.memory.disk.min_tokens; },
     .low = 1,
     .high = 1 << 24},
    {.path = "memory.disk.unused_s",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.memory.disk.unused_s; },
     .low = 60,
     .high = 315'360'000},
    {.path = "memory.disk.key_file",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.memory.disk.key_file; },
     .valid = is_path_or_none,
     .shape = "a file of 1 to 8 lines of 64 hexadecimal digits, or \"\""},
    {.path = "server.host",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.server.host; },
     .valid = is_host,
     .shape = "an address or a host's name"},
    {.path = "server.port",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.server.port; },
     .high = 65'535},
    {.path = "server.allowed_hosts",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.server.allowed_hosts; },
     .list = true,
     .valid = is_host_name,
     .shape = "a list of hosts' names without ports"},
    {.path = "server.api_keys_file",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.server.api_keys_file; },
     .valid = is_path_or_none,
     .shape = "a file of lines KEY TENANT, or \"\""},
    {.path = "server.api_keys_shared",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.server.api_keys_shared; },
     .names = yes_or_no},
    {.path = "server.cors_origin",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.server.cors_origin; },
     .valid = is_origin_or_none,
     .shape = "an origin like https://example.org, * or \"\""},
    {.path = "server.served_model_names",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.server.served_model_names; },
     .list = true,
     .valid = is_model_name,
     .shape = "a list of names of 1 to 256 printable bytes"},
    {.path = "server.reasoning",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.server.reasoning; },
     .names = reasonings},
    {.path = "server.requests_waiting_max",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.server.requests_waiting_max; },
     .high = 100'000},
    {.path = "server.conversations_max",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.server.conversations_max; },
     .low = 1,
     .high = 1'000'000},
    {.path = "server.conversations_mib",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.server.conversations_mib; },
     .low = 1,
     .high = 1 << 20},
    {.path = "server.conversation_idle_s",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.server.conversation_idle_s; },
     .high = 31'536'000},
    {.path = "server.deadline_s",
     .slot = [](Settings& s, std::string_view) -> SettingSlot { return &s.server.deadline_s; },
     .low = 1,
     .high = 86'400},
};

}  // namespace

void apply_preset(Settings& settings) {
    const Preset* const preset = std::ranges::find(presets, settings.preset, &Preset::name);
    if (preset == std::end(presets)) return;
    settings.pipeline.prefill.attention.method = preset->prefill;
    settings.pipeline.decode.attention.method = preset->decode;
    settings.pipeline.rounds.method = preset->rounds;
}

std::span<const GoneKey> gone_keys() {
    static constexpr GoneKey keys[] = {{"pipeline.compression.method", "none"}, {"pipeline.restore.planner", "none"}};
    return keys;
}

std::string SettingKey::expects() const {
    if (!shape.empty()) return std::string(shape);
    if (!names.empty()) return (list ? "a list of " : "") + listed(names);
    return "a whole number " + std::to_string(low) + " to " + std::to_string(high);
}

std::span<const SettingKey> setting_keys() {
    return keys;
}

std::string listed(std::span<const std::string_view> names) {
    std::string out;
    for (size_t i = 0; i < names.size(); ++i) {
        if (i > 0) out += i + 1 == names.size() ? " or " : ", ";
        out += names[i];
    }
    return out;
}

}  // namespace rondo
