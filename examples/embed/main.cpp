// A host service with Rondo inside: it reads lines "NAME: text" from standard input, each name a conversation of its
// own, and serves all of them at once. At the end it asks what Rondo remembers of each.
//
//     printf 'ann: The code of the red box is 4817.\nbob: Hello!\nann: What is the code of the red box?\n' | embed
//     embed pipeline.yaml
//
// by_messages.cpp is the same service made of the host's own actors.
#include <cstdio>
#include <future>
#include <iostream>
#include <map>
#include <rondo/actors/engine.hpp>
#include <string>

namespace {

rondo::Ask ask_for(const std::string& name, const std::string& text) {
    rondo::Ask ask;
    ask.conversation = {"host", name};  // tenant and conversation
    ask.messages = {{"user", text}};
    ask.options.tokens_max = 100;
    return ask;
}

void print(const std::string& name, const rondo::Engine::Reply& reply) {
    const bool failed = reply.end.outcome == rondo::TurnOutcome::failed;
    std::printf("%s < %s\n", name.c_str(), failed ? reply.end.error.message.c_str() : reply.text.c_str());
}

int serve(rondo::Engine& engine) {
    std::map<std::string, std::future<rondo::Engine::Reply>> asked;  // the last turn of each conversation
    for (std::string line; std::getline(std::cin, line);) {
        const size_t colon = line.find(": ");
        if (colon == std::string::npos) continue;
        const std::string name = line.substr(0, colon);
        if (asked.contains(name)) print(name, asked[name].get());
        asked[name] = engine.ask(ask_for(name, line.substr(colon + 2)));
    }
    for (auto& [name, reply] : asked) {
        print(name, reply.get());
        const auto remembered = engine.conversation({"host", name});
        if (!remembered.is_ok()) return 1;
        std::printf("%s: %zu rounds, %ld tokens\n", name.c_str(), remembered.value()->rounds.size(),
                    static_cast<long>(remembered.value()->tokens));
    }
    return 0;
}

/// From a pipeline file, or filled by hand; `Engine::open` checks either.
rondo::Result<rondo::Settings> settings_of(int argc, char** argv) {
    if (argc > 1) return rondo::settings_from_file(argv[1]);
    rondo::Settings settings;
    settings.model.path = DEMO_MODEL;
    settings.memory.device_kv_mib = 64;
    return settings;
}

}  // namespace

int main(int argc, char** argv) {
    const auto settings = settings_of(argc, argv);
    if (!settings.is_ok()) {
        std::fprintf(stderr, "%s\n", settings.error().message.c_str());
        return 1;
    }
    const auto engine = rondo::Engine::open(*settings);
    if (!engine.is_ok()) {
        std::fprintf(stderr, "%s\n", engine.error().message.c_str());
        return 1;
    }
    return serve(*engine.value());
}
