#include "model/text/jinja/eval.hpp"
#include "model/text/jinja/operators.hpp"
#include "model/text/jinja/print.hpp"

namespace rondo::jinja {

Loop::Loop(Evaluator& evaluator, const node::For& loop, std::vector<Value> items, Scope& outer)
    : evaluator_(evaluator), loop_(loop), items_(std::move(items)), outer_(outer) {}

/// Moves the next candidate that passes the filter behind the accepted ones.
bool Loop::fetch() {
    while (seen_ < items_.size()) {
        Value& item = items_[seen_++];
        if (loop_.filter) {
            Scope scope{&outer_, {}};
            evaluator_.assign(loop_.target, item, scope);
            Scope* caller = std::exchange(evaluator_.scope_, &scope);
            const bool passes = truthy(evaluator_.evaluate(*loop_.filter));
            evaluator_.scope_ = caller;
            if (!passes) continue;
        }
        if (accepted_ + 1 != seen_) items_[accepted_] = std::move(item);
        ++accepted_;
        return true;
    }
    return false;
}

bool Loop::has(size_t index) {
    while (accepted_ <= index)
        if (!fetch()) return false;
    return true;
}

const Value* Loop::advance() {
    return has(turn_) ? &items_[turn_++] : nullptr;
}

std::optional<Value> Loop::attribute(std::string_view name) {
    const auto turn = static_cast<int64_t>(turn_);
    if (name == "index") return turn;
    if (name == "index0") return turn - 1;
    if (name == "first") return turn_ == 1;
    if (name == "last") return !has(turn_);
    if (name == "previtem") return turn_ > 1 ? items_[turn_ - 2] : Value(Undefined{"loop.previtem"});
    if (name == "nextitem") return has(turn_) ? items_[turn_] : Value(Undefined{"loop.nextitem"});
    if (name == "depth") return int64_t{1};
    if (name == "depth0") return int64_t{0};
    if (name != "length" && name != "revindex" && name != "revindex0") return std::nullopt;
    has(items_.size());
    const auto length = static_cast<int64_t>(accepted_);
    return name == "length" ? length : name == "revindex" ? length - turn + 1 : length - turn;
}

Value Loop::cycle(const std::vector<Value>& values) const {
    if (values.empty()) fail("loop.cycle needs something to cycle through");
    return values[(turn_ - 1) % values.size()];
}

/// One overload for each kind of statement.
struct Evaluator::Executor {
    Evaluator& evaluator;
    TextBuilder& out;

    Flow operator()(const node::Data& data) {
        out.append(data.text);
        return Flow::next;
    }
    Flow operator()(const node::Output& output) {
        print(out, evaluator.evaluate(*output.value));
        return Flow::next;
    }
    Flow operator()(const node::If& node) {
        for (const auto& [test, body] : node.branches)
            if (truthy(evaluator.evaluate(*test))) return evaluator.execute(body, out);
        return evaluator.execute(node.otherwise, out);
    }
    Flow operator()(const node::For& loop) { return evaluator.run_for(loop, out); }
    Flow operator()(const node::Set& set) {
        const Value value = evaluator.evaluate(*set.value);
        evaluator.assign(set.target, value, *evaluator.scope_);
        return Flow::next;
    }
    Flow operator()(const node::SetBlock& set) {
        Value value = evaluator.capture(set.body);
        if (set.filter) value = filtered(*set.filter, std::move(value));
        evaluator.assign(set.target, value, *evaluator.scope_);
        return Flow::next;
    }
    Flow operator()(const node::FilterBlock& block) {
        print(out, filtered(*block.filter, evaluator.capture(block.body)));
        return Flow::next;
    }
    Value filtered(const Expression& filter, Value text) {
        Value outer = std::exchange(evaluator.block_text_, std::move(text));
        Value value = evaluator.evaluate(filter);
        evaluator.block_text_ = std::move(outer);
        return value;
    }
    Flow operator()(const node::Macro& macro) {
        auto closure = std::make_shared<const MacroClosure>(MacroClosure{&macro, evaluator.scope_});
        evaluator.scope_->variables[macro.name] = MacroPtr(std::move(closure));
        return Flow::next;
    }
    Flow operator()(const node::Generation& generation) {
        print(out, evaluator.capture(generation.body));
        return Flow::next;
    }
    Flow operator()(const node::Break&) { return Flow::leave_loop; }
    Flow operator()(const node::Continue&) { return Flow::next_turn; }
};

Evaluator::Flow Evaluator::execute(const Block& block, TextBuilder& out) {
    if (++runtime_.depth > limits::template_eval_depth_max)
        fail("recurses deeper than " + std::to_string(limits::template_eval_depth_max), ErrorCode::out_of_range);
    Flow flow = Flow::next;
    for (const Statement& statement : block) {
        runtime_.step();
        runtime_.line = statement.line;
        flow = std::visit(Executor{*this, out}, statement.node);
        if (flow != Flow::next) break;
    }
    --runtime_.depth;
    return flow;
}

/// What a block prints; what it sets stays inside.
Value Evaluator::capture(const Block& block) {
    Scope scope{scope_, {}};
    Scope* outer = std::exchange(scope_, &scope);
    TextBuilder text(runtime_);
    execute(block, text);
    scope_ = outer;
    return text.finish();
}

/// As Jinja compiles it, `else` runs unless some turn came to its end, so a loop left early in its first turn runs it
/// too.
Evaluator::Flow Evaluator::run_for(const node::For& loop, TextBuilder& out) {
    const Value items = evaluate(*loop.items);
    Scope* outer = scope_;
    Loop turns(*this, loop, items_of(runtime_, items), *outer);
    bool completed = false;
    while (const Value* item = turns.advance()) {
        runtime_.step();
        Scope scope{outer, {}};
        assign(loop.target, *item, scope);
        scope.variables["loop"] = &turns;
        scope_ = &scope;
        const Flow flow = execute(loop.body, out);
        scope_ = outer;
        if (flow == Flow::leave_loop) break;
        completed = completed || flow == Flow::next;
    }
    if (completed || loop.otherwise.empty()) return Flow::next;
    Scope scope{outer, {}};
    scope_ = &scope;
    const Flow flow = execute(loop.otherwise, out);
    scope_ = outer;
    return flow;
}

void Evaluator::assign(const Target& target, const Value& value, Scope& scope) {
    if (!target.attribute.empty()) {
        const std::string& name = target.names.front();
        const Value space = (*this)(node::Name{name});
        const NamespacePtr* found = space.as<NamespacePtr>();
        if (!found) fail("'" + name + "' is not a namespace, so its attributes cannot be set");
        Runtime::storable(value);
        runtime_.take(sizeof(Value));
        (*found)->attributes.insert_or_assign(target.attribute, value);
        return;
    }
    if (!target.unpacks) {
        scope.variables.insert_or_assign(target.names.front(), value);
        return;
    }
    std::vector<Value> values = items_of(runtime_, value);
    if (values.size() != target.names.size())
        fail("unpacks " + std::to_string(values.size()) + " values into " + std::to_string(target.names.size()) +
             " names");
    for (size_t i = 0; i < values.size(); ++i) scope.variables.insert_or_assign(target.names[i], std::move(values[i]));
}

}  // namespace rondo::jinja
