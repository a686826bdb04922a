#include "model/text/jinja/operators.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "config/checked.hpp"
#include "model/text/find_piece.hpp"

namespace rondo::jinja {

namespace {

/// Integers beyond this have no exact double, so Python's exact comparison and division are left to fail instead.
constexpr int64_t exact_in_double = int64_t{1} << 53;

[[noreturn]] void refuse(std::string_view what, const Value& a, const Value& b) {
    fail(std::string(what) + " does not work between " + std::string(a.type_name()) + " and " +
         std::string(b.type_name()));
}

/// Nothing orders a number with not-a-number.
enum class Order { less, same, greater, unordered };

Order order_of(double a, double b) {
    return a < b ? Order::less : a > b ? Order::greater : a == b ? Order::same : Order::unordered;
}

Order compare_numbers(const Value& a, const Value& b) {
    const auto ia = a.integer(), ib = b.integer();
    if (ia && ib) return *ia < *ib ? Order::less : *ia > *ib ? Order::greater : Order::same;
    const auto whole = ia ? ia : ib;
    if (whole && (*whole > exact_in_double || *whole < -exact_in_double))
        fail("compares a float with an integer beyond 2^53", ErrorCode::unsupported);
    return order_of(*a.number(), *b.number());
}

bool equal_sequences(Runtime& runtime, const Sequence& a, const Sequence& b) {
    if (&a == &b) return true;
    if (a.kind != b.kind) return false;
    if (a.kind > Sequence::Kind::range) fail("dict views and lazy sequences are compared through |list only");
    return a.items.size() == b.items.size() &&
           std::equal(a.items.begin(), a.items.end(), b.items.begin(),
                      [&](const Value& x, const Value& y) { return equal(runtime, x, y); });
}

bool equal_dicts(Runtime& runtime, const Dict& a, const Dict& b) {
    if (&a == &b) return true;
    if (a.entries.size() != b.entries.size()) return false;
    for (const auto& [key, value] : a.entries) {
        const Value* other = find_entry(runtime, b, key);
        if (other == nullptr || !equal(runtime, value, *other)) return false;
    }
    return true;
}

int64_t exact(std::optional<int64_t> value) {
    if (!value) fail("an integer leaves 64 bits", ErrorCode::out_of_range);
    return *value;
}

int64_t power_of(int64_t base, int64_t exponent) {
    int64_t result = 1;
    while (true) {
        if (exponent & 1) result = exact(checked_mul(result, base));
        exponent >>= 1;
        if (exponent == 0) return result;
        if (base == 0 || base == 1) return result * base;
        base = exact(checked_mul(base, base));
    }
}

/// Python's float floor division and modulo: the remainder takes the sign of the divisor.
Value float_remainder(Operator op, double a, double b) {
    if (b == 0) fail("division by zero");
    double remainder = std::fmod(a, b);
    double quotient = (a - remainder) / b;
    if (remainder != 0) {
        if ((b < 0) != (remainder < 0)) {
            remainder += b;
            quotient -= 1;
        }
    } else {
        remainder = std::copysign(0.0, b);
    }
    if (op == Operator::modulo) return remainder;
    if (quotient == 0) return std::copysign(0.0, a / b);
    const double whole = std::floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}

Value float_arithmetic(Operator op, double a, double b) {
    switch (op) {
        case Operator::add:
            return a + b;
        case Operator::subtract:
            return a - b;
        case Operator::multiply:
            return a * b;
        case Operator::divide:
            if (b == 0) fail("division by zero");
            return a / b;
        case Operator::floor_divide:
        case Operator::modulo:
            return float_remainder(op, a, b);
        case Operator::power:
            break;
    }
    if (a == 0 && b < 0) fail("zero cannot be raised to a negative power");
    if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b))
        fail("a power would be a complex number", ErrorCode::unsupported);
    const double result = std::pow(a, b);
    if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) fail("a power is too large for a float");
    return result;
}

