#include "actors/messages.hpp"

namespace rondo {

namespace {

constexpr caf::atom_value category = caf::atom("rondo");

}  // namespace

caf::error to_caf(const Error& error) {
    return {static_cast<uint8_t>(static_cast<int>(error.code) + 1), category, caf::make_message(error.message)};
}

Error from_caf(const caf::error& error, const char* who) {
    if (error.category() == category && error.context().match_elements<std::string>()) {
        return make_error(static_cast<ErrorCode>(error.code() - 1), error.context().get_as<std::string>(0));
    }
    if (error == caf::sec::request_timeout)
        return make_error(ErrorCode::timeout, std::string(who) + " did not answer in time");
    return make_error(ErrorCode::internal, std::string(who) + " failed; asking again may help");
}

}  // namespace rondo
