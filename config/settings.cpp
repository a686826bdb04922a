#include "config/settings.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <type_traits>

#include "config/did_you_mean.hpp"
#include "config/limits.hpp"
#include "config/setting_check.hpp"
#include "config/setting_keys.hpp"
#include "config/yaml_tree.hpp"

namespace rondo {

namespace {

constexpr std::string_view override_place = "--set ";  // and the key

Error wrong(const std::string& place, const std::string& path, const std::string& what) {
    return make_error(ErrorCode::invalid_argument, place + ": " + (path.empty() ? "the document" : path) + ": " + what);
}

std::string join(std::string_view path, std::string_view child) {
    std::string out(path);
    if (!out.empty()) out += '.';
    return out += child;
}

std::string described(const YamlNode& node) {
    switch (node.kind) {
        case YamlNode::Kind::nothing:
            return "empty";
        case YamlNode::Kind::scalar:
            return shown(node.text);
        case YamlNode::Kind::list:
            return "a list of " + std::to_string(node.children.size());
        case YamlNode::Kind::map:
            return "a map";
    }
    return "?";
}

/// The next words of the keys below a pattern ("" is the root), each once.
std::vector<std::string_view> words_below(std::string_view pattern) {
    std::vector<std::string_view> words;
    for (const SettingKey& key : setting_keys()) {
        std::string_view rest = key.path;
        if (!pattern.empty()) {
            if (!rest.starts_with(pattern) || rest.size() == pattern.size() || rest[pattern.size()] != '.') continue;
            rest.remove_prefix(pattern.size() + 1);
        }
        const std::string_view word = rest.substr(0, rest.find('.'));
        if (std::ranges::find(words, word) == words.end()) words.push_back(word);
    }
    return words;
}

/// Whether the node has the key's type and range; if so it is written to the slot.
bool assign(const SettingKey& key, const YamlNode& node, int* out) {
    int value = 0;
    if (node.kind != YamlNode::Kind::scalar || node.quoted) return false;
    const char* end = node.text.data() + node.text.size();
    const auto [read, error] = std::from_chars(node.text.data(), end, value);
    if (error != std::errc() || read != end || !allows(key, value)) return false;
    *out = value;
    return true;
}

bool assign(const SettingKey& key, const YamlNode& node, double* out) {
    double value = 0.0;
    if (node.kind != YamlNode::Kind::scalar || node.quoted) return false;
    const char* end = node.text.data() + node.text.size();
    const auto [read, error] = std::from_chars(node.text.data(), end, value, std::chars_format::fixed);
    if (error != std::errc() || read != end || !allows(key, value)) return false;
    *out = value;
    return true;
}

/// null, or nothing at all, means "" where "" is a valid value.
bool assign(const SettingKey& key, const YamlNode& node, std::string* out) {
    const bool null = node.kind == YamlNode::Kind::nothing && key.valid != nullptr;
    if ((node.kind != YamlNode::Kind::scalar && !null) || !allows(key, node.text)) return false;
    *out = node.text;
    return true;
}

/// One text, or any number of names.
bool assign(const SettingKey& key, const YamlNode& node, std::vector<std::string>* out) {
    if (node.kind != YamlNode::Kind::list) return false;
    std::vector<std::string> texts;
    for (const YamlNode& child : node.children) {
        if (child.kind != YamlNode::Kind::scalar) return false;
        texts.push_back(child.text);
    }
    if (!allows(key, texts)) return false;
    *out = std::move(texts);
    return true;
}

/// An enum's names, or false and true.
template <class Choice>
requires std::is_enum_v<Choice> || std::is_same_v<Choice, bool>
bool assign(const SettingKey& key, const YamlNode& node, Choice* out) {
    const auto found = std::ranges::find(key.names, node.text);
    if (node.kind != YamlNode::Kind::scalar || found == key.names.end()) return false;
    *out = static_cast<Choice>(found - key.names.begin());
    return true;
}

/// Walks the tree along the table of keys. `pattern` is the path with "*" for the device's name, `path` as it is
/// written.
class Reader {
public:
    explicit Reader(Settings& settings) : settings_(settings) {}

