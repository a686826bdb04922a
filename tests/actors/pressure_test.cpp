// Many clients at once on a pool that holds a few of their conversations: how much of their prompts they find, how long
// they wait, and what they are told when turns are put off again and again. Time is virtual and every message is
// delivered in this thread, so each figure is the same in every run.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "tests/actors/pipeline_fixture.hpp"
#include "tests/model/golden_models.hpp"

namespace rondo {
namespace {

using testing::must;
using testing::settings_of;
using testing::Stage;

struct Load64 {
    int clients = 64;
    int turns = 6;
    int64_t asked_min = 10, asked_max = 30;  ///< new tokens of a prompt
    int64_t answer_min = 4, answer_max = 12;
    int tenants = 1;
    int forgetful = 0;   ///< of the clients, those who begin anew with every turn and so find nothing
    bool named = false;  ///< conversations have names, so that the turns of one share as one
    int thinks_ms = 2;   ///< from an answer's end to the next turn
    uint64_t seed = 1;
};

struct Turned {
    int client = 0;
    size_t before = 0;  ///< turns that were under way when it came
    size_t asked = 0;   ///< first tokens of others until it came
    size_t order = 0;   ///< and until its own
    TurnEnd end;
    std::vector<int32_t> ids;
};

/// The clients of one run, each with one turn under way or thought about.
class Clients {
public:
    Clients(Stage& stage, const Load64& load)
        : stage_(stage), load_(load), clients_(static_cast<size_t>(load.clients)) {
        std::mt19937_64 random(load.seed);
        const auto between = [&](int64_t from, int64_t to) {
            return from + static_cast<int64_t>(random() % static_cast<uint64_t>(to - from + 1));
        };
        const int64_t vocabulary = stage.inside().model().spec.vocabulary;
        for (Client& client : clients_) {
            for (int turn = 0; turn < load.turns; ++turn) {
                std::vector<int32_t> ids(static_cast<size_t>(between(load.asked_min, load.asked_max)));
                for (int32_t& id : ids) id = static_cast<int32_t>(between(0, vocabulary - 1));
                client.script.push_back({std::move(ids), between(load.answer_min, load.answer_max)});
            }
        }
    }

    /// All at once, or one client after the other.
    void run(bool at_once) {
        for (size_t i = 0; i < clients_.size(); ++i) {
            ask(i);
            if (!at_once) finish();
        }
        finish();
    }

    const std::vector<Turned>& turns() const { return turned_; }
    double found() const {
        int64_t prompts = 0, known = 0;
        for (const Turned& turn : turned_) {
            prompts += turn.end.usage.prompt_tokens;
            known += turn.end.usage.cached_tokens;
        }
        return static_cast<double>(known) / static_cast<double>(prompts);
    }
    int preemptions() const {
        return std::accumulate(turned_.begin(), turned_.end(), 0,
                               [](int sum, const Turned& turn) { return sum + turn.end.timings.preemptions; });
    }

private:
    struct Said {
        std::vector<int32_t> ids;
        int64_t answer;
    };
    struct Client {
        std::vector<Said> script;
        std::vector<int32_t> history;
        size_t turn = 0;
        int next_ms = -1;  // when it asks again
    };

    void ask(size_t index) {
        Client& client = clients_[index];
        const Said& said = client.script[client.turn++];
        if (index < static_cast<size_t>(load_.forgetful)) client.history.clear();
        client.history.insert(client.history.end(), said.ids.begin(), said.ids.end());
        Ask ask = testing::continue_ids(client.history, said.answer);
        ask.conversation.tenant = "t" + std::to_string(index % static_cast<size_t>(load_.tenants));
        if (load_.named) ask.conversation.id = "c" + std::to_string(index);
        const size_t at = turned_.size();
        turned_.push_back({static_cast<int>(index), under_way_, begun_, 0, {}, {}});
        ++under_way_;
        TurnCallbacks callbacks;
        callbacks.on_delta = [this, at](const TurnDelta& delta) {
            Turned& turn = turned_[at];
            if (turn.ids.empty()) turn.order = begun_++;
            turn.ids.insert(turn.ids.end(), delta.ids.begin(), delta.ids.end());
        };
        callbacks.on_end = [this, at, index](TurnEnd end) {
            Client& client = clients_[index];
            client.history.insert(client.history.end(), turned_[at].ids.begin(), turned_[at].ids.end());
            turned_[at].end = std::move(end);
            --under_way_;
            if (client.turn < client.script.size()) client.next_ms = now_ms_ + load_.thinks_ms;
        };
        stage_.engine().ask(std::move(ask), std::move(callbacks));
    }
    /// A millisecond is as many messages as a decode step or two take.
    void finish() {
        constexpr int messages_per_ms = 12, ms_max = 1'000'000;
        const auto thinking = [&] {
            return std::ranges::any_of(clients_, [](const Client& client) { return client.next_ms >= 0; });
        };
        for (const int end = now_ms_ + ms_max; (under_way_ > 0 || thinking()) && now_ms_ < end; ++now_ms_) {
            for (size_t i = 0; i < clients_.size(); ++i) {
                if (clients_[i].next_ms < 0 || clients_[i].next_ms > now_ms_) continue;
                clients_[i].next_ms = -1;
                ask(i);
            }
            for (int i = 0; i < messages_per_ms && stage_.run_one(); ++i) {
            }
            stage_.scheduler().advance_time(std::chrono::milliseconds(1));
        }
        EXPECT_EQ(under_way_, 0U) << "turns that never ended";
        stage_.run();
    }

