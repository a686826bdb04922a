#include "model/format/number_range.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string>
#include <tuple>

namespace rondo {

namespace {

using Node = ByteGrammar::Node;

constexpr int64_t digits_max = 15;  // of a number in all: a double tells such numbers apart
constexpr double value_max = 1e15 - 1;

/// A bound that is not negative, as its digits.
struct Digits {
    std::string whole, fraction;
    bool excluded = false;

    explicit Digits(const NumberBound& bound) : excluded(bound.excluded) {
        char text[512];
        const auto end = std::to_chars(text, text + sizeof text, bound.value, std::chars_format::fixed).ptr;
        const std::string_view all(text, static_cast<size_t>(end - text));
        const size_t point = std::min(all.find('.'), all.size());
        whole = all.substr(0, point);
        if (point < all.size()) fraction = all.substr(point + 1);
    }
    char digit(int64_t at) const { return at < std::ssize(fraction) ? fraction[static_cast<size_t>(at)] : '0'; }
    bool zeros_from(int64_t at) const {
        return at >= std::ssize(fraction) ||
               fraction.find_first_not_of('0', static_cast<size_t>(at)) == std::string::npos;
    }
};

/// Whether what is written so far is the beginning of the least number, or of the most.
struct Tight {
    bool low, high;
};

/// Numbers from one bound to another, neither negative.
class Between {
public:
    Between(ByteGrammar& grammar, NumberBound least, NumberBound most, bool fractions, Node next)
        : grammar_(grammar), low_(least), high_(most), fractions_(fractions), next_(next) {}

    Node all() {
        Node node = ByteGrammar::never;
        for (auto size = std::ssize(low_.whole); size <= std::ssize(high_.whole); ++size) {
            size_ = size;
            behind_.clear();
            node = grammar_.either(whole(0, {size == std::ssize(low_.whole), size == std::ssize(high_.whole)}), node);
        }
        return node;
    }

private:
    /// One more digit; `go_on` makes what follows it.
    template <class GoOn>
    Node each_digit(char first, Tight tight, char low, char high, const GoOn& go_on) {
        char last = '9';
        if (tight.low) first = std::max(first, low);
        if (tight.high) last = std::min(last, high);
        Node node = ByteGrammar::never;
        const auto one = [&](char digit) {
            const auto byte = static_cast<uint8_t>(digit);
            const Tight still{tight.low && digit == low, tight.high && digit == high};
            node = grammar_.either(grammar_.bytes(byte, byte, go_on(still)), node);
        };
        if (tight.low && first == low && first <= last) one(first++);
        if (tight.high && last == high && first <= last) one(last--);
        if (first > last) return node;
        const Node free = go_on(Tight{false, false});
        return grammar_.either(grammar_.bytes(static_cast<uint8_t>(first), static_cast<uint8_t>(last), free), node);
    }

    Node whole(int64_t at, Tight tight) {
        if (at == size_) return behind(0, tight);
        const char least = at == 0 && size_ > 1 ? '1' : '0';
        const auto digit = [&](const Digits& bound) { return bound.whole[static_cast<size_t>(at)]; };
        return each_digit(least, tight, tight.low ? digit(low_) : '0', tight.high ? digit(high_) : '9',
                          [&](Tight now) { return whole(at + 1, now); });
    }

    /// What may follow so many digits of the fraction.
    Node behind(int64_t at, Tight tight) {
        const auto key = std::tuple(at, tight.low, tight.high);
        if (const auto known = behind_.find(key); known != behind_.end()) return known->second;
        const bool is_enough = !tight.low || (low_.zeros_from(at) && !low_.excluded);
        const bool is_within = !tight.high || !high_.zeros_from(at) || !high_.excluded;
        Node node = is_enough && is_within ? next_ : ByteGrammar::never;
        const auto told = std::max(std::ssize(low_.fraction), std::ssize(high_.fraction)) + 1;
        const int64_t most = tight.low || tight.high ? std::max<int64_t>(digits_max - size_, told) : digits_max - size_;
        if (fractions_ && at < most) {
            const Node more =
                each_digit('0', tight, low_.digit(at), high_.digit(at), [&](Tight now) { return behind(at + 1, now); });
            node = grammar_.either(at == 0 ? grammar_.text(".", more) : more, node);
        }
        return behind_[key] = node;
    }

    ByteGrammar& grammar_;
    Digits low_, high_;
    bool fractions_;
    Node next_;
    int64_t size_ = 0;  // digits before the point
    std::map<std::tuple<int64_t, bool, bool>, Node> behind_;
};

NumberBound whole_bound(NumberBound bound, bool is_least) {
    const double inner = is_least ? std::ceil(bound.value) : std::floor(bound.value);
    const bool out = bound.excluded && inner == bound.value;
    return {inner + (!out ? 0.0 : is_least ? 1.0 : -1.0), false};  // the sum is never -0
}

}  // namespace

void NumberBounds::raise(double value, bool excluded) {
    if (!least || value > least->value || (value == least->value && excluded))
        least = {value + 0.0, excluded};  // not -0
}

void NumberBounds::lower(double value, bool excluded) {
    if (!most || value < most->value || (value == most->value && excluded)) most = {value + 0.0, excluded};
}

Node number_between(ByteGrammar& grammar, const NumberBounds& bounds, bool fractions, Node next) {
    NumberBound least = bounds.least.value_or(NumberBound{-value_max});
    NumberBound most = bounds.most.value_or(NumberBound{value_max});
    if (!fractions) {
        least = whole_bound(least, true);
        most = whole_bound(most, false);
    }
    const auto is_empty = [](const NumberBound& from, const NumberBound& to) {
        return from.value > to.value || (from.value == to.value && (from.excluded || to.excluded));
    };
    Node node = ByteGrammar::never;
    const NumberBound from_zero = least.value < 0 ? NumberBound{0.0} : least;
    if (!is_empty(from_zero, most)) node = Between(grammar, from_zero, most, fractions, next).all();
    if (least.value >= 0) return node;
    // The same below zero, by their distance from it; zero itself has no sign.
    NumberBound nearest =
        most.value >= 0 ? NumberBound{fractions ? 0.0 : 1.0, fractions} : NumberBound{-most.value, most.excluded};
    const NumberBound farthest{-least.value, least.excluded};
    if (is_empty(nearest, farthest)) return node;
    return grammar.either(grammar.text("-", Between(grammar, nearest, farthest, fractions, next).all()), node);
}

}  // namespace rondo
