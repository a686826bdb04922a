// The host of main.cpp as actors on the host's own system: it talks to Rondo by messages alone (docs/embedding.md).
// Each line becomes a turn, and each turn an actor that listens to it.
#include <cstdio>
#include <future>
#include <iostream>
#include <rondo/actors/engine.hpp>
#include <string>

namespace {

constexpr auto answer_within = std::chrono::seconds(20);

struct Listening {
    std::string text;
    caf::actor_addr watched;  // whose death would be the end
    std::promise<std::string> answer;
};

/// Hears one turn. Its answer comes exactly once: with the turn's end, or with the death of who serves it.
rondo::listener_actor::behavior_type listen(rondo::listener_actor::pointer self, std::shared_ptr<Listening> turn,
                                            const rondo::front_actor& front, const rondo::Ask& asked) {
    // Whoever is watched keeps a note of it, so it is watched no longer than need be.
    const auto watch = [=](const auto& who) {
        if (turn->watched) self->demonitor(turn->watched);
        self->monitor(who);
        turn->watched = who.address();
    };
    const auto end = [=](const std::string& text) {
        self->demonitor(turn->watched);
        turn->answer.set_value(text);
        self->quit();
    };
    watch(front);
    self->set_down_handler([=](const caf::down_msg&) { end("the conversation was lost"); });
    auto ask = std::make_shared<rondo::Ask>(asked);
    ask->listener = self;
    caf::anon_send(front, rondo::ask_atom::value, rondo::AskPtr(std::move(ask)));
    return {
        [=](const rondo::TurnBegun& begun) { watch(begun.session); },
        [=](const rondo::TurnDelta& delta) { turn->text += delta.text; },
        [=](const rondo::TurnEnd& over) {
            end(over.outcome == rondo::TurnOutcome::failed ? over.error.message : turn->text);
        },
    };
}

/// Waits, so for a host's main thread and not for its actors.
std::string turn(caf::actor_system& system, const rondo::front_actor& front, const std::string& name,
                 const std::string& text) {
    rondo::Ask ask;
    ask.conversation = {"host", name};  // tenant and conversation
    ask.messages = {{"user", text}};
    ask.options.tokens_max = 100;
    auto listening = std::make_shared<Listening>();
    system.spawn(listen, listening, front, ask);
    return listening->answer.get_future().get();
}

bool tell_remembered(caf::actor_system& system, const rondo::front_actor& front) {
    bool whole = false;
    caf::scoped_actor self{system};
    self->request(front, answer_within, rondo::list_atom::value, rondo::PageOf{"host", "", 100})
        .receive(
            [&](const rondo::ConversationPagePtr& page) {
                for (const rondo::ListedConversation& one : page->conversations)
                    std::printf("%s: %ld rounds\n", one.id.c_str(), static_cast<long>(one.figures.rounds));
                whole = !page->has_more;
            },
            [&](const caf::error& error) {
                std::fprintf(stderr, "%s\n", rondo::from_caf(error, "Rondo").message.c_str());
            });
    return whole;
}

}  // namespace

int main() {
    caf::actor_system_config config;
    config.set("scheduler.policy", caf::atom("sharing"));
    caf::actor_system system{config};
    rondo::Settings settings;
    settings.model.path = DEMO_MODEL;
    settings.memory.device_kv_mib = 64;
    rondo::Engine::Options options;
    options.host = &system;
    const auto engine = rondo::Engine::open(settings, options);
    if (!engine.is_ok()) {
        std::fprintf(stderr, "%s\n", engine.error().message.c_str());
        return 1;
    }
    for (std::string line; std::getline(std::cin, line);) {
        const size_t colon = line.find(": ");
        if (colon == std::string::npos) continue;
        const std::string name = line.substr(0, colon);
        std::printf("%s < %s\n", name.c_str(),
                    turn(system, engine.value()->front(), name, line.substr(colon + 2)).c_str());
    }
    return tell_remembered(system, engine.value()->front()) ? 0 : 1;
}