Value integer_arithmetic(Operator op, int64_t a, int64_t b) {
    switch (op) {
        case Operator::add:
            return exact(checked_add(a, b));
        case Operator::subtract: {
            int64_t out;
            return exact(__builtin_sub_overflow(a, b, &out) ? std::nullopt : std::optional<int64_t>(out));
        }
        case Operator::multiply:
            return exact(checked_mul(a, b));
        case Operator::power:
            if (b >= 0) return power_of(a, b);
            break;
        case Operator::divide:
            break;
        case Operator::floor_divide:
        case Operator::modulo: {
            if (b == 0) fail("division by zero");
            if (b == -1)
                return op == Operator::modulo ? Value(int64_t{0}) : integer_arithmetic(Operator::subtract, 0, a);
            const bool adjust = a % b != 0 && (a < 0) != (b < 0);
            return op == Operator::modulo ? a % b + (adjust ? b : 0) : a / b - (adjust ? 1 : 0);
        }
    }
    if (std::max(a, b) > exact_in_double || std::min(a, b) < -exact_in_double)
        fail("divides an integer beyond 2^53", ErrorCode::unsupported);
    return float_arithmetic(op, static_cast<double>(a), static_cast<double>(b));
}

Value repeat(Runtime& runtime, const Value& value, int64_t count) {
    const size_t times = static_cast<size_t>(std::max<int64_t>(count, 0));
    if (const std::string* text = value.text()) {
        TextBuilder out(runtime);
        out.append(times, *text);
        return out.finish();
    }
    const Sequence& sequence = *value.sequence();
    std::vector<Value> items;
    if (!sequence.items.empty()) {
        if (times > limits::template_work_bytes_max) runtime.take(times);
        runtime.take(times * sequence.items.size() * sizeof(Value));
        for (size_t i = 0; i < times; ++i) items.insert(items.end(), sequence.items.begin(), sequence.items.end());
    }
    return runtime.sequence(sequence.kind, std::move(items));
}

bool is_repeatable(const Value& value) {
    return value.text() || (value.sequence() && value.sequence()->kind <= Sequence::Kind::tuple);
}

Order compare(Runtime& runtime, const Value& a, const Value& b) {
    runtime.step();
    require_defined(a);
    require_defined(b);
    if (a.is_number() && b.is_number()) return compare_numbers(a, b);
    if (a.text() && b.text()) {
        runtime.scan(std::min(a.text()->size(), b.text()->size()));
        const int order = a.text()->compare(*b.text());
        return order < 0 ? Order::less : order > 0 ? Order::greater : Order::same;
    }
    const Sequence *x = a.sequence(), *y = b.sequence();
    if (!x || !y || x->kind != y->kind || x->kind > Sequence::Kind::tuple) refuse("an order", a, b);
    for (size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i)
        if (!equal(runtime, x->items[i], y->items[i])) return compare(runtime, x->items[i], y->items[i]);
    const size_t nx = x->items.size(), ny = y->items.size();
    return nx < ny ? Order::less : nx > ny ? Order::greater : Order::same;
}

}  // namespace

void require_defined(const Value& value) {
    const Undefined* undefined = value.as<Undefined>();
    if (!undefined) return;
    const bool is_name = undefined->name.find(' ') == std::string_view::npos;
    const std::string quote = is_name ? "'" : "";
    fail("uses " + quote + std::string(undefined->name) + quote + ", which is undefined");
}

bool truthy(const Value& value) {
    if (value.is<Undefined>() || value.is<std::nullptr_t>()) return false;
    if (auto number = value.number()) return *number != 0;
    if (const std::string* text = value.text()) return !text->empty();
    if (const Dict* dict = value.dict()) return !dict->entries.empty();
    if (const Sequence* sequence = value.sequence())
        return sequence->kind == Sequence::Kind::lazy || !sequence->items.empty();
    return true;
}

