#include "actors/join_desk.hpp"

#include "actors/room_state_call.hpp"
#include "messages/ids.hpp"
#include "messages/joins.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

namespace ranvier {
namespace {

using namespace std::chrono_literals;
constexpr auto read_timeout = 10s;
constexpr auto order_timeout = 70s; ///< an end of a partial join is written down before it is answered
constexpr std::size_t most_candidates = 50;
constexpr std::int64_t longest_wait_ms = 600'000;

void not_in_time(const std::shared_ptr<http_exchange>& exchange) {
  exchange->respond_error(503, "M_UNKNOWN", "no answer from the database in time; try again", {{"Retry-After", "5"}});
}

std::string list_of(const std::vector<std::string>& names) {
  std::string out = "[";
  for (const auto& name : names)
    out += (out.size() > 1 ? "," : "") + json_string(name);
  return out + "]";
}

std::string room_json(const std::string& room_id, const found_room& room, const std::string& partial_join) {
  std::string members;
  for (const auto& [user, membership] : room.members)
    members += (members.empty() ? "" : ",") + json_string(user) + ":" + json_string(membership);
  return R"({"room_id":)" + json_string(room_id) + R"(,"room_version":)" +
         (room.version.empty() ? "null" : json_string(room.version)) + R"(,"partial":)" +
         (room.partial ? "true" : "false") + R"(,"members":{)" + members + R"(},"servers":)" + list_of(room.servers) +
         R"(,"partial_join":)" + partial_join + "}";
}

/// The room's entry of what describe_joins said, or null.
std::string entry_of(const std::string& described, const std::string& room_id) {
  const auto view = nlohmann::json::parse(described, nullptr, false);
  if (view.is_object() && view.contains("partial_joins") && view["partial_joins"].is_array())
    for (const auto& one : view["partial_joins"])
      if (one.is_object() && one.value("room_id", "") == room_id)
        return one.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return "null";
}

/// Candidates in the host's order, each once; a wrong one is named.
std::string read_via(simdjson::dom::element body, const std::string& ours, std::vector<std::string>& out) {
  simdjson::dom::element member;
  if (body["via"].get(member) != simdjson::SUCCESS || member.is_null()) return {};
  simdjson::dom::array names;
  if (member.get(names) != simdjson::SUCCESS) return "'via' must be a list of server names";
  for (auto name : names) {
    std::string_view text;
    if (name.get(text) != simdjson::SUCCESS || !is_server_name(text)) return "'via' must be a list of server names";
    if (text != ours && std::find(out.begin(), out.end(), text) == out.end()) out.emplace_back(text);
  }
  if (out.size() > most_candidates) out.resize(most_candidates);
  return {};
}

} // namespace

join_request read_join_request(simdjson::dom::element body, const std::string& room_id, const std::string& ours) {
  join_request out;
  auto wrong = [&out](std::string sentence, std::string errcode = "M_BAD_JSON") {
    out.problem = std::move(sentence);
    out.errcode = std::move(errcode);
    return out;
  };
  if (!body.is_object()) return wrong("the body must be a JSON object");
  if (!is_room_id(room_id)) return wrong("the path must name a room: '!' and up to 254 bytes", "M_INVALID_PARAM");
  const auto user = string_member(body, "user_id").value_or("");
  if (!is_user_id(user) || server_of(user) != ours)
    return wrong("'user_id' must be a user of " + ours, "M_INVALID_PARAM");
  out.wish = {room_id, std::string(user), "", ours};
  simdjson::dom::element member;
  if (body["content"].get(member) == simdjson::SUCCESS && !member.is_null()) {
    if (!member.is_object()) return wrong("'content' must be an object: what is added to the member event's content");
    out.wish.content = canonical_json(member, numbers::lenient);
  }
  if (body["partial"].get(member) == simdjson::SUCCESS && !member.is_null() &&
      member.get(out.partial) != simdjson::SUCCESS)
    return wrong("'partial' must be true or false");
  if (auto problem = read_via(body, ours, out.via); !problem.empty()) return wrong(std::move(problem));
  // Before room version 12 the room's name tells a server; none may be in the room any more there.
  const auto named = server_of(room_id);
  if (out.via.empty() && is_server_name(named) && named != ours) out.via.emplace_back(named);
  if (out.via.empty()) return wrong("'via' must name servers to join through", "M_MISSING_PARAM");
  return out;
}

bool join_desk::serves(const std::string& route) {
  return route == "join" || route == "room_state" || route.starts_with("partial_join_");
}

bool join_desk::is_for_residents(const std::string& route) { return route == "resident"; }

void join_desk::take(const local<incoming>& in, std::shared_ptr<void> held) {
  const auto& route = in->exchange->route.name;
  if (route == "join") join(in, std::move(held));
  else if (route == "room_state") state(in->exchange, std::move(held));
  else order(in, std::move(held));
}

void join_desk::join(const local<incoming>& in, std::shared_ptr<void> held) {
  const auto& exchange = in->exchange;
  auto wanted =
      read_join_request(in->document->root(), exchange->route.segments.at("room_id"), parts_.settings->server_name);
  if (!wanted.problem.empty()) return exchange->respond_error(400, wanted.errcode, wanted.problem);
  spawn_join_attempt(self_->system(), parts_,
                     {std::move(wanted.wish), std::move(wanted.via), wanted.partial, exchange, std::move(held)});
}

void join_desk::state(const std::shared_ptr<http_exchange>& exchange, std::shared_ptr<void> held) {
  std::int64_t wait_ms = 0;
  if (const auto given = exchange->route.query.find("wait_ms"); given != exchange->route.query.end()) {
    const auto& text = given->second;
    const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), wait_ms);
    if (bad != std::errc() || end != text.data() + text.size() || wait_ms < 0)
      return exchange->respond_error(400, "M_INVALID_PARAM", "'wait_ms' must be a number of milliseconds");
  }
  waiting_.remove_if([](const auto& one) { return one.first->answered(); });
  auto call = spawn_room_state_call(self_->system(), parts_, exchange, exchange->route.segments.at("room_id"),
                                    std::min(wait_ms, longest_wait_ms), std::move(held));
  if (wait_ms > 0) waiting_.emplace_back(exchange, std::move(call));
}

