#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <ctime>
#include <mutex>

#include "cli/chat/chat_partner.hpp"
#include "cli/progress.hpp"

namespace rondo::cli {

namespace {

/// The pipeline, in this process.
class EnginePartner : public ChatPartner {
public:
    explicit EnginePartner(const ChatOptions& options) : options_(options) {}
    ~EnginePartner() override { leave(); }
    EnginePartner(const EnginePartner&) = delete;
    EnginePartner& operator=(const EnginePartner&) = delete;

    Status open() {
        RONDO_ASSIGN(const Settings settings, options_.model.settings());
        Progress progress("loading " + model_path(settings.model.path).filename().string());
        Engine::Options how;
        how.progress = [&](double share) { progress.show(share); };
        how.log = [](const std::string& line) { std::fprintf(stderr, "rondo: %s\n", line.c_str()); };
        RONDO_ASSIGN(engine_, Engine::open(settings, std::move(how)));
        progress.finish();
        deadline_seconds_ = settings.server.deadline_s;
        Preamble preamble;
        if (!options_.system.empty()) preamble.push_back({"system", options_.system});
        const ConversationName name = new_name();
        RONDO_TRY(engine_->create(name, preamble).status());
        name_ = begun_ = name;
        return Status::ok();
    }

    std::string name() const override { return engine_->model_name() + " on " + engine_->device_names(); }

    Result<TurnEnd> ask(const std::string& message, const std::function<bool(std::string_view)>& on_text) override {
        struct News {
            std::mutex mutex;
            std::condition_variable came;
            std::string text;
            std::optional<TurnEnd> end;
        };
        auto news = std::make_shared<News>();
        TurnCallbacks callbacks;
        callbacks.on_delta = [news](TurnDelta delta) {
            const std::lock_guard lock(news->mutex);
            news->text += delta.text;
            news->came.notify_one();
        };
        callbacks.on_end = [news](TurnEnd end) {
            const std::lock_guard lock(news->mutex);
            news->end = std::move(end);
            news->came.notify_one();
        };
        Ask asked;
        asked.conversation = name_;
        asked.messages = {{"user", message}};
        asked.options.tokens_max = options_.tokens_max.value_or(ChatOptions::default_tokens_max);
        asked.options.sampling = options_.sampling();
        asked.deadline_seconds = deadline_seconds_;
        asked.method = method;
        const TurnId turn = engine_->ask(std::move(asked), std::move(callbacks));
        std::unique_lock lock(news->mutex);
        bool cancelled = false;
        for (;;) {
            // The wait is short so that on_text can look around (Ctrl-C).
            news->came.wait_for(lock, std::chrono::milliseconds(50),
                                [&] { return !news->text.empty() || news->end.has_value(); });
            const std::string text = std::exchange(news->text, {});
            const bool over = news->end.has_value();
            lock.unlock();
            if (!on_text(text) && !std::exchange(cancelled, true)) engine_->cancel(turn);
            lock.lock();
            if (over && news->text.empty()) break;
        }
        if (news->end->outcome == TurnOutcome::failed) return news->end->error;
        return std::move(*news->end);
    }

    Result<ConversationInfo> rounds() override {
        RONDO_ASSIGN(const ConversationInfoPtr info, engine_->conversation(name_));
        return *info;
    }
    Status rewind(int64_t round) override { return engine_->rewind(name_, round).status(); }
    Result<ConversationPage> conversations(const std::string& after) override {
        RONDO_ASSIGN(const ConversationPagePtr page, engine_->conversations({name_.tenant, after, 100}));
        return *page;
    }
    Status open_conversation(const std::string& id) override {
        RONDO_TRY(engine_->conversation({name_.tenant, id}).status());
        name_.id = id;
        return Status::ok();
    }
    std::vector<std::string> methods() const override {
        std::vector<std::string> names;
        for (const AttentionMethod& one : engine_->methods()) names.push_back(one.name);
        return names;
    }

private:
    /// Tells when it began, and is no other's that a store has kept.
    ConversationName new_name() {
        const std::time_t now = std::time(nullptr);
        std::tm local{};
        std::array<char, 32> text{};
        std::strftime(text.data(), text.size(), "chat-%Y%m%d-%H%M%S", ::localtime_r(&now, &local));
        ConversationName name{name_.tenant, text.data()};
        for (int number = 2; engine_->conversation(name); ++number)
            name.id = std::string(text.data()) + "-" + std::to_string(number);
        return name;
    }

    /// A conversation in which nothing was said is not kept. What others have computed goes to the disk, if there is a
    /// store.
    void leave() {
        if (engine_ == nullptr || begun_.id.empty()) return;
        if (const auto begun = engine_->conversation(begun_); begun && (*begun)->rounds.empty())
            static_cast<void>(engine_->remove(begun_));
        engine_->put_away(std::chrono::seconds(10));
    }

    const ChatOptions& options_;
    ConversationName name_{"default", ""};
    ConversationName begun_;  // by this chat
    double deadline_seconds_ = 600.0;
    std::unique_ptr<Engine> engine_;
};

}  // namespace

Result<std::unique_ptr<ChatPartner>> open_engine_partner(const ChatOptions& options) {
    auto partner = std::make_unique<EnginePartner>(options);
    RONDO_TRY(partner->open());
    return std::unique_ptr<ChatPartner>(std::move(partner));
}

}  // namespace rondo::cli
