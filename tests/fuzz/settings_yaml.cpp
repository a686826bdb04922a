#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "config/setting_keys.hpp"
#include "config/settings.hpp"

/// A YAML document, a '\x01', and overrides one a line. What is accepted must be within the table's ranges,
/// and an engine must take it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string input(reinterpret_cast<const char*>(data), size);
    const size_t cut = std::min(input.find('\x01'), input.size());
    std::vector<std::string> overrides;
    for (size_t begin = cut + 1; begin < input.size();) {
        const size_t end = std::min(input.find('\n', begin), input.size());
        overrides.push_back(input.substr(begin, end - begin));
        begin = end + 1;
    }
    auto settings = rondo::settings_from_yaml(std::string_view(input).substr(0, cut), "fuzz", overrides);
    if (!settings) {
        if (settings.error().message.find('\n') != std::string::npos) std::abort();
        return 0;
    }
    if (settings->devices.empty() || !rondo::check_settings(*settings)) std::abort();
    for (const rondo::DeviceSettings& device : settings->devices) {
        for (const rondo::SettingKey& key : rondo::setting_keys()) {
            const auto slot = key.slot(*settings, device.name);
            const auto* number = std::get_if<int*>(&slot);
            if (number != nullptr && (**number < key.low || **number > key.high)) std::abort();
        }
    }
    if (settings->device(settings->pipeline.decode.on.at(0)) == nullptr) std::abort();
    return 0;
}
