#include "config/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "config/method_rows.hpp"
#include "config/setting_keys.hpp"
#include "config/yaml_tree.hpp"
#include "tests/config/read_settings.hpp"

namespace rondo {
namespace {

using testing::error_of;
using testing::read;
using testing::value_of;

TEST(Settings, NothingWrittenIsTheDefault) {
    for (const char* text : {"", "{}", "# only a comment\n", "---\n", "pipeline:\nmodel: {}\ndevices: {}\n",
                             "pipeline: {prefill: {attention: }}"})
        EXPECT_EQ(value_of(text), Settings()) << text;
    EXPECT_EQ(Settings().model.path, "demo");
    EXPECT_EQ(Settings().devices.at(0).kind, DeviceSettings::Kind::cpu);
}

TEST(Settings, NullIsNothingWhereTextMayBeEmpty) {
    for (const char* null : {"null", "~", ""}) {
        EXPECT_EQ(value_of("server:\n  api_keys_file: " + std::string(null)).server.api_keys_file, "") << null;
        EXPECT_EQ(value_of("server: {cors_origin: '*'}", {"server.cors_origin=" + std::string(null)}), Settings());
    }
    EXPECT_EQ(value_of("server: {api_keys_file: 'null'}").server.api_keys_file, "null");
    for (const char* path : {"model.path", "model.weights", "server.host", "preset", "pipeline.rounds.method"})
        EXPECT_NE(error_of("", {std::string(path) + "=null"}).find("is empty, must be "), std::string::npos) << path;
}

TEST(Settings, EveryMethodIsReadByItsOwnName) {
    for (const MethodRow& row : prefill_method_rows) {
        const std::string override = "pipeline.prefill.attention.method=" + std::string(row.name);
        EXPECT_EQ(row_of(value_of("", {override}).pipeline.prefill.attention.method).name, row.name);
    }
    for (const MethodRow& row : decode_method_rows) {
        const std::string override = "pipeline.decode.attention.method=" + std::string(row.name);
        if (row.for_pipelines) {
            EXPECT_EQ(row_of(value_of("", {override}).pipeline.decode.attention.method).name, row.name);
        } else {
            EXPECT_NE(error_of("", {override}), "no error") << row.name;
        }
    }
    EXPECT_EQ(row_of(DecodeAttention::Method::snapkv).name, "snapkv");
    EXPECT_FALSE(row_of(DecodeAttention::Method::oracle).for_pipelines);
}

TEST(Settings, ARequestMayBeLetAskForEveryMethod) {
    std::set<std::string_view> of_slots;
    for (const MethodSlot slot : {MethodSlot::preset, MethodSlot::prefill, MethodSlot::decode, MethodSlot::rounds}) {
        const auto names = names_of_methods(slot);
        of_slots.insert(names.begin(), names.end());
    }
    of_slots.erase("none");  // dense, where any may be named
    const auto any = names_of_methods(MethodSlot::any);
    EXPECT_EQ(std::set(any.begin(), any.end()), of_slots);
    EXPECT_EQ(any.size(), of_slots.size());
}

TEST(Settings, EveryKeyIsRead) {
    const Settings settings = value_of(R"(
model: {path: /models/qwen, weights: "random:18446744073709551615"}
devices:
  big: {kind: cuda, ordinal: 3}
  small: {kind: cpu, threads: 2}
pipeline:
  prefill: {on: [small], chunk_tokens: 64, attention: {method: dense}}
  decode: {on: [small], batch_max: 7, attention: {method: dense}}
memory: {device_kv_mib: 12, kv_dtype: int8}
)");
    EXPECT_EQ(settings.model.path, "/models/qwen");
    EXPECT_EQ(settings.model.weights, "random:18446744073709551615");
    ASSERT_EQ(settings.devices.size(), 2U);
    EXPECT_EQ(settings.devices[0], (DeviceSettings{"big", DeviceSettings::Kind::cuda, 0, 3}));
    EXPECT_EQ(settings.devices[1], (DeviceSettings{"small", DeviceSettings::Kind::cpu, 2, 0}));
    EXPECT_EQ(settings.pipeline.prefill.on, std::vector<std::string>{"small"});
    EXPECT_EQ(settings.pipeline.prefill.chunk_tokens, 64);
    EXPECT_EQ(settings.pipeline.decode.batch_max, 7);
    EXPECT_EQ(settings.memory.device_kv_mib, 12);
    EXPECT_EQ(settings.memory.kv_dtype, MemorySettings::KvType::int8);
    EXPECT_EQ(settings.device("small"), &settings.devices[1]);
    EXPECT_EQ(settings.device("none"), nullptr);
}

TEST(Settings, TheFirstDeviceServesWhereNoneIsNamed) {
    EXPECT_EQ(value_of("devices: {b: , a: }").pipeline.prefill.on, std::vector<std::string>{"b"});
    const Settings settings = value_of("devices: {b: , a: }\npipeline: {decode: {on: [a]}}");
    EXPECT_EQ(settings.pipeline.prefill.on, std::vector<std::string>{"a"});
    EXPECT_EQ(settings.pipeline.decode.on, std::vector<std::string>{"a"});
}

TEST(Settings, HostsAreAListOfNames) {
    EXPECT_EQ(value_of("server: {allowed_hosts: [gpu-box, rondo.example.org, my_app]}").server.allowed_hosts,
              (std::vector<std::string>{"gpu-box", "rondo.example.org", "my_app"}));
    EXPECT_EQ(value_of("server: {allowed_hosts: []}"), Settings());
    for (const char* wrong : {"gpu-box", "['gpu-box:8080']", "['*']", "['']", "['http://box']", "[[a]]"}) {
        EXPECT_THAT(error_of("server: {allowed_hosts: " + std::string(wrong) + "}"),
                    ::testing::HasSubstr("server.allowed_hosts: "))
            << wrong;
    }
}

TEST(Settings, OverridesWinOverTheFileAndLaterOverEarlierOnes) {
    const Settings settings =
        value_of("memory: {device_kv_mib: 5}\nmodel: {path: x}",
                 {"memory.device_kv_mib=6", "memory.device_kv_mib=7", "devices.gpu={kind: cuda, ordinal: 1}",
                  "model.path=a=b", "pipeline.prefill.on=[gpu]", "pipeline.decode.attention.method=dense"});
    EXPECT_EQ(settings.memory.device_kv_mib, 7);
    EXPECT_EQ(settings.model.path, "a=b");
    EXPECT_EQ(settings.devices.at(0).ordinal, 1);
    EXPECT_EQ(value_of("", {"memory={kv_dtype: f32}"}).memory.kv_dtype, MemorySettings::KvType::f32);
}

TEST(Settings, UnknownKeysAreNamedWithTheRightOnes) {
    EXPECT_EQ(error_of("a: 1"), "f.yaml:1: a: unknown key, must be preset, model, devices, pipeline, memory or server");
    EXPECT_EQ(error_of("\npipelin:\n  prefill: {}\n"),
              "f.yaml:2: pipelin: unknown key, must be preset, model, devices, pipeline, memory or server; did you "
              "mean pipeline?");
    EXPECT_EQ(
        error_of("pipeline:\n  prefill:\n    chunk_token: 3"),
        "f.yaml:3: pipeline.prefill.chunk_token: unknown key, must be on, chunk_tokens or attention; did you mean "
        "chunk_tokens?");
    EXPECT_EQ(error_of("devices: {a: {thread: 1}}"),
              "f.yaml:1: devices.a.thread: unknown key, must be kind, threads, ordinal or bf16; did you mean threads?");
    EXPECT_EQ(error_of("\"a\\nb\\e\": 1"),
              "f.yaml:1: \"a\\x0ab\\x1b\": unknown key, must be preset, model, devices, pipeline, memory or server");
    EXPECT_EQ(
        error_of("memory.device_kv_mib: 1"),
        "f.yaml:1: \"memory.device_kv_mib\": unknown key, must be preset, model, devices, pipeline, memory or server");
    EXPECT_EQ(error_of("", {"memory.kv=1"}),
              "--set memory.kv: memory.kv: unknown key, must be device_kv_mib, host_kv_mib, kv_dtype or disk");
}

TEST(Settings, MethodsThatAreNotThereAreRefusedWithThoseThatAre) {
    EXPECT_EQ(error_of("pipeline: {prefill: {attention: {method: loopsrve}}}"),
              "f.yaml:1: pipeline.prefill.attention.method: is \"loopsrve\", must be " +
                  listed(names_of_methods(MethodSlot::prefill)) + "; did you mean loopserve?");
}

TEST(Settings, KeysThatAreGoneAreAcceptedAndNoted) {
    const Settings settings =
        value_of("pipeline:\n  rounds: {method: none}\n  restore:\n    planner: none\n  compression:\n");
    EXPECT_THAT(settings.notes, ::testing::ElementsAre(
                                    "f.yaml:4: pipeline.restore.planner: has no effect any more and can be left out"));
    EXPECT_EQ(settings.pipeline, value_of("{}").pipeline);
    EXPECT_EQ(error_of("pipeline: {compression: {method: krul}}"),
              "f.yaml:1: pipeline.compression.method: is \"krul\", must be none or left out");
    EXPECT_EQ(error_of("pipeline: {restore: {planner: [none]}}"),
              "f.yaml:1: pipeline.restore.planner: is a list of 1, must be none or left out");
    EXPECT_EQ(error_of("pipeline: {restore: none}"), "f.yaml:1: pipeline.restore: is \"none\", must be left out");
    EXPECT_EQ(error_of("pipeline: {restore: {plan: none}}"), "f.yaml:1: pipeline.restore.plan: unknown key");
    EXPECT_THAT(error_of("pipeline: {restores: {planner: none}}"),
                ::testing::HasSubstr("pipeline.restores: unknown key"));
}

TEST(Settings, HostMemoryHasNoEffectWithoutADisk) {
    const Settings alone = value_of("memory:\n  host_kv_mib: 512");
    EXPECT_EQ(alone.memory.host_kv_mib, 512);
    EXPECT_THAT(alone.notes,
                ::testing::ElementsAre("f.yaml:2: memory.host_kv_mib: has no effect without memory.disk.path"));
    EXPECT_THAT(value_of("memory: {host_kv_mib: 512, disk: {path: kv}}").notes, ::testing::IsEmpty());
    EXPECT_THAT(value_of("memory: {host_kv_mib: 0}").notes, ::testing::IsEmpty());
    for (const char* wrong : {"-1", "16777217", "1.5", "auto", "99999999999999999999"})
        EXPECT_THAT(error_of("memory: {host_kv_mib: " + std::string(wrong) + "}"),
                    ::testing::HasSubstr("memory.host_kv_mib: is \"" + std::string(wrong) +
                                         "\", must be a whole number 0 to 16777216"));
}

TEST(Settings, APresetFillsTheMethodSlotsAndSingleKeysWin) {
    const Settings loopserve = value_of("preset: loopserve");
    EXPECT_EQ(loopserve.pipeline.prefill.attention.method, PrefillAttention::Method::loopserve);
    EXPECT_EQ(loopserve.pipeline.decode.attention.method, DecodeAttention::Method::progressive);
    const char* mixed = "pipeline: {decode: {attention: {method: snapkv, budget_tokens: 99}}}\npreset: loopserve";
    EXPECT_EQ(value_of(mixed).pipeline.prefill.attention.method, PrefillAttention::Method::loopserve);
    EXPECT_EQ(value_of(mixed).pipeline.decode.attention.method, DecodeAttention::Method::snapkv);
    EXPECT_EQ(value_of(mixed, {"preset=dense"}).pipeline.prefill.attention.method, PrefillAttention::Method::dense);
    EXPECT_EQ(error_of("preset: krull"), "f.yaml:1: preset: is \"krull\", must be dense, loopserve or rondo");
    EXPECT_EQ(value_of("preset: rondo").pipeline.rounds.method, RoundSettings::Method::top_rounds);
    EXPECT_EQ(loopserve.pipeline.rounds.method, RoundSettings::Method::none);
}

TEST(Settings, SharesAreAboveZeroAndUpToOne) {
    EXPECT_EQ(value_of("pipeline: {prefill: {attention: {alpha: 0.5}}}").pipeline.prefill.attention.alpha, 0.5);
    EXPECT_EQ(value_of("pipeline: {prefill: {attention: {alpha: 1}}}").pipeline.prefill.attention.alpha, 1.0);
    for (const char* bad : {"0", "-0.5", "1.01", "nan", "inf", "1e-1", "half", "\"0.5\"", "[0.5]", "0x1"})
        EXPECT_NE(error_of("pipeline: {prefill: {attention: {alpha: " + std::string(bad) + "}}}")
                      .find("must be a number above 0 and up to 1"),
                  std::string::npos)
            << bad;
}

TEST(Settings, WrongTypesAreNamedWithTheRightOne) {
    const std::string number = "f.yaml:1: memory.device_kv_mib: is ";
    const std::string right = ", must be a whole number 1 to 16777216";
    for (const auto& [written, said] :
         std::vector<std::pair<std::string, std::string>>{{"", "empty"},
                                                          {"null", "empty"},
                                                          {"~", "empty"},
                                                          {"\"5\"", "\"5\""},
                                                          {"'5'", "\"5\""},
                                                          {"[5]", "a list of 1"},
                                                          {"{a: 1}", "a map"},
                                                          {"1.5", "\"1.5\""},
                                                          {"1e3", "\"1e3\""},
                                                          {"0x10", "\"0x10\""},
                                                          {"+5", "\"+5\""},
                                                          {"5 MiB", "\"5 MiB\""},
                                                          {"true", "\"true\""},
                                                          {".nan", "\".nan\""},
                                                          {".inf", "\".inf\""},
                                                          {"1_000", "\"1_000\""},
                                                          {"5,", "\"5,\""},
                                                          {"99999999999999999999", "\"99999999999999999999\""}}) {
        EXPECT_EQ(error_of("memory:\n  device_kv_mib: " + written), "f.yaml:2" + number.substr(8) + said + right)
            << written;
    }
    EXPECT_EQ(error_of("model: demo"), "f.yaml:1: model: is \"demo\", must be a map of path or weights");
    EXPECT_EQ(error_of("devices: [a]"), "f.yaml:1: devices: is a list of 1, must be a map of names");
    EXPECT_EQ(
        error_of("[]"),
        "f.yaml:1: the document: is a list of 0, must be a map of preset, model, devices, pipeline, memory or server");
    EXPECT_EQ(error_of("5"),
              "f.yaml:1: the document: is \"5\", must be a map of preset, model, devices, pipeline, memory or server");
    EXPECT_EQ(error_of("pipeline: {prefill: {on: cpu}}"),
              "f.yaml:1: pipeline.prefill.on: is \"cpu\", must be a list of devices' names");
    EXPECT_EQ(error_of("pipeline: {prefill: {on: []}}"),
              "f.yaml:1: pipeline.prefill.on: is a list of 0, must be a list of devices' names");
    EXPECT_EQ(error_of("pipeline: {prefill: {on: [[cpu]]}}"),
              "f.yaml:1: pipeline.prefill.on: is a list of 1, must be a list of devices' names");
    EXPECT_EQ(error_of("model: {path: }"),
              "f.yaml:1: model.path: is empty, must be a Hugging Face folder, a .gguf file or demo");
    EXPECT_EQ(error_of("model: {path: \"a\\0b\"}"),
              "f.yaml:1: model.path: is \"a\\x00b\", must be a Hugging Face folder, a .gguf file or demo");
    for (const char* weights : {"none", "random", "random:", "random:-1", "random:18446744073709551616", "random:1 "})
        EXPECT_EQ(error_of(std::string("model: {weights: \"") + weights + "\"}"),
                  "f.yaml:1: model.weights: is \"" + std::string(weights) + "\", must be auto or random:SEED");
    EXPECT_EQ(error_of("memory: {kv_dtype: bf61}"),
              "f.yaml:1: memory.kv_dtype: is \"bf61\", must be bf16, f32 or int8; did you mean bf16?");
}

/// `value` under a key's path, in YAML's flow style.
std::string document(const std::string& path, const std::string& value) {
    std::string text, end;
    std::stringstream words(path);
    for (std::string word; std::getline(words, word, '.');) {
        text += '{' + word + ": ";
        end += '}';
    }
    return text + value + end;
}

std::string with_device(std::string_view path) {
    std::string out(path);
    if (const size_t star = out.find('*'); star != std::string::npos) out[star] = 'd';
    return out;
}

TEST(Settings, EveryNumberHasItsRange) {
    int numbers = 0;
    for (const SettingKey& key : setting_keys()) {
        Settings settings;
        settings.devices = {{.name = "d"}};
        if (!std::holds_alternative<int*>(key.slot(settings, "d"))) continue;
        ++numbers;
        const std::string path = with_device(key.path);
        const std::string extra = path == "devices.d.ordinal"        ? ", kind: cuda"
                                  : path.ends_with("lag_steps")      ? ", reselect_every: 4096"
                                  : path.ends_with("reselect_every") ? ", lag_steps: 0"
                                                                     : "";
        for (const int64_t value : {key.low, key.high}) {
            auto read_back = value_of(document(path, std::to_string(value) + extra));
            EXPECT_EQ(*std::get<int*>(key.slot(read_back, "d")), value) << path;
        }
        for (const int64_t value :
             {key.low - 1, key.high + 1, int64_t{INT32_MAX}, int64_t{INT64_MIN}, int64_t{INT64_MAX}})
            EXPECT_EQ(error_of(document(path, std::to_string(value))),
                      "f.yaml:1: " + path + ": is \"" + std::to_string(value) + "\", must be a whole number " +
                          std::to_string(key.low) + " to " + std::to_string(key.high));
    }
    EXPECT_EQ(numbers, 35);
}

/// They become bytes, of which several are summed up.
TEST(Settings, NoLimitInMibOverflows) {
    int limits = 0;
    for (const SettingKey& key : setting_keys()) {
        if (!key.path.ends_with("_mib")) continue;
        ++limits;
        EXPECT_GE(key.low, 0) << key.path;
        EXPECT_LE(key.high, std::min<int64_t>(INT32_MAX, INT64_MAX >> 24)) << key.path;
        for (const char* absurd : {"9223372036854775808", "18446744073709551617", "-9223372036854775809", "20 GiB"})
            EXPECT_EQ(error_of(document(std::string(key.path), absurd)),
                      "f.yaml:1: " + std::string(key.path) + ": is \"" + absurd + "\", must be " + key.expects());
    }
    EXPECT_EQ(limits, 7);
}

TEST(Settings, PathsOfTheStoreAreOneLineOrNone) {
    for (const auto& [path, shape] :
         {std::pair("memory.disk.path", "a folder, or \"\""),
          {"memory.disk.key_file", "a file of 1 to 8 lines of 64 hexadecimal digits, or \"\""}}) {
        for (const char* none : {"~", "null", "''", "\"\"", ""}) EXPECT_EQ(value_of(document(path, none)), Settings());
        EXPECT_NE(value_of(document(path, std::string(4096, 'x'))), Settings());
        EXPECT_NE(value_of(document(path, "~/kv")), Settings()) << "a name like others";
        for (const auto& [wrong, said] : {std::pair("[kv]", "a list of 1"),
                                          {"{a: kv}", "a map"},
                                          {R"("a\nb")", R"("a\x0ab")"},
                                          {R"("a\0b")", R"("a\x00b")"}})
            EXPECT_EQ(error_of(document(path, wrong)),
                      std::string("f.yaml:1: ") + path + ": is " + said + ", must be " + shape);
        EXPECT_THAT(error_of(document(path, std::string(4097, 'x'))), ::testing::HasSubstr(shape));
    }
}

TEST(Settings, SettingsThatWouldDoNothingAreRefused) {
    EXPECT_EQ(error_of("devices:\n  a:\n    kind: cuda\n    threads: 2"),
              "f.yaml:4: devices.a.threads: is 2, must be 0 where kind is cuda");
    EXPECT_EQ(error_of("devices: {a: {ordinal: 1}}", {"devices.a.kind=cpu"}),
              "f.yaml:1: devices.a.ordinal: is 1, must be 0 where kind is cpu");
    EXPECT_EQ(error_of("devices: {a: {kind: cuda, bf16: floats}}"),
              "f.yaml:1: devices.a.bf16: must be measured where kind is cuda");
    EXPECT_EQ(error_of("pipeline: {decode: {attention: {reselect_every: 1}}}"),
              "f.yaml:1: pipeline.decode.attention.lag_steps: is 1, must be below reselect_every, which is 1");
    EXPECT_EQ(error_of("pipeline: {prefill: {attention: {alpha_of: each_row, overlap: literal}}}"),
              "f.yaml:1: pipeline.prefill.attention.alpha_of: is each_row, must be sum where overlap is literal");
}

TEST(Settings, MethodsThatGpusDoNotHaveAreRefusedThere) {
    const std::string gpu = "devices: {g: {kind: cuda}}\n";
    EXPECT_EQ(error_of(gpu + "preset: loopserve"),
              "f.yaml:1: pipeline.prefill.attention.method: must be dense on a GPU; CPUs have the others");
    EXPECT_EQ(error_of(gpu + "pipeline: {decode: {attention: {method: quest}}}"),
              "f.yaml:2: pipeline.decode.attention.method: must be dense on a GPU; CPUs have the others");
    EXPECT_EQ(error_of(gpu + "pipeline: {methods: [dense, snapkv]}"),
              "f.yaml:2: pipeline.methods: must be dense or of rounds on a GPU; CPUs have the others");
    EXPECT_EQ(error_of(gpu + "pipeline: {methods: [dense]}"), "no error");
}

TEST(Settings, DevicesHaveShortPlainNamesAndABound) {
    for (const std::string& name : std::vector<std::string>{"\"\"", "a b", "\"*\"", "a.b", "é", std::string(33, 'a')})
        EXPECT_NE(error_of("devices: {" + name + ": {}}").find("must be 1 to 32 letters"), std::string::npos);
    std::string many = "devices:\n";
    for (int i = 0; i < 64; ++i) many += "  d" + std::to_string(i) + ": {}\n";
    EXPECT_EQ(value_of(many).devices.size(), 64U);
    EXPECT_EQ(error_of(many + "  more: {}\n"), "f.yaml:66: devices: has more than 64");
}

TEST(Settings, AnOverrideOfADeviceThatServesNobodyIsRefused) {
    const std::string two =
        "devices: {prompts: {}, answers: {}, idle: {}}\n"
        "pipeline: {prefill: {on: [prompts]}, decode: {on: [answers]}}";
    const std::string why = "has no effect, for pipeline.prefill.on and pipeline.decode.on do not name it; must be ";
    EXPECT_EQ(error_of(two, {"devices.cpu.threads=8"}),
              "--set devices.cpu: devices.cpu: " + why + "prompts or answers");
    EXPECT_EQ(error_of(two, {"devices.answer={threads: 8}"}),
              "--set devices.answer: devices.answer: " + why + "prompts or answers; did you mean answers?");
    EXPECT_EQ(error_of("", {"devices.a.threads=1", "devices.b.threads=1"}), "--set devices.b: devices.b: " + why + "a");
    EXPECT_EQ(value_of(two, {"devices.answers.threads=8"}).devices.at(1).threads, 8);
    EXPECT_EQ(value_of(two, {"devices.idle.threads=8", "pipeline.prefill.on=[idle]"}).devices.at(2).threads, 8);
}

TEST(Settings, OverridesSayWhatIsWrongWithThem) {
    for (const char* bad : {"", "a", "=1", "a\nb=1", ".........=1"})
        EXPECT_EQ(error_of("", {bad}), "--set " + shown(bad) + ": must be KEY.KEY=VALUE");
    EXPECT_EQ(error_of("", {"memory.device_kv_mib="}),
              "--set memory.device_kv_mib: memory.device_kv_mib: is empty, must be a whole number 1 to 16777216");
    EXPECT_EQ(error_of("model: demo", {"model.path=x"}),
              "--set model.path: model: is \"demo\" at f.yaml:1, must be a map");
    EXPECT_EQ(error_of("", {"memory=a: b: c"}), "--set memory: not valid YAML: illegal map value");
    EXPECT_EQ(error_of("", {"a..b=1"}),
              "--set a..b: a: unknown key, must be preset, model, devices, pipeline, memory or server");
}

}  // namespace
}  // namespace rondo
