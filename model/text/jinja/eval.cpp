#include "model/text/jinja/eval.hpp"

#include <algorithm>

#include "model/text/jinja/operators.hpp"
#include "model/text/jinja/print.hpp"

namespace rondo::jinja {

/// Counts a level of recursion for as long as it lives.
class Evaluator::Depth {
public:
    explicit Depth(Runtime& runtime) : runtime_(runtime) {
        if (++runtime_.depth > limits::template_eval_depth_max)
            fail("recurses deeper than " + std::to_string(limits::template_eval_depth_max), ErrorCode::out_of_range);
    }
    ~Depth() { --runtime_.depth; }
    Depth(const Depth&) = delete;

private:
    Runtime& runtime_;
};

Value Evaluator::evaluate(const Expression& expression) {
    Depth depth(runtime_);
    runtime_.step();
    runtime_.line = expression.line;
    return std::visit(*this, expression.node);
}

Value Evaluator::operator()(const node::Name& name) {
    for (Scope* scope = scope_; scope; scope = scope->parent)
        if (const auto found = scope->variables.find(name.name); found != scope->variables.end()) return found->second;
    if (const Builtin* function = find_function(name.name)) return function;
    return Undefined{name.name};
}

Value Evaluator::operator()(const node::Items& items) {
    std::vector<Value> values;
    for (const auto& item : items.items) values.push_back(evaluate(*item));
    return runtime_.sequence(items.is_tuple ? Sequence::Kind::tuple : Sequence::Kind::list, std::move(values));
}

Value Evaluator::operator()(const node::Entries& entries) {
    std::vector<std::pair<Value, Value>> values;
    for (const auto& [key, value] : entries.entries) {
        Value name = evaluate(*key);
        if (name.is<Undefined>() || !is_hashable(runtime_, name))
            fail("a " + std::string(name.type_name()) + " cannot be the key of a dict");
        values.emplace_back(std::move(name), evaluate(*value));
    }
    return runtime_.dict(std::move(values));
}

Value Evaluator::operator()(const node::Sign& sign) {
    const Value value = evaluate(*sign.operand);
    const Value negative = negate(value);
    return sign.negative ? negative : value.is<bool>() ? Value(*value.integer()) : value;
}

Value Evaluator::operator()(const node::Not& negation) {
    return !truthy(evaluate(*negation.operand));
}

Value Evaluator::operator()(const node::Logic& logic) {
    Value left = evaluate(*logic.left);
    return truthy(left) == logic.is_and ? evaluate(*logic.right) : left;
}

Value Evaluator::operator()(const node::Binary& binary) {
    const Value left = evaluate(*binary.left);
    const Value right = evaluate(*binary.right);
    return calculate(runtime_, binary.op, left, right);
}

bool Evaluator::compare_once(Comparison op, const Value& left, const Value& right) {
    switch (op) {
        case Comparison::equal:
            return equal(runtime_, left, right);
        case Comparison::not_equal:
            return !equal(runtime_, left, right);
        case Comparison::in:
            return contains(runtime_, right, left);
        case Comparison::not_in:
            return !contains(runtime_, right, left);
        default:
            return is_ordered(runtime_, op, left, right);
    }
}

Value Evaluator::operator()(const node::Compare& chain) {
    Value left = evaluate(*chain.first);
    for (const auto& [op, expression] : chain.rest) {
        Value right = evaluate(*expression);
        if (!compare_once(op, left, right)) return false;
        left = std::move(right);
    }
    return true;
}

Value Evaluator::operator()(const node::Concat& concat) {
    TextBuilder out(runtime_);
    for (const auto& part : concat.parts) print(out, evaluate(*part));
    return out.finish();
}

Value Evaluator::operator()(const node::Conditional& conditional) {
    if (truthy(evaluate(*conditional.test))) return evaluate(*conditional.yes);
    return conditional.no ? evaluate(*conditional.no) : Value(Undefined{"an inline if without else"});
}

Value Evaluator::operator()(const node::Attribute& attribute) {
    return attribute_of(runtime_, evaluate(*attribute.object), attribute.name);
}

Value Evaluator::operator()(const node::Subscript& subscript) {
    const Value object = evaluate(*subscript.object);
    return item_of(runtime_, object, evaluate(*subscript.index));
}

Value Evaluator::operator()(const node::Slice& slice) {
    const Value object = evaluate(*slice.object);
    auto bound = [&](const ExpressionPtr& expression) { return expression ? evaluate(*expression) : Value(nullptr); };
    const Value start = bound(slice.start), stop = bound(slice.stop), step = bound(slice.step);
    return slice_of(runtime_, object, start, stop, step);
}

Arguments Evaluator::bind_arguments(const Builtin& builtin, const std::vector<Argument>& arguments) {
    std::vector<Value> positional;
    std::vector<std::pair<std::string, Value>> named;
    for (const Argument& argument : arguments) {
        Value value = evaluate(*argument.value);
        if (argument.name.empty())
            positional.push_back(std::move(value));
        else
            named.emplace_back(argument.name, std::move(value));
    }
    return bind(builtin, std::move(positional), std::move(named));
}

Value Evaluator::operator()(const node::Apply& apply) {
    const int line = runtime_.line;
    const Value self = apply.object ? evaluate(*apply.object) : block_text_;
    Arguments arguments = bind_arguments(*apply.builtin, apply.arguments);
    runtime_.line = line;
    return apply.builtin->run(runtime_, self, arguments);
}

Value Evaluator::operator()(const node::Call& call) {
    const int line = runtime_.line;
    const Value callee = evaluate(*call.callee);
    if (const MacroPtr* macro = callee.as<MacroPtr>()) {
        std::vector<Value> positional;
        std::vector<std::pair<std::string, Value>> named;
        for (const Argument& argument : call.arguments) {
            Value value = evaluate(*argument.value);
            if (argument.name.empty())
                positional.push_back(std::move(value));
            else
                named.emplace_back(argument.name, std::move(value));
        }
        return call_macro(**macro, std::move(positional), std::move(named));
    }
    if (const MethodPtr* method = callee.as<MethodPtr>()) {
        Arguments arguments = bind_arguments(*(*method)->builtin, call.arguments);
        runtime_.line = line;
        return (*method)->builtin->run(runtime_, (*method)->self, arguments);
    }
    if (const Builtin* const* function = callee.as<const Builtin*>()) {
        Arguments arguments = bind_arguments(**function, call.arguments);
        runtime_.line = line;
        return (*function)->run(runtime_, Undefined{}, arguments);
    }
    require_defined(callee);
    fail("a " + std::string(callee.type_name()) + " cannot be called");
}

Value Evaluator::call_macro(const MacroClosure& closure, std::vector<Value> positional,
                            std::vector<std::pair<std::string, Value>> named) {
    Depth depth(runtime_);
    const node::Macro& macro = *closure.macro;
    const size_t count = macro.parameters.size(), required = count - macro.defaults.size();
    if (positional.size() > count)
        fail("macro '" + macro.name + "' takes no more than " + std::to_string(count) + " arguments");
    Scope scope{closure.scope, {}};
    for (size_t i = 0; i < positional.size(); ++i) scope.variables[macro.parameters[i]] = std::move(positional[i]);
    for (auto& [name, value] : named) {
        const auto known = std::find(macro.parameters.begin(), macro.parameters.end(), name);
        if (known == macro.parameters.end()) fail("macro '" + macro.name + "' takes no argument '" + name + "'");
        if (!scope.variables.emplace(*known, std::move(value)).second)
            fail("macro '" + macro.name + "' is given '" + name + "' twice");
    }
    Scope* caller = std::exchange(scope_, &scope);
    for (size_t i = 0; i < count; ++i) {
        const std::string& name = macro.parameters[i];
        if (scope.variables.contains(name)) continue;
        Value value = i < required ? Value(Undefined{name}) : evaluate(*macro.defaults[i - required]);
        scope.variables.emplace(name, std::move(value));
    }
    TextBuilder out(runtime_);
    execute(macro.body, out);
    scope_ = caller;
    return out.finish();
}

}  // namespace rondo::jinja
