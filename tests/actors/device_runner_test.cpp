// What begins with a piece of work that a device's runner answers.

#include "actors/device_runner.hpp"

#include <gtest/gtest.h>

#include "tests/actors/turn_fixture.hpp"

namespace rondo {
namespace {

using testing::must;

/// A choice behind each step, by the step's query.
class ByTheNewestQuery : public DecodeSelection {
public:
    ChoiceTriggers triggers() const override { return {.every = 1, .first = 1}; }
    int queries() const override { return 1; }
    bool wanted(int64_t) const override { return true; }
    void select(const KeyScores&, uint64_t, std::span<std::vector<int32_t>> chosen) const override {
        for (auto& keys : chosen) keys.assign(1, 0);
    }
};

class DeviceRunnerTest : public ::testing::Test {
protected:
    static constexpr int64_t prompt = 40;

    DeviceRunnerTest() {
        runtime_->context_tokens = 256;
        runtime_->methods.resize(1);
        config_.set("scheduler.policy", caf::atom("testing"));
        system_ = std::make_unique<caf::actor_system>(config_);
        Stepper::Limits limits;
        limits.chunk_tokens = 64;
        limits.decode_rows = 2;
        limits.context_tokens = 256;
        std::shared_ptr<Stepper> stepper =
            must(Stepper::create(runtime_->model, *runtime_->pool, *runtime_->devices[0], limits));
        runner_ = system_->spawn<DeviceRunner>(runtime_, std::move(stepper), prompts_, std::make_shared<Progress>(1),
                                               size_t{0});
    }
    ~DeviceRunnerTest() override {
        caf::anon_send_exit(runner_, caf::exit_reason::kill);
        run();
    }

    void run() { dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler()).run(); }
    template <class Atom, class Work>
    void ask(Atom atom, const std::shared_ptr<Work>& work) {
        const auto asker = [atom, work](caf::event_based_actor* self, const device_runner_actor& runner) {
            self->request(runner, caf::infinite, atom, work).then([](const std::shared_ptr<Work>&) {});
        };
        system_->spawn(asker, runner_);
        run();
    }
    void compute_prompt(const TurnPtr& asking) {
        bool done = false;
        for (int pieces = 0; !done && pieces < 100; ++pieces) {
            const auto chunk = std::make_shared<Chunk>();
            chunk->turn = asking;
            ask(chunk_atom::value, chunk);
            ASSERT_TRUE(chunk->status);
            done = chunk->done;
        }
        ASSERT_TRUE(done);
    }
    StepPtr step(const TurnPtr& stepping) {
        auto asked = std::make_shared<Step>();
        asked->turns = {stepping};
        ask(step_atom::value, asked);
        return asked;
    }
    TurnPtr turn(int64_t tokens_max) {
        const std::vector<int32_t> ids(prompt, 1);
        return std::make_shared<Turn>(
            testing::make_bare_turn(runtime_, 1, ids, prompt, {.tokens_max = tokens_max, .ignore_eos = true}));
    }
    TurnPtr turn_that_chooses_behind_steps() {
        TurnPtr made = turn(100);
        StepAttention::Options options;
        options.method = std::make_shared<ByTheNewestQuery>();
        options.lag_steps = 4;
        made->step_attention =
            must(StepAttention::create(runtime_->model.spec, *runtime_->pool, *runtime_->devices[0], options));
        return made;
    }

    RuntimePtr runtime_ = testing::small_runtime(64);
    caf::actor_system_config config_;
    std::unique_ptr<caf::actor_system> system_;
    std::shared_ptr<DeviceRunner::PromptAttention> prompts_ = std::make_shared<DeviceRunner::PromptAttention>(1);
    device_runner_actor runner_;
};

TEST_F(DeviceRunnerTest, AChoiceBehindAPromptHasBegunWithTheAnswer) {
    const TurnPtr chooses = turn(100);
    testing::choose_first_key(*chooses, 4);
    compute_prompt(chooses);
    const std::unique_ptr<Choice> choice = chooses->step_attention->take_begun();
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->tokens(), prompt);
    EXPECT_EQ(chooses->step_attention->steps_left(), 4);
}

