#include "actors/engine_inside.hpp"

#include <algorithm>
#include <future>
#include <system_error>
#include <thread>

#include "actors/admission.hpp"
#include "actors/cache.hpp"
#include "actors/decode.hpp"
#include "actors/host_callback.hpp"
#include "actors/logger_holder.hpp"
#include "actors/prefill.hpp"
#include "actors/selector.hpp"
#include "actors/store.hpp"
#include "kernels/backend.hpp"
#include "kernels/cpu/usable_cores.hpp"
#include "memory/machine_memory.hpp"
#include "model/attention/watershed.hpp"

namespace rondo {

namespace {

// Prompts that a device may have begun at a time: one, and one that is more urgent, and one that is more urgent still.
constexpr int open_chunks = 3;

/// Two, so that a round being put away holds up nobody; few, since each that a message wakes takes a core from the step
/// under way. What takes long has threads of its own.
size_t workers() {
    return std::max<size_t>(static_cast<size_t>(cpu::usable_cores()) / 4, 2);
}

/// That may run and wait.
size_t turns_max(const Settings& settings) {
    return static_cast<size_t>(settings.pipeline.decode.batch_max) +
           static_cast<size_t>(settings.server.requests_waiting_max);
}

Status check_pool(const Settings& settings, size_t block_bytes) {
    if ((static_cast<size_t>(settings.memory.device_kv_mib) << 20) / block_bytes >= 2) return Status::ok();
    return make_error(ErrorCode::out_of_memory, "memory.device_kv_mib is " +
                                                    std::to_string(settings.memory.device_kv_mib) + "; two blocks of " +
                                                    std::to_string(block_bytes) + " bytes are the least");
}

/// Where the system gives no more threads CAF ends the process, or waits for ever. So as many as an engine starts are
/// there together before, and gone again.
Status check_threads(size_t count) {
    std::vector<std::jthread> all;  // ends behind the promise, for which they wait
    std::promise<void> end;
    const std::shared_future<void> ended = end.get_future().share();
    Status there;
    try {
        while (all.size() < count) all.emplace_back([ended] { ended.wait(); });
    } catch (const std::system_error& error) {
        there = make_error(ErrorCode::out_of_memory, "the engine wants " + std::to_string(count) +
                                                         " threads, and the system gives " +
                                                         std::to_string(all.size()) + ": " + error.what());
    }
    end.set_value();
    return there;
}

/// None stays none.
template <class News>
std::function<void(News)> guarded(std::function<void(News)> callback) {
    if (!callback) return {};
    return [callback = std::move(callback)](News news) { (void)tell_host<News>(callback, std::forward<News>(news)); };
}

}  // namespace

Result<std::unique_ptr<Engine>> EngineInside::open(const Settings& settings, Engine::Options options, Hooks hooks) {
    options.log = guarded(std::move(options.log));
    options.gave_up = guarded(std::move(options.gave_up));
    std::unique_ptr<EngineInside> made(new EngineInside());
    RONDO_TRY(made->load_all(settings, options));
    constexpr size_t of_stages_and_texts = 8, of_a_store = 9;
    RONDO_TRY(check_threads((options.host == nullptr ? workers() : 0) + made->runtime_->devices.size() +
                            of_stages_and_texts + (settings.memory.disk.path.empty() ? 0 : of_a_store)));
    const LoggerHolder lets_go;
    try {
        made->run_on(options.host);
        made->start(settings, options, hooks);
    } catch (const std::system_error& error) {
        return make_error(ErrorCode::out_of_memory,
                          std::string("the engine cannot start its threads: ") + error.what());
    }
    return std::unique_ptr<Engine>(new Engine(std::move(made)));
}

void EngineInside::run_on(caf::actor_system* host) {
    system_ = host;
    if (host != nullptr) return;
    own_config_ = std::make_unique<caf::actor_system_config>();
    // Waking a sleeping worker costs 10 µs with a shared queue, and several times that with one each.
    own_config_->set("scheduler.policy", caf::atom("sharing"));
    own_config_->set("scheduler.max-threads", workers());
    own_system_ = std::make_unique<caf::actor_system>(*own_config_);
    system_ = own_system_.get();
}

Status EngineInside::load_all(const Settings& settings, const Engine::Options& options) {
    runtime_->methods = attention_methods(settings.pipeline);
    runtime_->budget_tokens_max = settings.pipeline.budget_tokens_max > 0
                                      ? settings.pipeline.budget_tokens_max
                                      : settings.pipeline.decode.attention.budget_tokens;
    RONDO_ASSIGN(runtime_->roles, checked_device_roles(settings));
    for (const std::string& name : runtime_->roles.names) {
        RONDO_ASSIGN(std::unique_ptr<Device> device, open_device(device_options(*settings.device(name))));
        runtime_->devices.push_back(std::move(device));
    }
    progress_ = std::make_shared<Progress>(runtime_->devices.size());
    RONDO_TRY(check_host_memory(settings.memory.host_kv_mib));
    Device& first = *runtime_->devices[0];
    RONDO_ASSIGN(WeightsChoice choice, parse_weights_choice(settings.model.weights));
    choice.fingerprint = !settings.memory.disk.path.empty();
    // Memory is taken as it fills, so what is not there would be missed in the middle of somebody's answer.
    choice.kv_bytes = static_cast<size_t>(settings.memory.device_kv_mib) << 20;
    RONDO_ASSIGN(runtime_->model, load_model(model_path(settings.model.path), choice, first, options.progress));
    for (const AttentionMethod& method : runtime_->methods) {
        RONDO_ASSIGN(HeadPatterns patterns, SparsePrefill::read_patterns(runtime_->model.spec, method.prefill));
        runtime_->method_spaces.push_back(method_space(method, patterns, settings.pipeline));
        runtime_->patterns.push_back(std::move(patterns));
    }
    if (choice.fingerprint && runtime_->model.tokenizer != nullptr)
        runtime_->tokenizer = fingerprint(*runtime_->model.tokenizer);
    if (!settings.server.served_model_names.empty()) runtime_->model.name = settings.server.served_model_names.front();
    int lower_layers = 0;
    if (runtime_->chooses_rounds()) {
        RONDO_ASSIGN(lower_layers, watershed_layer(runtime_->model.spec, settings.pipeline.rounds));
    }
    const KvShape shape = Transformer::kv_shape(runtime_->model.spec, kv_dtype(settings.memory.kv_dtype), lower_layers);
    const size_t block_bytes = shape.block_bytes(LayerGroup::lower) + shape.block_bytes(LayerGroup::upper);
    RONDO_TRY(check_pool(settings, block_bytes));
    const size_t blocks = (static_cast<size_t>(settings.memory.device_kv_mib) << 20) / block_bytes;
    runtime_->context_tokens =
        std::min(runtime_->model.spec.usable_context(), static_cast<int64_t>(blocks - 1) * kv_block_tokens);
    RONDO_ASSIGN(runtime_->pool, KvPool::create(first, shape, {blocks, blocks}));
    return Status::ok();
}

Status EngineInside::check_host_memory(int host_kv_mib) const {
    const size_t machine = machine_memory_bytes();
    const std::string is = "memory.host_kv_mib is " + std::to_string(host_kv_mib);
    if (host_kv_mib > 0 && runtime_->devices[0]->computes_in_host_memory())
        return make_error(ErrorCode::invalid_argument,
                          is + "; it must be 0 on CPUs, whose pool is host memory: memory.device_kv_mib may be larger");
    if (static_cast<size_t>(host_kv_mib) > machine >> 20)
        return make_error(ErrorCode::out_of_memory,
                          is + "; it must be below the machine's memory, " + std::to_string(machine >> 20) + " MiB");
    return Status::ok();
}

Router::Options EngineInside::router_options(const Settings& settings, bool several_tenants) const {
    Router::Options router;
    router.session.runtime = runtime_;
    router.session.metrics = metrics_;
    router.session.texts = texts_;
    router.session.store = store_figures_;
    router.several_tenants = several_tenants;
    router.conversations.count_max = static_cast<size_t>(settings.server.conversations_max);
    router.conversations.bytes_max = static_cast<size_t>(settings.server.conversations_mib) << 20;
    router.conversations.idle_s_max = settings.server.conversation_idle_s;
    router.conversations.several_tenants = several_tenants;
    router.turns_max = turns_max(settings);
    return router;
}

void EngineInside::start(const Settings& settings, const Engine::Options& options, const Hooks& hooks) {
    metrics_ = std::make_shared<Metrics>(runtime_->model.name);
    for (size_t i = 0; i < runtime_->devices.size(); ++i)
        metrics_->device(runtime_->roles.names[i], runtime_->devices[i]->name());
    const bool several_tenants = options.several_tenants || !settings.server.api_keys_file.empty();
    TextWorkers::Options texts;
    texts.own_threads = hooks.own_threads;
    texts.texts_max = turns_max(settings);  // so whoever is let in finds a place, if not the bytes
    texts.several_tenants = several_tenants;
    texts_ = std::make_shared<TextWorkers>(texts);
    std::optional<OpenedStore> opened = open_disk(settings, options, hooks);
    Router::Options routing = router_options(settings, several_tenants);
    if (opened) routing.kept = std::exchange(opened->heads, {});
    if (opened) routing.newer = opened->newer;
    if (opened) start_store(std::move(*opened), options, hooks.own_threads);
    routing.store = store_;
    routing.session.taken_within_s = hooks.taken_within_s;
    router_ = system_->spawn<Router>(load_, last_turn_, routing);
    Supervisor::Options supervisor;
    supervisor.log = options.log;
    supervisor.start = [this, settings, detached = hooks.own_threads, started = hooks.started](caf::local_actor& self) {
        Result<Supervisor::Pipeline> made = start_stages(self, settings, detached);
        if (made && started) started(*made);
        return made;
    };
    const std::function<void(Error)> gave_up = options.gave_up ? options.gave_up : [](Error) {};
    supervisor.gave_up = gave_up;
    supervisor_ = system_->spawn<Supervisor>(std::move(supervisor));
    watch(router_, "router", gave_up);
    watch(supervisor_, "supervisor", gave_up);
    caf::anon_send(supervisor_, router_);
}

/// A folder that cannot be used is said, and nothing is put away then.
std::optional<OpenedStore> EngineInside::open_disk(const Settings& settings, const Engine::Options& options,
                                                   const Hooks& hooks) {
    if (settings.memory.disk.path.empty()) return std::nullopt;
    store_figures_->wanted = true;
    Result<OpenedStore> opened = open_store(settings.memory, *runtime_, hooks.disk ? hooks.disk() : nullptr);
    if (opened) {
        for (const std::string& note : opened->store->notes())
            if (options.log) options.log(note);
        if (!opened->store->direct() && options.log)
            options.log(settings.memory.disk.path + ": has no O_DIRECT, so what is stored goes by the kernel's cache");
        store_owners_ = StoreOwners(*opened->store, opened->heads);
        store_figures_->host_bytes_max = opened->host_bytes_max;
        return std::move(*opened);
    }
    if (options.log) options.log("conversations are not put away: " + opened.error().message);
    return std::nullopt;
}

void EngineInside::start_store(OpenedStore opened, const Engine::Options& options, bool detached) {
    store_ = detached ? system_->spawn<Store, caf::detached>(runtime_, std::move(opened), load_, store_figures_, true)
                      : system_->spawn<Store>(runtime_, std::move(opened), load_, store_figures_, false);
    store_figures_->serves = true;
    metrics_->store(store_figures_);
    store_->attach_functor(
        [log = options.log, figures = store_figures_, ending = ending_, system = system_](const caf::error& why) {
            figures->serves = false;
            if (*ending || !log) return;
            log("the store died (" + text_of(why, *system) + "): conversations are not put away any more");
        });
}

/// Nobody can take over what these know, so without one of them the engine gives up.
template <class Actor>
void EngineInside::watch(const Actor& actor, const char* name, const std::function<void(Error)>& gave_up) {
    actor->attach_functor([=, load = load_, ending = ending_, router = router_](const caf::error&) {
        if (*ending || load->gave_up.exchange(true)) return;
        caf::anon_send(router, StagesPtr());  // turns that wait for stages need not
        gave_up(
            make_error(ErrorCode::internal, std::string("the ") + name + " died; the process must be started anew"));
    });
}

Result<std::shared_ptr<DeviceRunner::PromptAttention>> EngineInside::prompt_attention(Device& device) const {
    // What is counted costs time: of each chunk one layer or two, not always the same.
    const int measured_layers = std::max(1, runtime_->model.spec.layers - 1);
    auto made = std::make_shared<DeviceRunner::PromptAttention>();
    for (size_t i = 0; i < runtime_->methods.size(); ++i) {
        const PrefillAttention& prefill = runtime_->methods[i].prefill;
        made->emplace_back();
        if (prefill.method == PrefillAttention::Method::dense) continue;
        RONDO_ASSIGN(made->back(), SparsePrefill::create(runtime_->model.spec, device, prefill, runtime_->patterns[i]));
        made->back()->measure(measured_layers);
    }
    return made;
}

/// One for each device, by its place.
Result<std::vector<device_runner_actor>> EngineInside::start_runners(caf::local_actor& self, const Settings& settings,
                                                                     bool detached) {
    Stepper::Limits limits;
    limits.chunk_tokens = std::min<int64_t>(settings.pipeline.prefill.chunk_tokens, runtime_->context_tokens);
    limits.context_tokens = runtime_->context_tokens;
    limits.open_chunks = open_chunks;
    std::vector<device_runner_actor> runners;
    for (size_t i = 0; i < runtime_->devices.size(); ++i) {
        Device& device = *runtime_->devices[i];
        limits.decode_rows = i == runtime_->roles.answers ? settings.pipeline.decode.batch_max : 1;
        RONDO_ASSIGN(std::shared_ptr<Stepper> stepper,
                     Stepper::create(runtime_->model, *runtime_->pool, device, limits));
        RONDO_ASSIGN(const auto lines, prompt_attention(device));
        runners.push_back(detached ? self.spawn<DeviceRunner, caf::detached>(runtime_, stepper, lines, progress_, i)
                                   : self.spawn<DeviceRunner>(runtime_, stepper, lines, progress_, i));
    }
    return runners;
}

Result<Supervisor::Pipeline> EngineInside::start_stages(caf::local_actor& self, const Settings& settings,
                                                        bool detached) {
    const PipelineSettings& pipeline = settings.pipeline;
    Supervisor::Pipeline made;
    const auto keep = [&](const auto& actor) { made.actors.push_back(caf::actor_cast<caf::strong_actor_ptr>(actor)); };
    RONDO_ASSIGN(const std::vector<device_runner_actor> runners, start_runners(self, settings, detached));
    for (const device_runner_actor& runner : runners) keep(runner);
    made.stages.store = store_;
    made.stages.cache = self.spawn<Cache>(runtime_, load_, store_, store_figures_);
    Admission::Options admission;
    admission.running_max = static_cast<size_t>(pipeline.decode.batch_max);
    admission.tokens_max = runtime_->context_tokens;
    made.stages.admission = self.spawn<Admission>(made.stages.cache, admission);
    Prefill::Options prefill;
    prefill.for_prompts = runtime_->roles.prompts;
    prefill.open_max = open_chunks;
    prefill.load = load_;
    prefill.chunk_seconds = pipeline.decode.step_ms_max / 1000.0;
    made.stages.prefill = self.spawn<Prefill>(runners, made.stages.cache, prefill);
    const device_runner_actor& answers = runners[runtime_->roles.answers];
    Decode::Options decode;
    decode.rows_max = static_cast<size_t>(pipeline.decode.batch_max);
    const selector_actor selector =
        detached ? self.spawn<Selector, caf::detached>(answers, made.stages.cache, Selector::Options{})
                 : self.spawn<Selector>(answers, made.stages.cache, Selector::Options{});
    made.stages.decode = self.spawn<Decode>(answers, selector, made.stages.cache, decode);
    keep(made.stages.cache);
    keep(made.stages.admission);
    keep(made.stages.prefill);
    keep(selector);
    keep(made.stages.decode);
    return made;
}

void EngineInside::shut_down() {
    *ending_ = true;
    if (router_) caf::anon_send_exit(router_, caf::exit_reason::user_shutdown);
    if (supervisor_) caf::anon_send_exit(supervisor_, caf::exit_reason::user_shutdown);
    if (store_) caf::anon_send_exit(store_, caf::exit_reason::user_shutdown);
}

Status EngineInside::put_away(std::chrono::milliseconds within) {
    constexpr std::chrono::milliseconds for_ever = std::chrono::hours(24 * 365);  // CAF's clock counts nanoseconds
    const LoggerHolder lets_go;
    caf::scoped_actor self{*system_};
    Status end;
    self->request(router_, std::min(within, for_ever), drain_atom::value)
        .receive([](bool) {}, [&](const caf::error& error) { end = from_caf(error, "the store"); });
    if (end && store_figures_->wanted && !store_figures_->serves)
        return make_error(ErrorCode::io, "nothing is put away: the store could not be opened, or has died");
    return end;
}

EngineInside::~EngineInside() {
    if (system_ == nullptr) return;
    shut_down();
    {
        const LoggerHolder lets_go;
        caf::scoped_actor self{*system_};
        if (router_) self->wait_for(router_);
        if (supervisor_) self->wait_for(supervisor_);
        if (store_) self->wait_for(store_);
    }
    if (texts_) texts_->end();  // sessions, which end too, have stopped those under way
    router_ = nullptr;
    supervisor_ = nullptr;
    store_ = nullptr;
}

}  // namespace rondo