    Status read(const YamlNode& node, const std::string& pattern, const std::string& path, const std::string& device) {
        const auto key = std::ranges::find(setting_keys(), pattern, &SettingKey::path);
        if (key != setting_keys().end()) return set(*key, node, path, device);
        if (node.kind == YamlNode::Kind::nothing) return {};  // "pipeline:" with nothing below: all defaults
        const auto words = words_below(pattern);
        const bool named = words.size() == 1 && words[0] == "*";
        if (node.kind != YamlNode::Kind::map)
            return wrong(node.place, path,
                         "is " + described(node) + ", must be a map of " + (named ? "names" : listed(words)));
        for (const YamlNode& child : node.children) {
            const std::string child_path = join(path, child.key);
            if (named) {
                RONDO_TRY(add_device(child));
                RONDO_TRY(read(child, join(pattern, "*"), child_path, child.key));
            } else if (is_gone(child_path)) {
                RONDO_TRY(pass_over(child, child_path));
            } else if (std::ranges::find(words, child.key) == words.end()) {
                return wrong(child.place, join(path, is_word(child.key) ? child.key : shown(child.key)),
                             "unknown key, must be " + listed(words) + did_you_mean(child.key, words));
            } else {
                RONDO_TRY(read(child, join(pattern, child.key), child_path, device));
            }
        }
        return {};
    }

private:
    Status set(const SettingKey& key, const YamlNode& node, const std::string& path, const std::string& device) {
        const SettingSlot slot = key.slot(settings_, device);
        if (std::visit([&](auto* out) { return assign(key, node, out); }, slot)) return {};
        return wrong(node.place, path,
                     "is " + described(node) + ", must be " + key.expects() + did_you_mean(node.text, key.names));
    }

    /// A gone key, or what such keys lay in.
    static bool is_gone(const std::string& path) {
        return std::ranges::any_of(gone_keys(), [&](const GoneKey& key) {
            return key.path == path ||
                   (key.path.starts_with(path) && key.path[path.size()] == '.' && words_below(path).empty());
        });
    }

    Status pass_over(const YamlNode& node, const std::string& path) {
        const auto gone = std::ranges::find(gone_keys(), path, &GoneKey::path);
        if (gone == gone_keys().end()) {
            for (const YamlNode& child : node.children) {
                const std::string child_path = join(path, child.key);
                if (!is_gone(child_path))
                    return wrong(child.place, join(path, is_word(child.key) ? child.key : shown(child.key)),
                                 "unknown key");
                RONDO_TRY(pass_over(child, child_path));
            }
            if (node.kind == YamlNode::Kind::map || node.kind == YamlNode::Kind::nothing) return {};
            return wrong(node.place, path, "is " + described(node) + ", must be left out");
        }
        if (node.kind != YamlNode::Kind::scalar || node.text != gone->value)
            return wrong(node.place, path,
                         "is " + described(node) + ", must be " + std::string(gone->value) + " or left out");
        settings_.notes.push_back(node.place + ": " + path + ": has no effect any more and can be left out");
        return {};
    }

    Status add_device(const YamlNode& node) {
        if (!is_word(node.key))
            return wrong(node.place, join("devices", shown(node.key)),
                         "a device's name must be 1 to 32 letters, digits, _ or -");
        if (settings_.devices.size() >= limits::devices_max)
            return wrong(node.place, "devices", std::string("has more than ") + std::to_string(limits::devices_max));
        settings_.devices.push_back({.name = node.key});
        return {};
    }

