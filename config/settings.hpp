#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"

namespace rondo {

/// A compute device, by the name that pipeline.*.on calls it.
struct DeviceSettings {
    enum class Kind { cpu, cuda };
    enum class Bf16 { measured, tiles, pairs, floats };

    std::string name;
    Kind kind = Kind::cpu;
    int threads = 0;             ///< of a CPU device; 0: as many as this process may use at once
    int ordinal = 0;             ///< of a GPU
    Bf16 bf16 = Bf16::measured;  ///< how a CPU device multiplies it
    bool operator==(const DeviceSettings&) const = default;
};

struct ModelSettings {
    std::string path = "demo";     ///< a Hugging Face folder, a .gguf file, or "demo"
    std::string weights = "auto";  ///< "auto": the model's own; "random:SEED"
    bool operator==(const ModelSettings&) const = default;
};

/// What the rows of a prompt attend to. A method's row names the keys that it heeds (config/method_rows.hpp).
struct PrefillAttention {
    enum class Method {
        dense,
#define RONDO_METHOD(method, ...) method,
#include "config/prefill_methods.inc"
    };
    enum class Overlap { exact, literal };
    enum class AlphaOf { sum, each_row };

    Method method = Method::dense;
    double alpha = 0.9;                ///< share of the attention that the chosen lines hold
    int sample_rows = 0;               ///< rows of a chunk that are looked at; 0: the method's own number
    int min_tokens = 512;              ///< a prompt is dense while it sees fewer keys than this
    AlphaOf alpha_of = AlphaOf::sum;   ///< of which attention the lines hold that share
    Overlap overlap = Overlap::exact;  ///< how mass that two lines share is counted
    int first_keys = 4;                ///< always chosen; alpha is of what they and the near ones leave
    int near_keys = 1;                 ///< right before each row, likewise
    int blocks = 0;                    ///< blocks beside the lines, for each block of rows
    double density = 0.1;              ///< share of the entries that are computed
    std::string patterns_file = "";    ///< counts for each head, in place of `density`; none if empty
    bool operator==(const PrefillAttention&) const = default;
};

struct PrefillSettings {
    std::vector<std::string> on{"cpu"};
    int chunk_tokens = 512;
    PrefillAttention attention;
    bool operator==(const PrefillSettings&) const = default;
};

/// What decode steps attend to. A method's row names the keys that it heeds.
struct DecodeAttention {
    enum class Method {
        dense,
#define RONDO_METHOD(method, ...) method,
#include "config/decode_methods.inc"
    };
    enum class PoolSide { own, after, around };

    Method method = Method::dense;
    int budget_tokens = 1024;            ///< keys of a KV head, where a method does not share them out
    int reselect_every = 16;             ///< decode steps between two selections
    int cold_tokens = 16;                ///< first decode steps, which attend to everything
    int observe = 16;                    ///< of the last `reselect_every` queries (256 at most), how many score
    int pool = 0;                        ///< keys over which scores are max-pooled; 1: none, 0: the method's own number
    PoolSide pool_side = PoolSide::own;  ///< which neighbours of a chosen key are chosen with it
    int lag_steps = 1;                   ///< steps that the previous selection still serves
    int window = 32;                     ///< last queries that score; some methods keep as many of the last keys
    int sinks = 4;                       ///< first keys that always stay
    bool shift = false;                  ///< the sinks move up to the window, as if nothing had been between
    bool operator==(const DecodeAttention&) const = default;
};

struct DecodeSettings {
    std::vector<std::string> on{"cpu"};
    int batch_max = 32;
    int step_ms_max = 100;
    DecodeAttention attention;
    bool operator==(const DecodeSettings&) const = default;
};

/// Which of a conversation's earlier rounds the layers above the watershed attend to, for a turn's message and its
/// answer. A method's row names the keys that it heeds.
struct RoundSettings {
    enum class Method {
        none,
#define RONDO_METHOD(method, ...) method,
#include "config/round_methods.inc"
    };