void join_desk::advanced() {
  if (waiting_.empty()) return;
  waiting_.remove_if([](const auto& one) { return one.first->answered(); });
  for (const auto& [exchange, call] : waiting_)
    caf::anon_send(call, stream_advanced{});
}

void join_desk::order(const local<incoming>& in, std::shared_ptr<void> held) {
  const auto& exchange = in->exchange;
  const std::string verb = exchange->route.name == "partial_join_retry" ? "retry" : "abandon";
  operate_join word{exchange->route.segments.at("room_id"), verb, "", "host"};
  simdjson::dom::element reason;
  if (in->document && in->document->root()["reason"].get(reason) == simdjson::SUCCESS && !reason.is_null()) {
    if (!reason.is_string()) return exchange->respond_error(400, "M_INVALID_PARAM", "'reason' must be a string");
    word.reason = std::string(std::string_view(reason));
  }
  self_->request(parts_.supervisor, order_timeout, word)
      .then(
          [exchange, held](const done& outcome) {
            if (outcome.ok) exchange->respond(200, R"({"done":true})");
            else exchange->respond_error(404, "M_NOT_FOUND", outcome.problem);
          },
          [exchange, held](const caf::error&) { not_in_time(exchange); });
}

void join_desk::room(const std::shared_ptr<http_exchange>& exchange) {
  const auto room_id = exchange->route.segments.at("room_id");
  self_->request(parts_.reader(), read_timeout, make_local(find_room{room_id, true}))
      .then(
          [this, exchange, room_id](const local<found_room>& found) {
            if (!found->known)
              return exchange->respond_error(404, "M_NOT_FOUND", "no roster of this room was ever fed");
            if (!found->partial) return exchange->respond(200, room_json(room_id, *found, "null"));
            self_->request(parts_.supervisor, read_timeout, make_local(describe_joins{room_id}))
                .then(
                    [exchange, room_id, found](const description& d) {
                      exchange->respond(200, room_json(room_id, *found, entry_of(d.json, room_id)));
                    },
                    [exchange](const caf::error&) { not_in_time(exchange); });
          },
          [exchange](const caf::error&) { not_in_time(exchange); });
}

/// P8: we don't know who may join, so nobody is let in through us. Of other rooms the host is the resident.
void join_desk::serve(const std::shared_ptr<http_exchange>& exchange, const std::function<void()>& known) {
  const auto room_id = exchange->route.segments.at("room_id");
  self_->request(parts_.reader(), read_timeout, make_local(find_room{room_id}))
      .then(
          [exchange, known](const local<found_room>& found) {
            if (found->partial)
              return exchange->respond_error(404, "M_NOT_FOUND",
                                             "this server doesn't know the whole room yet; ask another that is in it");
            known();
          },
          [exchange](const caf::error&) { not_in_time(exchange); });
}

} // namespace ranvier