    Settings& settings_;
};

/// Puts "a.b=c" into the tree, replacing what was there.
Status apply_override(YamlNode& root, const std::string& text) {
    const size_t equals = text.find('=');
    const std::string path = text.substr(0, equals);
    const std::string place = std::string(override_place) + path;
    if (equals == std::string::npos || path.empty() || std::ranges::count(path, '.') > 8 ||
        shown(path) != '"' + path + '"')
        return make_error(ErrorCode::invalid_argument, "--set " + shown(text) + ": must be KEY.KEY=VALUE");
    RONDO_ASSIGN(YamlNode value, parse_yaml(std::string_view(text).substr(equals + 1), place, 0));
    YamlNode* node = &root;
    for (size_t begin = 0; begin <= path.size();) {
        const size_t end = std::min(path.find('.', begin), path.size());
        const std::string word = path.substr(begin, end - begin);
        if (node->kind == YamlNode::Kind::nothing) {
            node->kind = YamlNode::Kind::map;
            node->place = place;
        }
        if (node->kind != YamlNode::Kind::map)
            return wrong(place, path.substr(0, begin > 0 ? begin - 1 : 0),
                         "is " + described(*node) + " at " + node->place + ", must be a map");
        YamlNode* child = node->find(word);
        if (child == nullptr) {
            child = &node->children.emplace_back();
            child->key = word;
            child->place = place;
        }
        node = child;
        begin = end + 1;
    }
    value.key = node->key;
    *node = std::move(value);
    return {};
}

/// The node at a path, or the nearest above it that is there: what an error about it can point to.
const YamlNode& nearest(const YamlNode& root, std::string_view path) {
    const YamlNode* node = &root;
    while (!path.empty()) {
        const YamlNode* child = node->find(path.substr(0, path.find('.')));
        if (child == nullptr) break;
        node = child;
        path.remove_prefix(std::min(path.find('.'), path.size() - 1) + 1);
    }
    return *node;
}

/// An override must set up a device that computes something: a misspelt name would make another device, which does not.
Status check_device(const Settings& settings, const std::string& text) {
    constexpr std::string_view begin = "devices.";
    if (!text.starts_with(begin)) return {};
    const size_t end = text.find_first_of(".=", begin.size());
    const std::string name = text.substr(begin.size(), end - begin.size());
    std::vector<std::string_view> serving;
    for (const std::vector<std::string>* on : {&settings.pipeline.prefill.on, &settings.pipeline.decode.on}) {
        for (const std::string& one : *on)
            if (std::ranges::find(serving, one) == serving.end()) serving.push_back(one);
    }
    if (std::ranges::find(serving, name) != serving.end()) return {};
    return wrong("--set devices." + name, "devices." + name,
                 "has no effect, for pipeline.prefill.on and pipeline.decode.on do not name it; must be " +
                     listed(serving) + did_you_mean(name, serving));
}

/// What is wrong with several keys together, at its place.
Status check_together(Settings& settings, const YamlNode& root) {
    if (const std::optional<WrongSetting> found = wrong_together(settings))
        return wrong(nearest(root, found->path).place, found->path, found->what);
    if (const std::string path = "memory.host_kv_mib";
        settings.memory.host_kv_mib > 0 && settings.memory.disk.path.empty())
        settings.notes.push_back(nearest(root, path).place + ": " + path + ": has no effect without memory.disk.path");
    return {};
}

/// Without a folder all relative paths begin where the process runs.
Result<Settings> read_settings(std::string_view text, const std::string& where, const std::filesystem::path& folder,
                               std::span<const std::string> overrides, const std::function<Status(Settings&)>& change) {
    RONDO_ASSIGN(YamlNode root, parse_yaml(text, where));
    for (const std::string& each : overrides) RONDO_TRY(apply_override(root, each));
    Settings settings;
    // Devices of the file replace the default one. What runs on which of them is settled when all are known.
    settings.pipeline.prefill.on.clear();
    settings.pipeline.decode.on.clear();
    if (const YamlNode* devices = root.find("devices"); devices != nullptr && !devices->children.empty())
        settings.devices.clear();
    // The reader refuses an unknown preset, and names its place.
    if (const YamlNode* preset = root.find("preset"); preset != nullptr) {
        settings.preset = preset->text;
        apply_preset(settings);
    }
    RONDO_TRY(Reader(settings).read(root, "", "", ""));
    std::vector<std::string>&prefill = settings.pipeline.prefill.on, &decode = settings.pipeline.decode.on;
    if (prefill.empty()) prefill = decode.empty() ? std::vector{settings.devices[0].name} : decode;
    if (decode.empty()) decode = {prefill[0]};
    RONDO_TRY(change(settings));
    RONDO_TRY(check_together(settings, root));
    for (const std::string& each : overrides) RONDO_TRY(check_device(settings, each));
    for (const auto& [key, path] : {std::pair("memory.disk.path", &settings.memory.disk.path),
                                    std::pair("memory.disk.key_file", &settings.memory.disk.key_file)})
        if (!path->empty() && !nearest(root, key).place.starts_with(override_place)) *path = (folder / *path).string();
    return settings;
}

}  // namespace

const DeviceSettings* Settings::device(std::string_view name) const {
    const auto found = std::ranges::find(devices, name, &DeviceSettings::name);
    return found == devices.end() ? nullptr : &*found;
}

Result<Settings> settings_from_yaml(std::string_view text, const std::string& where,
                                    std::span<const std::string> overrides,
                                    const std::function<Status(Settings&)>& change) {
    return read_settings(text, where, {}, overrides, change);
}

Result<Settings> settings_from_file(const std::string& path, std::span<const std::string> overrides,
                                    const std::function<Status(Settings&)>& change) {
    std::ifstream in(path, std::ios::binary);
    if (!in) return make_error(ErrorCode::not_found, path + " cannot be read");
    std::string text(limits::settings_bytes_max + 1, '\0');
    in.read(text.data(), std::ssize(text));
    if (in.bad()) return make_error(ErrorCode::io, path + " cannot be read");  // a folder, or the disk failed
    text.resize(static_cast<size_t>(in.gcount()));
    if (text.size() > limits::settings_bytes_max)
        return make_error(ErrorCode::out_of_range, path + " is too long, must be at most " +
                                                       std::to_string(limits::settings_bytes_max) + " bytes");
    return read_settings(text, path, std::filesystem::path(path).parent_path(), overrides, change);
}

}  // namespace rondo