    Stage& stage_;
    const Load64 load_;
    std::vector<Client> clients_;
    std::vector<Turned> turned_;
    size_t begun_ = 0;
    size_t under_way_ = 0;
    int now_ms_ = 0;
};

class Pressure : public ::testing::Test {
protected:
    Settings settings(const std::string& mib, int batch_max = 32) const {
        return settings_of({"model.path=" + folder_.path(), "memory.kv_dtype=f32", "memory.device_kv_mib=" + mib,
                            "devices.cpu.threads=1", "pipeline.decode.batch_max=" + std::to_string(batch_max)});
    }
    double alone(const Load64& load) const {
        Stage stage(settings("1"));
        Clients clients(stage, load);
        clients.run(false);
        return clients.found();
    }

    const golden::Folder folder_{golden::with_layers(golden::read_case("llama_gqa2_head32_tied"), 4), DType::f32};
};

TEST_F(Pressure, ClientsFindWhatTheirTurnsHaveComputed) {
    for (const bool named : {true, false}) {
        SCOPED_TRACE(named ? "by conversation" : "histories sent again");
        Load64 load;
        load.named = named;
        Stage stage(settings("1"));
        Clients clients(stage, load);
        clients.run(true);
        RecordProperty("found", std::to_string(clients.found()));
        EXPECT_GE(clients.found(), 0.25);
        // Between two turns of a client who is alone nothing of another comes, so nobody can find more.
        EXPECT_GE(clients.found(), 0.5 * alone(load));
        if (named) continue;  // a conversation that has had more than others waits for more of their turns
        for (const Turned& turn : clients.turns()) EXPECT_LE(turn.order - turn.asked, 3U * 64U);
    }
}

/// Where memory is not what turns wait for, nothing would be lost, and fair order stands.
TEST_F(Pressure, NobodyPassesWhereThereIsRoomForAll) {
    Load64 load{.clients = 24};
    Stage stage(settings("64", 2));
    Clients clients(stage, load);
    clients.run(true);
    for (const Turned& turn : clients.turns()) EXPECT_LE(turn.order - turn.asked, turn.before) << turn.client;
    EXPECT_DOUBLE_EQ(clients.found(), alone(load));
}

/// Clients whose prompts are always found, and some whose never are. Of three turns let in one is the first in fair
/// order, so nobody waits for more than three times as many turns as were there before.
TEST_F(Pressure, TurnsThatFindTheirPrefixStarveNobody) {
    for (const uint64_t seed : {1, 2, 3, 4, 5}) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Load64 load{.clients = 12, .turns = 16, .asked_min = 3, .asked_max = 6, .answer_min = 2, .answer_max = 6};
        load.forgetful = 2;
        load.thinks_ms = 0;
        load.seed = seed;
        Stage stage(settings("1", 2));
        Clients clients(stage, load);
        clients.run(true);
        size_t passed = 0;
        for (const Turned& turn : clients.turns()) {
            EXPECT_LE(turn.order - turn.asked, 3 * (turn.before + 1)) << "client " << turn.client;
            passed += turn.order - turn.asked > turn.before;
        }
        EXPECT_GT(passed, 10U);
    }
}

/// Each answer is the one that the same client gets where there is room for all, token for token.
TEST_F(Pressure, TurnsThatArePutOffAgainAndAgainAnswerTheSame) {
    int preemptions = 0;
    for (const uint64_t seed : {1, 2, 3}) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Load64 load{.clients = 64, .turns = 2, .asked_min = 5, .asked_max = 15, .answer_min = 80, .answer_max = 105};
        load.seed = seed;
        std::map<std::pair<int, size_t>, std::vector<int32_t>> expected;
        const auto each = [](const Clients& clients, const auto& visit) {
            std::map<int, size_t> turns;
            for (const Turned& turn : clients.turns()) visit(std::pair(turn.client, turns[turn.client]++), turn);
        };
        {
            Stage roomy(settings("64"));
            Clients clients(roomy, load);
            clients.run(true);
            ASSERT_EQ(clients.preemptions(), 0);
            each(clients, [&](const auto& which, const Turned& turn) { expected[which] = turn.ids; });
        }
        Stage stage(settings("1"));
        Clients clients(stage, load);
        clients.run(true);
        preemptions += clients.preemptions();
        ASSERT_EQ(clients.turns().size(), expected.size());
        each(clients, [&](const auto& which, const Turned& turn) {
            EXPECT_EQ(turn.end.outcome, TurnOutcome::length) << turn.end.error.message;
            EXPECT_EQ(turn.ids, expected.at(which)) << "client " << which.first << ", turn " << which.second;
        });
        const KvPool& pool = stage.inside().pool();
        const size_t total = pool.blocks_total(LayerGroup::upper);
        caf::anon_send(stage.pipeline().stages.cache, room_atom::value,
                       pool.shape().blocks_of_each(static_cast<int64_t>(total)));
        stage.run();
        EXPECT_EQ(pool.blocks_free(LayerGroup::upper), total) << "somebody holds blocks still";
    }
    EXPECT_GE(preemptions, 200);
}

/// A turn that ends while others wait keeps its blocks a moment; once its conversation is deleted, nobody does.
TEST_F(Pressure, NothingIsHeldOfConversationsThatAreDeleted) {
    for (int turns = 1; turns <= 4; ++turns) {
        Load64 load{.clients = 24, .turns = turns, .named = true};
        Stage stage(settings("1"));
        Clients clients(stage, load);
        clients.run(true);
        for (int i = 0; i < load.clients; ++i)
            caf::anon_send(stage.engine().front(), remove_atom::value, ConversationName{"t0", "c" + std::to_string(i)});
        stage.run();
        const KvPool& pool = stage.inside().pool();
        EXPECT_EQ(pool.blocks_free(LayerGroup::upper), pool.blocks_total(LayerGroup::upper)) << turns << " turns";
    }
}

}  // namespace
}  // namespace rondo