bool equal(Runtime& runtime, const Value& a, const Value& b) {
    runtime.step();
    if (a.is_number() && b.is_number()) return compare_numbers(a, b) == Order::same;
    if (a.text() && b.text()) {
        runtime.scan(std::min(a.text()->size(), b.text()->size()));
        return *a.text() == *b.text();
    }
    if (a.sequence() && b.sequence()) return equal_sequences(runtime, *a.sequence(), *b.sequence());
    if (a.dict() && b.dict()) return equal_dicts(runtime, *a.dict(), *b.dict());
    if (a.is<NamespacePtr>() && b.is<NamespacePtr>()) return *a.as<NamespacePtr>() == *b.as<NamespacePtr>();
    return (a.is<Undefined>() && b.is<Undefined>()) || (a.is<std::nullptr_t>() && b.is<std::nullptr_t>());
}

bool is_ordered(Runtime& runtime, Comparison op, const Value& a, const Value& b) {
    const Order order = compare(runtime, a, b);
    switch (op) {
        case Comparison::less:
            return order == Order::less;
        case Comparison::less_equal:
            return order == Order::less || order == Order::same;
        case Comparison::greater:
            return order == Order::greater;
        default:
            return order == Order::greater || order == Order::same;
    }
}

bool is_hashable(Runtime& runtime, const Value& value) {
    const Sequence* sequence = value.sequence();
    if (!sequence) return !value.dict();
    runtime.step();
    return sequence->kind == Sequence::Kind::tuple &&
           std::all_of(sequence->items.begin(), sequence->items.end(),
                       [&](const Value& item) { return is_hashable(runtime, item); });
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
    if (const std::string* text = container.text()) {
        if (!item.text()) refuse("'in'", item, container);
        runtime.scan(text->size());
        return find_piece(*text, *item.text()) != std::string::npos;
    }
    if (const Dict* dict = container.dict()) {
        if (!is_hashable(runtime, item)) refuse("'in'", item, container);
        return find_entry(runtime, *dict, item) != nullptr;
    }
    for (const Value& candidate : items_of(runtime, container))
        if (equal(runtime, candidate, item)) return true;
    return false;
}

Value calculate(Runtime& runtime, Operator op, const Value& a, const Value& b) {
    require_defined(a);
    require_defined(b);
    if (a.is_number() && b.is_number()) {
        if (auto x = a.integer(), y = b.integer(); x && y) return integer_arithmetic(op, *x, *y);
        return float_arithmetic(op, *a.number(), *b.number());
    }
    if (op == Operator::add && a.text() && b.text()) {
        TextBuilder out(runtime);
        out.append(*a.text());
        out.append(*b.text());
        return out.finish();
    }
    if (op == Operator::add && is_repeatable(a) && is_repeatable(b) && a.sequence() && b.sequence() &&
        a.sequence()->kind == b.sequence()->kind) {
        runtime.take((a.sequence()->items.size() + b.sequence()->items.size()) * sizeof(Value));
        std::vector<Value> items = a.sequence()->items;
        items.insert(items.end(), b.sequence()->items.begin(), b.sequence()->items.end());
        return runtime.sequence(a.sequence()->kind, std::move(items));
    }
    if (op == Operator::multiply && is_repeatable(a) && b.integer()) return repeat(runtime, a, *b.integer());
    if (op == Operator::multiply && is_repeatable(b) && a.integer()) return repeat(runtime, b, *a.integer());
    if (op == Operator::modulo && a.text()) fail("formatting a string with % is not supported", ErrorCode::unsupported);
    static constexpr std::string_view signs[] = {"'+'", "'-'", "'*'", "'/'", "'//'", "'%'", "'**'"};
    refuse(signs[static_cast<size_t>(op)], a, b);
}

Value negate(const Value& value) {
    require_defined(value);
    if (auto number = value.integer()) return integer_arithmetic(Operator::subtract, 0, *number);
    if (const double* number = value.as<double>()) return -*number;
    fail("a " + std::string(value.type_name()) + " has no negative");
}

}  // namespace rondo::jinja
