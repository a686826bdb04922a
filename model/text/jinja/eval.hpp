#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/text/jinja/ast.hpp"
#include "model/text/jinja/builtins.hpp"
#include "model/text/jinja/runtime.hpp"

namespace rondo::jinja {

/// The variables of one block that has some of its own: the template, a turn of a loop, a macro. What a block sets is
/// gone with it, as in Jinja; reading falls through to the blocks around.
struct Scope {
    Scope* parent = nullptr;
    std::unordered_map<std::string_view, Value> variables;  ///< named by the template or the context, which outlive it
};

/// A macro and where it was defined. Only variables of that scope or of inner ones can hold it, so `scope` stays valid.
struct MacroClosure {
    const node::Macro* macro;
    Scope* scope;
};

class Evaluator;

/// The turns of one `for` and what the template sees of them as `loop`. Its filter is asked only when the next item is
/// wanted, since the body may change what it depends on. Lives as long as the loop runs, as do all values that name it.
class Loop {
public:
    Loop(Evaluator& evaluator, const node::For& loop, std::vector<Value> items, Scope& outer);
    /// The next item, or null after the last.
    const Value* advance();
    std::optional<Value> attribute(std::string_view name);
    Value cycle(const std::vector<Value>& values) const;

private:
    bool fetch();
    bool has(size_t index);

    Evaluator& evaluator_;
    const node::For& loop_;
    std::vector<Value> items_;  ///< candidates; the accepted ones are moved to the front
    Scope& outer_;
    size_t seen_ = 0, accepted_ = 0;
    size_t turn_ = 0;  ///< 1 in the first turn
};

/// Walks the tree of a template once, writing what it prints. One per rendering, on one thread.
class Evaluator {
public:
    Evaluator(Runtime& runtime, Scope& context) : runtime_(runtime), scope_(&template_scope_) {
        template_scope_.parent = &context;
    }
    void run(const Block& block, TextBuilder& out) { execute(block, out); }

    Value evaluate(const Expression& expression);
    void assign(const Target& target, const Value& value, Scope& scope);

    // One for each kind of expression.
    Value operator()(const node::Literal& literal) { return literal.value; }
    Value operator()(const node::Name& name);
    Value operator()(const node::Items& items);
    Value operator()(const node::Entries& entries);
    Value operator()(const node::Sign& sign);
    Value operator()(const node::Not& negation);
    Value operator()(const node::Logic& logic);
    Value operator()(const node::Binary& binary);
    Value operator()(const node::Compare& chain);
    Value operator()(const node::Concat& concat);
    Value operator()(const node::Conditional& conditional);
    Value operator()(const node::Attribute& attribute);
    Value operator()(const node::Subscript& subscript);
    Value operator()(const node::Slice& slice);
    Value operator()(const node::Apply& apply);
    Value operator()(const node::Call& call);

private:
    friend class Loop;
    enum class Flow { next, leave_loop, next_turn };
    struct Executor;
    class Depth;

    Flow execute(const Block& block, TextBuilder& out);
    Flow run_for(const node::For& loop, TextBuilder& out);
    Value capture(const Block& block);
    Value call_macro(const MacroClosure& closure, std::vector<Value> positional,
                     std::vector<std::pair<std::string, Value>> named);
    Arguments bind_arguments(const Builtin& builtin, const std::vector<Argument>& arguments);
    bool compare_once(Comparison op, const Value& left, const Value& right);

    Runtime& runtime_;
    Scope template_scope_;
    Scope* scope_;
    Value block_text_;  ///< of the block set whose filters are being applied
};

}  // namespace rondo::jinja
