#include "model/text/jinja/builtins.hpp"
#include "model/text/jinja/operators.hpp"

namespace rondo::jinja {

namespace {

template <class T>
Value is_type(Runtime&, const Value& self, Arguments&) {
    return self.is<T>();
}

Value is_defined(Runtime&, const Value& self, Arguments&) {
    return !self.is<Undefined>();
}
Value is_number(Runtime&, const Value& self, Arguments&) {
    return self.is_number();
}

template <bool wanted>
Value is_flag(Runtime&, const Value& self, Arguments&) {
    return self.is<bool>() && *self.as<bool>() == wanted;
}

Value is_iterable(Runtime&, const Value& self, Arguments&) {
    return self.text() || self.sequence() || self.dict() || self.is<Undefined>();
}

/// Python's notion is a length and subscripts, which dicts and undefined values have too.
Value is_sequence(Runtime&, const Value& self, Arguments&) {
    if (const Sequence* sequence = self.sequence()) return sequence->kind <= Sequence::Kind::range;
    return self.text() || self.dict() || self.is<Undefined>();
}

template <int64_t remainder>
Value is_odd_or_even(Runtime& runtime, const Value& self, Arguments&) {
    return equal(runtime, calculate(runtime, Operator::modulo, self, int64_t{2}), remainder);
}

Value is_divisible(Runtime& runtime, const Value& self, Arguments& arguments) {
    return equal(runtime, calculate(runtime, Operator::modulo, self, arguments[0]), int64_t{0});
}

template <bool wanted>
Value is_equal(Runtime& runtime, const Value& self, Arguments& arguments) {
    return equal(runtime, self, arguments[0]) == wanted;
}

template <Comparison op>
Value is_in_order(Runtime& runtime, const Value& self, Arguments& arguments) {
    return is_ordered(runtime, op, self, arguments[0]);
}

Value is_in(Runtime& runtime, const Value& self, Arguments& arguments) {
    return contains(runtime, arguments[0], self);
}

}  // namespace

std::span<const Builtin> tests() {
    static constexpr Builtin table[] = {
        {"defined", "", is_defined},
        {"undefined", "", is_type<Undefined>},
        {"none", "", is_type<std::nullptr_t>},
        {"boolean", "", is_type<bool>},
        {"true", "", is_flag<true>},
        {"false", "", is_flag<false>},
        {"integer", "", is_type<int64_t>},
        {"float", "", is_type<double>},
        {"number", "", is_number},
        {"string", "", is_type<Text>},
        {"mapping", "", is_type<DictPtr>},
        {"iterable", "", is_iterable},
        {"sequence", "", is_sequence},
        {"odd", "", is_odd_or_even<1>},
        {"even", "", is_odd_or_even<0>},
        {"divisibleby", "num", is_divisible},
        {"in", "seq", is_in},
        {"==", "/other", is_equal<true>},
        {"eq", "/other", is_equal<true>},
        {"equalto", "/other", is_equal<true>},
        {"!=", "/other", is_equal<false>},
        {"ne", "/other", is_equal<false>},
        {"<", "/other", is_in_order<Comparison::less>},
        {"lt", "/other", is_in_order<Comparison::less>},
        {"lessthan", "/other", is_in_order<Comparison::less>},
        {"<=", "/other", is_in_order<Comparison::less_equal>},
        {"le", "/other", is_in_order<Comparison::less_equal>},
        {">", "/other", is_in_order<Comparison::greater>},
        {"gt", "/other", is_in_order<Comparison::greater>},
        {"greaterthan", "/other", is_in_order<Comparison::greater>},
        {">=", "/other", is_in_order<Comparison::greater_equal>},
        {"ge", "/other", is_in_order<Comparison::greater_equal>},
    };
    return table;
}

}  // namespace rondo::jinja
