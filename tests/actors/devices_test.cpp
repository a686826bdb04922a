// A pipeline on several devices: prompts go on side by side, answers are those of one device, and whoever asks hears of
// every device.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "actors/gateway/health.hpp"
#include "tests/actors/pipeline_fixture.hpp"
#include "tests/model/golden_models.hpp"

namespace rondo {
namespace {

using testing::Busy;
using testing::chat;
using testing::continue_ids;
using testing::Heard;
using testing::must;
using testing::question;
using testing::right_answer;
using testing::settings_of;
using testing::Stage;

struct On {
    const char* prompts;
    const char* answers;
    size_t devices;
};

std::vector<std::string> three_devices(const On& on) {
    return {"devices={a: {threads: 1}, b: {threads: 1}, c: {threads: 1}}",
            std::string("pipeline.prefill.on=") + on.prompts, std::string("pipeline.decode.on=") + on.answers};
}

Settings demo_on(const On& on) {
    std::vector<std::string> settings = three_devices(on);
    settings.push_back(testing::demo_pool(682));
    return settings_of(settings);
}

constexpr On side_by_side{"[a, b]", "[c]", 3};

class Devices : public ::testing::TestWithParam<On> {
protected:
    Settings settings(const std::vector<std::string>& more) const {
        std::vector<std::string> all = three_devices(GetParam());
        all.insert(all.end(), {"model.path=" + folder_.path(), "memory.kv_dtype=f32", "memory.device_kv_mib=64",
                               "pipeline.prefill.chunk_tokens=16"});
        all.insert(all.end(), more.begin(), more.end());
        return settings_of(all);
    }
    std::vector<std::vector<int32_t>> prompts() const {
        std::mt19937_64 random(11);
        std::vector<std::vector<int32_t>> all(24);
        for (auto& ids : all) {
            ids.resize(1 + random() % 160);
            for (int32_t& id : ids) id = static_cast<int32_t>(random() % 64);
        }
        return all;
    }

