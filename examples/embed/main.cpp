// A host service with Rondo inside: it reads lines "NAME: text" from standard input, each name a conversation of its
// own, and serves all of them at once on the host's actor system. At the end it asks what Rondo remembers of each.
//
//     printf 'ann: The code of the red box is 4817.\nbob: Hello!\nann: What is the code of the red box?\n' | embed
#include <cstdio>
#include <future>
#include <iostream>
#include <map>
#include <rondo/actors/engine.hpp>
#include <string>

namespace {

/// The host's own actor: it hears turns by messages, as an alternative to the engine's callbacks.
caf::behavior printer(caf::event_based_actor* self, std::string name, std::shared_ptr<std::promise<void>> done) {
    auto text = std::make_shared<std::string>();
    return {
        [](const rondo::session_actor&) {},  // who serves the turn; to be monitored if its death matters
        [=](const rondo::TurnDelta& delta) { *text += delta.text; },
        [=](const rondo::TurnEnd& end) {
            const bool failed = end.outcome == rondo::TurnOutcome::failed;
            std::printf("%s < %s\n", name.c_str(), failed ? end.error.message.c_str() : text->c_str());
            done->set_value();
            self->quit();
        },
    };
}

rondo::Ask ask_for(const std::string& name, const std::string& text) {
    rondo::Ask ask;
    ask.conversation = {"host", name};  // tenant and conversation
    ask.messages = {{"user", text}};
    ask.options.tokens_max = 100;
    return ask;
}

int serve(rondo::Engine& engine, caf::actor_system& system) {
    std::map<std::string, std::future<void>> last;  // of each conversation, so that output keeps its order
    for (std::string line; std::getline(std::cin, line);) {
        const size_t colon = line.find(": ");
        if (colon == std::string::npos) continue;
        const std::string name = line.substr(0, colon);
        if (last.contains(name)) last[name].wait();
        auto done = std::make_shared<std::promise<void>>();
        last[name] = done->get_future();
        // By actors: a request of one's own to the router.
        auto ask = std::make_shared<rondo::Ask>(ask_for(name, line.substr(colon + 2)));
        ask->id = engine.new_turn_id();
        ask->listener = caf::actor_cast<rondo::listener_actor>(system.spawn(printer, name, done));
        caf::anon_send(engine.router(), rondo::ask_atom::value, ask);
    }
    for (auto& [name, done] : last) {
        done.wait();
        // By futures: what is left to say, and what is remembered.
        const rondo::Engine::Reply reply = engine.ask(ask_for(name, "Thank you.")).get();
        const auto remembered = engine.conversation({"host", name});
        if (!remembered.is_ok() || reply.end.outcome == rondo::TurnOutcome::failed) return 1;
        std::printf("%s: %zu rounds, %ld tokens\n", name.c_str(), remembered.value()->rounds.size(),
                    static_cast<long>(remembered.value()->tokens));
    }
    return 0;
}

}  // namespace

int main() {
    caf::actor_system_config config;
    caf::actor_system system{config};
    rondo::Settings settings;  // or from a YAML file, by rondo::settings_from_yaml
    settings.model.path = DEMO_MODEL;
    settings.memory.device_kv_mib = 64;
    rondo::Engine::Options options;
    options.host = &system;
    const auto engine = rondo::Engine::open(settings, options);
    if (!engine.is_ok()) {
        std::fprintf(stderr, "%s\n", engine.error().message.c_str());
        return 1;
    }
    return serve(*engine.value(), system);
}
