#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace rondo {

/// What kind of thing went wrong; decides the HTTP status, the exit code and whether a retry can help.
enum class ErrorCode {
    invalid_argument,  ///< the caller asked for something that cannot be: 400, exit 1
    not_found,         ///< a file, a tensor, a conversation that is not there
    corrupt,           ///< bytes from outside that lie
    unsupported,       ///< well-formed, but not something this build can do
    out_of_range,      ///< beyond a stated limit
    out_of_memory,     ///< no space in a pool or on a device
    overloaded,        ///< try again later
    io,                ///< the operating system refused
    device,            ///< an accelerator failed
    cancelled,
    timeout,
    internal,
    context_full,  ///< more tokens than the model's context holds
};

/// One line: what, where, what must be. Never contains prompt text or addresses.
struct Error {
    ErrorCode code = ErrorCode::internal;
    std::string message;
    double retry_after_s = 0.0;  ///< of `overloaded`: when asking again may help; 0: nobody knows
};

/// Success or an Error. Holds nothing on success, so returning it costs a null check.
class [[nodiscard]] Status {
public:
    Status() = default;
    Status(Error error) : error_(std::move(error)) {}

    static Status ok() { return {}; }
    bool is_ok() const { return !error_.has_value(); }
    explicit operator bool() const { return is_ok(); }
    const Error& error() const { return *error_; }

private:
    std::optional<Error> error_;
};

/// A value or an Error; what every function returns that can meet bad input or a full machine. `E` is another type
/// where whoever asks needs more than an Error says.
template <class T, class E = Error>
class [[nodiscard]] Result {
public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(E error) : state_(std::in_place_index<1>, std::move(error)) {}

    bool is_ok() const { return state_.index() == 0; }
    explicit operator bool() const { return is_ok(); }
    T& value() & { return std::get<0>(state_); }
    const T& value() const& { return std::get<0>(state_); }
    T&& value() && { return std::get<0>(std::move(state_)); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }
    const E& error() const { return std::get<1>(state_); }
    Status status() const requires std::is_same_v<E, Error> { return is_ok() ? Status{} : Status{error()}; }

private:
    std::variant<T, E> state_;
};

inline Error make_error(ErrorCode code, std::string message) {
    return Error{code, std::move(message)};
}

}  // namespace rondo

/// Returns the error of `expression` (a Status or Result) from the enclosing function, or goes on.
#define RONDO_TRY(expression)                                                                        \
    do {                                                                                             \
        if (auto rondo_status_ = (expression); !rondo_status_.is_ok()) return rondo_status_.error(); \
    } while (false)

#define RONDO_JOIN_(a, b) a##b
#define RONDO_JOIN(a, b) RONDO_JOIN_(a, b)

/// `RONDO_ASSIGN(auto x, f());` declares or assigns the value of a Result, or returns its error.
#define RONDO_ASSIGN(target, expression) RONDO_ASSIGN_(RONDO_JOIN(rondo_result_, __LINE__), target, expression)
#define RONDO_ASSIGN_(result, target, expression) \
    auto result = (expression);                   \
    if (!result.is_ok()) return result.error();   \
    target = std::move(result).value()