    const golden::Folder folder_{golden::read_case("qwen2_gqa7_head64_tied"), DType::f32};
};

TEST_P(Devices, GiveThePlainEnginesTokens) {
    const auto engine = must(Engine::open(settings({})));
    std::vector<std::future<Engine::Reply>> replies;
    const auto all = prompts();
    for (const auto& ids : all) replies.push_back(engine->ask(continue_ids(ids, 12)));

    const auto device = must(open_device({DeviceKind::cpu, 0, 1}));
    const Model model = must(load_model(folder_.path(), {}, *device));
    Generator::Options options;
    options.kv_type = DType::f32;
    options.context_tokens_max = 256;
    const auto plain = must(Generator::create(model, *device, options));
    for (size_t i = 0; i < all.size(); ++i) {
        const auto kept = static_cast<size_t>(plain->keep_prefix(all[i]));
        plain->begin_round();
        ASSERT_TRUE(plain->prefill(std::span(all[i]).subspan(kept)));
        std::vector<int32_t> expected;
        for (int token = 0; token < 12; ++token) {
            const auto logits = plain->logits();
            expected.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
            ASSERT_TRUE(plain->step(expected.back()));
        }
        const Engine::Reply reply = replies[i].get();
        EXPECT_EQ(reply.ids, expected) << "prompt " << i << ": " << reply.end.error.message;
    }
}

/// The same tokens as on one device, though lines and keys are chosen.
TEST_P(Devices, GiveOneDevicesTokensWhereAMethodChooses) {
    const std::vector<std::string> method{"preset=loopserve",
                                          "pipeline.prefill.attention.min_tokens=0",
                                          "pipeline.prefill.attention.alpha=0.7",
                                          "pipeline.decode.attention.budget_tokens=24",
                                          "pipeline.decode.attention.cold_tokens=2",
                                          "pipeline.decode.attention.reselect_every=4",
                                          "pipeline.decode.attention.observe=2"};
    std::vector<std::string> alone = method;
    alone.insert(alone.end(), {"pipeline.prefill.on=[a]", "pipeline.decode.on=[a]"});
    std::vector<std::vector<std::vector<int32_t>>> answers;
    for (const auto& how : {alone, method}) {
        Stage stage(settings(how));
        std::vector<Heard> heard(24);
        const auto all = prompts();
        for (size_t i = 0; i < all.size(); ++i) stage.engine().ask(continue_ids(all[i], 12), heard[i].callbacks());
        stage.run();
        answers.emplace_back();
        int64_t choices = 0;
        for (const Heard& one : heard) {
            ASSERT_EQ(one.ends.size(), 1U);
            EXPECT_EQ(one.ids.size(), 12U) << one.ends[0].error.message;
            choices += one.ends[0].attention.selections;
            answers.back().push_back(one.ids);
        }
        EXPECT_GT(choices, 0);
    }
    EXPECT_EQ(answers[0], answers[1]);
}

TEST_P(Devices, AreAllTold) {
    Stage stage(settings({}));
    const std::string text = stage.inside().metrics().text({});
    size_t told = 0;
    for (const char* name : {"a", "b", "c"})
        told += text.find("rondo:device_info{device=\"" + std::string(name) + '"') != std::string::npos;
    EXPECT_EQ(told, GetParam().devices);
    EXPECT_EQ(stage.inside().progress().at_work_since_ns.size(), GetParam().devices);
}

INSTANTIATE_TEST_SUITE_P(Roles, Devices,
                         ::testing::Values(On{"[a]", "[a]", 1}, On{"[a]", "[b]", 2}, side_by_side,
                                           On{"[a, b]", "[a]", 2}, On{"[a, b]", "[b]", 2}, On{"[a, b, c]", "[b]", 3}));

/// Of tenants, who share no KV.
Ask long_prompt(size_t tenant) {
    std::string text = "The code of the red box is 4817.";
    for (int i = 0; i < 60; ++i) text += " The sky was grey over the harbour and nobody went out that day.";
    Ask ask = chat("", text + " What is the code of the red box?");
    ask.conversation.tenant = "tenant " + std::to_string(tenant);
    return ask;
}

size_t runners(const Stage& stage) {
    return static_cast<size_t>(std::ranges::count_if(stage.pipeline().actors, [](const auto& actor) {
        auto* const local = dynamic_cast<caf::local_actor*>(caf::actor_cast<caf::abstract_actor*>(actor));
        return local->name() == std::string_view("device_runner");
    }));
}

/// Prompts too long to be computed where answers are. One device stays at its piece: only the prompt that has begun
/// there waits for it, and the other device takes over what waited behind.
TEST(ThreeDevices, ComputePromptsSideBySideAndAnswersBeside) {
    for (const size_t slow : {0, 1}) {
        SCOPED_TRACE(slow);
        Stage stage(demo_on(side_by_side));
        Busy busy(stage, slow);
        std::vector<Heard> heard(6);
        for (size_t i = 0; i < heard.size(); ++i) stage.engine().ask(long_prompt(i), heard[i].callbacks());
        busy.run();
        for (size_t i = 0; i < heard.size(); ++i) EXPECT_EQ(heard[i].ends.size(), i == slow ? 0U : 1U) << i;
        stage.run();
        for (const Heard& one : heard) {
            ASSERT_EQ(one.ends.size(), 1U);
            EXPECT_GT(one.ends[0].usage.recomputed_tokens, 512);
            EXPECT_EQ(one.text, right_answer) << one.ends[0].error.message;
        }
    }
}

TEST(ThreeDevices, AreNamedByTheirRoles) {
    Stage stage(demo_on(side_by_side));
    EXPECT_THAT(stage.engine().device_names(),
                ::testing::ContainsRegex("cpu .*1 thread.* and cpu .* for prompts, cpu .* for answers"));
}

/// New stages start when the last runner is gone.
TEST(ThreeDevices, StartAnewTogether) {
    for (size_t slow = 0; slow < 3; ++slow) {
        SCOPED_TRACE(slow);
        Stage stage(demo_on(side_by_side));
        EXPECT_EQ(runners(stage), 3U);
        Busy busy(stage, slow);
        std::vector<Heard> heard(4);
        for (size_t i = 0; i < heard.size(); ++i) stage.engine().ask(long_prompt(i), heard[i].callbacks());
        busy.run();
        caf::anon_send_exit(stage.pipeline().stages.decode, caf::exit_reason::kill);
        busy.run();
        EXPECT_EQ(stage.starts, 1);
        Heard waits;
        stage.engine().ask(chat("c", question), waits.callbacks());
        busy.run();
        EXPECT_EQ(waits.ends.size(), 0U);
        stage.run();
        EXPECT_EQ(stage.starts, 2);
        EXPECT_EQ(runners(stage), 3U);
        ASSERT_EQ(waits.ends.size(), 1U);
        EXPECT_EQ(waits.text, right_answer);
        size_t lost = 0;
        for (const Heard& one : heard) {
            ASSERT_EQ(one.ends.size(), 1U);
            lost += one.ends[0].outcome == TurnOutcome::failed;
        }
        EXPECT_EQ(lost, slow < 2 ? 1U : 4U) << "those that had begun on that device";
        EXPECT_EQ(stage.inside().load().turns, 0U);
    }
}

TEST(ThreeDevices, EachIsWatched) {
    Stage stage(demo_on(side_by_side));
    const Health health(stage.engine());
    const auto& since = stage.inside().progress().at_work_since_ns;
    Heard first, second;
    stage.engine().ask(long_prompt(0), first.callbacks());
    stage.engine().ask(long_prompt(1), second.callbacks());
    for (const size_t device : {0, 1, 2}) {
        SCOPED_TRACE(device);
        const auto works = [&](size_t i) { return since[i] != 0; };
        while (!works(device) || works((device + 1) % 3) || works((device + 2) % 3)) ASSERT_TRUE(stage.run_one());
        const auto begun = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(since[device]));
        EXPECT_FALSE(health.look(begun + std::chrono::seconds(31)).good);
    }
    stage.run();
    EXPECT_EQ(second.ends.size(), 1U);
}

}  // namespace
}  // namespace rondo
