#include <ctime>

#include "model/text/jinja/builtins.hpp"
#include "model/text/jinja/operators.hpp"
#include "model/text/jinja/print.hpp"

namespace rondo::jinja {

namespace {

Value raise_exception(Runtime&, const Value&, Arguments& arguments) {
    fail("the template refuses: " +
         std::string(text_argument(arguments[0], "the message of raise_exception")).substr(0, 1000));
}

Value range(Runtime& runtime, const Value&, Arguments& arguments) {
    const int64_t a = integer_argument(arguments[0], "a bound of range");
    const int64_t start = arguments.has(1) ? a : 0;
    const int64_t stop = arguments.has(1) ? integer_argument(arguments[1], "a bound of range") : a;
    const int64_t step = arguments.has(2) ? integer_argument(arguments[2], "the step of range") : 1;
    if (step == 0) fail("the step of range must not be zero");
    std::vector<Value> items;
    int64_t at = start;
    while (step > 0 ? at < stop : at > stop) {
        if (static_cast<int64_t>(items.size()) == limits::template_range_max)
            fail("a range is longer than " + std::to_string(limits::template_range_max), ErrorCode::out_of_range);
        items.push_back(at);
        if (__builtin_add_overflow(at, step, &at)) break;
    }
    return runtime.sequence(Sequence::Kind::range, std::move(items));
}

/// dict(...) and namespace(...) both take a mapping or pairs, and named values.
std::vector<std::pair<Value, Value>> entries_of(Runtime& runtime, const Arguments& arguments) {
    std::vector<std::pair<Value, Value>> entries;
    if (arguments.rest.size() > 1) fail("takes one positional argument at most");
    if (!arguments.rest.empty()) {
        const Dict* dict = arguments.rest[0].dict();
        if (!dict) fail("supports a dict as its positional argument only", ErrorCode::unsupported);
        runtime.take(dict->entries.size() * 2 * sizeof(Value));
        entries = dict->entries;
    }
    for (const auto& [name, value] : arguments.named) entries.emplace_back(runtime.text(name), value);
    return entries;
}

Value make_dict(Runtime& runtime, const Value&, Arguments& arguments) {
    return runtime.dict(entries_of(runtime, arguments));
}

Value make_namespace(Runtime& runtime, const Value&, Arguments& arguments) {
    auto space = std::make_shared<Namespace>();
    for (auto& [name, value] : entries_of(runtime, arguments)) {
        Runtime::storable(value);
        space->attributes.insert_or_assign(std::string(text_argument(name, "the name of an attribute")),
                                           std::move(value));
    }
    return NamespacePtr(std::move(space));
}

/// The local date and time as the C library formats it.
Value strftime_now(Runtime& runtime, const Value&, Arguments& arguments) {
    const std::string format(text_argument(arguments[0], "the format of strftime_now"));
    if (format.empty()) return runtime.text("");
    constexpr size_t bytes_max = 256;
    if (format.size() > bytes_max)
        fail("a format of strftime_now has " + std::to_string(format.size()) + " bytes, must be at most " +
                 std::to_string(bytes_max),
             ErrorCode::out_of_range);
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    char buffer[8192];
    // An empty result and a full buffer look the same; a space in front tells them apart.
    const size_t size = std::strftime(buffer, sizeof buffer, (" " + format).c_str(), &local);
    if (size == 0) fail("a date of strftime_now is too long", ErrorCode::out_of_range);
    return runtime.text(std::string(buffer + 1, size - 1));
}

}  // namespace

std::span<const Builtin> functions() {
    static constexpr Builtin table[] = {
        {"raise_exception", "message", raise_exception},
        {"strftime_now", "format", strftime_now},
        {"range", "/start stop? step?", range},
        {"dict", "...", make_dict},
        {"namespace", "...", make_namespace},
    };
    return table;
}

}  // namespace rondo::jinja