    Method method = Method::none;
    double share = 0.1;       ///< of the earlier rounds that stay
    double mass_min = 0.1;    ///< of the attention to earlier rounds: what a round must draw to stay
    int deviations = 3;       ///< above the mean, that it must draw
    int watershed_layer = 0;  ///< the last layer that attends to all rounds, counted from 1; 0: the model's own
    bool operator==(const RoundSettings&) const = default;
};

struct PipelineSettings {
    PrefillSettings prefill;
    DecodeSettings decode;
    RoundSettings rounds;
    std::vector<std::string> methods;  ///< that a turn may ask for, besides what is configured and dense
    int budget_tokens_max = 0;         ///< that a turn may ask for; 0: the configured budget
    bool operator==(const PipelineSettings&) const = default;
};

/// Where conversations' KV is put away.
struct DiskSettings {
    std::string path;               ///< a folder of this user's; none: nothing is put away
    int kv_mib = 20'480;            ///< it may take, in MiB
    int free_mib = 1024;            ///< of the disk that are left to others
    int tenant_mib = 0;             ///< of one tenant's; 0: no less than all
    int written_a_day_mib = 0;      ///< 0: as much as there is to write
    int min_tokens = 64;            ///< of what is put away: less is computed as soon as read
    int unused_s = 14 * 24 * 3600;  ///< after which it goes
    std::string key_file;           ///< of the key that it is encrypted with; none: it is readable
    bool operator==(const DiskSettings&) const = default;
};

struct MemorySettings {
    enum class KvType { bf16, f32, int8 };

    int device_kv_mib = 1024;
    int host_kv_mib = 0;  ///< of what is on the disk, as much lies in host memory as well, for GPUs
    KvType kv_dtype = KvType::bf16;
    DiskSettings disk;
    bool operator==(const MemorySettings&) const = default;
};

struct ServerSettings {
    enum class Reasoning { automatic, off };

    std::string host = "127.0.0.1";
    int port = 8080;
    std::vector<std::string> allowed_hosts;       ///< names by which clients know the server; counts without keys only
    std::string api_keys_file;                    ///< none: every client is let in
    bool api_keys_shared = false;                 ///< others may read the file
    std::string cors_origin;                      ///< none: pages of other origins are refused by browsers
    std::vector<std::string> served_model_names;  ///< by which clients ask; none: the model's own
    Reasoning reasoning = Reasoning::automatic;   ///< whether what a model thinks is told apart from its answer
    int requests_waiting_max = 256;
    int conversations_max = 10'000;
    int conversations_mib = 1024;  ///< what all of them may remember, in MiB
    int conversation_idle_s = 0;   ///< after which one leaves; 0: none does
    int deadline_s = 600;
    bool operator==(const ServerSettings&) const = default;
};

/// Everything a pipeline file says. By default the demo model on the CPU, dense. setting_keys.cpp is the table of keys,
/// reference.yaml their documentation.
struct Settings {
    /// Fills the method slots of `pipeline` when a file is read; single keys win over it. A host sets the slots.
    std::string preset = "dense";
    ModelSettings model;
    std::vector<DeviceSettings> devices{{.name = "cpu"}};  ///< in the order written; never empty
    PipelineSettings pipeline;
    MemorySettings memory;
    ServerSettings server;
    std::vector<std::string> notes;  ///< a line for each key that is gone and was accepted, for people
    bool operator==(const Settings&) const = default;

    /// nullptr when there is none of that name.
    const DeviceSettings* device(std::string_view name) const;
};

/// Holds settings that a host has filled by itself to what a file may say: each key's range, and what concerns several
/// keys. An error is one line: the key's whole path, what it is, and what it must be.
Status check_settings(const Settings& settings);

/// Reads a YAML document and then the overrides ("a.b=c", the value in YAML too), the later winning. An error is one
/// line: file and line (or the override), the key's whole path, and what must be there. `change` is called before keys
/// are checked together: for what a command line says in place of the text.
Result<Settings> settings_from_yaml(
    std::string_view text, const std::string& where, std::span<const std::string> overrides,
    const std::function<Status(Settings&)>& change = [](Settings&) { return Status::ok(); });

/// The same of a file. Its relative paths of the store begin where it lies, those of overrides where the process runs.
Result<Settings> settings_from_file(
    const std::string& path, std::span<const std::string> overrides = {},
    const std::function<Status(Settings&)>& change = [](Settings&) { return Status::ok(); });

}  // namespace rondo
