#include "actors/gateway/list_desk.hpp"

#include <chrono>

#include "actors/gateway/bodies/listings.hpp"
#include "actors/when_answered.hpp"

namespace rondo {

namespace {

constexpr auto rest = std::chrono::milliseconds(2);
constexpr auto talk_lasts = std::chrono::milliseconds(100);

std::string body_of(const ConversationPage& page) {
    std::vector<ListedSession> listed;
    listed.reserve(page.conversations.size());
    for (const ListedConversation& one : page.conversations)
        listed.push_back({one.id, one.figures.title, one.figures.tokens, one.figures.rounds});
    return sessions_response(listed, page.has_more);
}

}  // namespace

ListDesk::behavior_type ListDesk::make_behavior() {
    return {
        [this](list_atom, const ListJobPtr& job) {
            const Tenant& tenant = job->wanted.tenant;
            if (!places_.has_room(tenant, 1, waiting_.size())) {
                return job->exchange->send_error(
                    make_error(ErrorCode::overloaded, "too many lists are asked for; ask again later"));
            }
            places_.take(tenant);
            waiting_.push(++ids_, job, tenant, 0);
            next();
        },
        [this](pump_atom) {
            busy_ = false;
            next();
        },
    };
}

void ListDesk::on_exit() {
    front_ = nullptr;
    waiting_ = {};
}

void ListDesk::next() {
    if (busy_ || waiting_.empty()) return;
    busy_ = true;
    const ListJobPtr job = waiting_.serve(waiting_.front_id(), 1.0);
    places_.give_back(job->wanted.tenant);
    when_answered(
        request(front_, front_answers_within, list_atom::value, job->wanted),
        [this, job](const ConversationPagePtr& page) {
            job->exchange->send_json(200, body_of(*page));
            done();
        },
        [this, job](const caf::error& error) {
            job->exchange->send_error(from_caf(error, "the list of conversations"));
            done();
        });
}

void ListDesk::done() {
    const auto now = clock().now();
    if (load_.turns > 0) talked_at_ = now;
    if (talked_at_ && now - *talked_at_ < talk_lasts) return delayed_send(this, rest, pump_atom::value);
    busy_ = false;
    next();
}

}  // namespace rondo