TEST_F(DeviceRunnerTest, AnAnswerOfOneTokenBeginsNoChoice) {
    const TurnPtr chooses = turn(1);
    testing::choose_first_key(*chooses, 4);
    compute_prompt(chooses);
    EXPECT_TRUE(chooses->is_over());
    EXPECT_FALSE(chooses->step_attention->take_begun());
    EXPECT_EQ(chooses->step_attention->stats().selections, 0);
}

TEST_F(DeviceRunnerTest, APromptThatWarmsAConversationBeginsNoChoice) {
    const TurnPtr warms = turn(100);
    warms->answers = false;
    testing::choose_first_key(*warms, 4);
    compute_prompt(warms);
    EXPECT_FALSE(warms->last.over) << "its answer has tokens left";
    EXPECT_FALSE(warms->step_attention->take_begun());
    EXPECT_EQ(warms->step_attention->stats().selections, 0);
}

TEST_F(DeviceRunnerTest, AChoiceBehindAStepHasBegunWithTheAnswerButNotBehindTheLast) {
    const TurnPtr chooses = turn_that_chooses_behind_steps();
    compute_prompt(chooses);
    EXPECT_FALSE(chooses->step_attention->take_begun());
    ASSERT_TRUE(step(chooses)->status);
    std::unique_ptr<Choice> choice = chooses->step_attention->take_begun();
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->tokens(), prompt + 1);
    testing::complete(*choice);
    chooses->step_attention->drop(std::move(choice));
    const int64_t counted = chooses->step_attention->stats().causal;
    runtime_->context_tokens = std::ssize(chooses->ids) + 1;
    ASSERT_TRUE(step(chooses)->status);
    EXPECT_TRUE(chooses->is_over());
    EXPECT_FALSE(chooses->step_attention->take_begun());
    EXPECT_GT(chooses->step_attention->stats().causal, counted) << "it is a step like any other";
    EXPECT_EQ(chooses->step_attention->stats().selections, 1);
}

TEST_F(DeviceRunnerTest, AStepThatIsRefusedIsNotCounted) {
    const TurnPtr chooses = turn_that_chooses_behind_steps();
    compute_prompt(chooses);
    chooses->ids.back() = -1;
    EXPECT_FALSE(step(chooses)->status);
    EXPECT_FALSE(chooses->step_attention->take_begun());
    EXPECT_EQ(chooses->step_attention->stats().causal, 0);
}

/// The next turn of the method would have them in its answer.
TEST_F(DeviceRunnerTest, AChunkThatFailsKeepsWhatItsLayersCounted) {
    PrefillAttention by_lines;
    by_lines.method = PrefillAttention::Method::loopserve;
    (*prompts_)[0] = must(SparsePrefill::create(runtime_->model.spec, *runtime_->devices[0], by_lines));
    SparsePrefill& lines = *(*prompts_)[0];
    lines.measure(1);
    lines.count_dense(prompt, prompt);  // as layers do before one fails
    const int64_t counted = lines.stats().causal;
    ASSERT_GT(counted, 0);

    const TurnPtr failing = turn(100), next = turn(100);
    failing->ids.back() = -1;
    const auto chunk = std::make_shared<Chunk>();
    chunk->turn = failing;
    ask(chunk_atom::value, chunk);
    ASSERT_FALSE(chunk->status);
    EXPECT_EQ(failing->prompt_attention.causal, counted);

    lines.measure(0);
    compute_prompt(next);
    EXPECT_EQ(next->prompt_attention.causal, 0);
}

TEST_F(DeviceRunnerTest, ATurnIsOverWhenItsAnswerSaysSoOrTheContextIsFull) {
    const TurnPtr said = turn(100), full = turn(100);
    said->last.over = true;
    EXPECT_TRUE(said->is_over());
    EXPECT_FALSE(full->is_over());
    full->ids.resize(256);
    EXPECT_TRUE(full->is_over());
}

}  // namespace
}  // namespace rondo
