#include "actors/messages.hpp"

#include <iterator>

namespace rondo {

namespace {

constexpr caf::atom_value category = caf::atom("rondo");

bool is_ours(const caf::error& error) {
    return error.category() == category && error.context().match_elements<std::string, double>();
}

}  // namespace

caf::error to_caf(const Error& error) {
    return {static_cast<uint8_t>(static_cast<int>(error.code) + 1), category,
            caf::make_message(error.message, error.retry_after_s)};
}

Error from_caf(const caf::error& error, const char* who) {
    if (is_ours(error)) {
        return {static_cast<ErrorCode>(error.code() - 1), error.context().get_as<std::string>(0),
                error.context().get_as<double>(1)};
    }
    if (error == caf::sec::request_timeout)
        return make_error(ErrorCode::timeout, std::string(who) + " did not answer in time");
    return make_error(ErrorCode::internal, std::string(who) + " failed; asking again may help");
}

ConversationFigures figures_of(const Conversation& conversation) {
    return {conversation.tokens(), std::ssize(conversation.rounds()), conversation.bytes(), conversation.title()};
}

Error ended_engine() {
    return make_error(ErrorCode::cancelled, "the engine has ended and serves nothing any more");
}

Error late_device() {
    return make_error(ErrorCode::timeout, "its device did not get done in time, so it may hang");
}

std::string text_of(const caf::error& error, const caf::actor_system& system) {
    return is_ours(error) ? error.context().get_as<std::string>(0) : system.render(error);
}

}  // namespace rondo
