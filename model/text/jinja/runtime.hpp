#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/limits.hpp"
#include "model/text/jinja/value.hpp"

namespace rondo::jinja {

/// The budget of one rendering, and the only maker of strings and containers: whatever grows is charged before it is
/// allocated, so a hostile template ends with a fault, not with a hang or a full memory. So does one that `stop` is
/// requested of, on another thread. Lives on the stack of one rendering.
class Runtime {
public:
    explicit Runtime(std::stop_token stop = {}) : stop_(std::move(stop)) {}
    void step(size_t count = 1);
    /// Reading `bytes` of text, which costs far less than a step a byte.
    void scan(size_t bytes) { step(bytes / 256); }
    /// About to make `bytes` of text or list.
    void take(size_t bytes);

    Value text(std::string text);
    Value sequence(Sequence::Kind kind, std::vector<Value> items);
    Value list(std::vector<Value> items) { return sequence(Sequence::Kind::list, std::move(items)); }
    Value lazy(std::vector<Value> items) { return sequence(Sequence::Kind::lazy, std::move(items)); }
    /// Later entries replace earlier ones of the same key.
    Value dict(std::vector<std::pair<Value, Value>> entries);
    /// A fault unless `value` may lie in a container: callables and namespaces may not. Returns its depth of nesting.
    static size_t storable(const Value& value);

    int line = 0;      ///< of what is being evaluated, for messages
    size_t depth = 0;  ///< of the evaluator's recursion

private:
    const std::stop_token stop_;
    size_t steps_ = 0;
    size_t bytes_ = 0;
};

/// Text under construction, charged piece by piece.
class TextBuilder {
public:
    explicit TextBuilder(Runtime& runtime) : runtime_(runtime) {}
    void append(std::string_view piece);
    void append(size_t count, std::string_view piece);
    /// The text as a value; the builder is empty afterwards.
    Value finish() { return std::make_shared<const std::string>(std::exchange(text_, {})); }
    std::string& str() { return text_; }
    Runtime& runtime() { return runtime_; }

private:
    Runtime& runtime_;
    std::string text_;
};

}  // namespace rondo::jinja
