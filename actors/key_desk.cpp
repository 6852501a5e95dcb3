// keys/query of the host; what the key endpoints have in common.
#include "actors/key_desk.hpp"

#include "messages/ids.hpp"

#include <algorithm>

namespace ranvier {
namespace {

using namespace std::chrono_literals;
constexpr auto read_timeout = 10s;
constexpr auto beyond_answer = 200ms; ///< a destination answers by itself within the time that it was given
constexpr std::int64_t max_answer_bytes = 32 << 20;
constexpr auto near_enough = 250ms; ///< whose time ends so much earlier may wait for another's request

void not_in_time(const std::shared_ptr<http_exchange>& exchange) {
  exchange->respond_error(503, "M_UNKNOWN", "no answer from the database in time; try again", {{"Retry-After", "5"}});
}

/// Why a pull gave nothing.
std::string why_not(const pulled& got) {
  if (got.status != 0) return "it answered " + std::to_string(got.status);
  return got.problem.empty() ? "it didn't answer" : got.problem;
}

} // namespace

bool key_desk::is_ours(const std::string& user) const { return server_of(user) == parts_.settings->server_name; }

std::int64_t key_desk::left_ms(clock_point deadline) const {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - self_->clock().now()).count();
  return std::max<std::int64_t>(1, left);
}

void key_desk::take(const local<incoming>& in, std::shared_ptr<void> held) {
  const auto& name = in->exchange->route.name;
  if (name == "keys_query") return begin_query(in, std::move(held));
  if (name == "keys_claim") return begin_claim(in, std::move(held));
  if (name == "one_time_key_counts") return counts(in->exchange);
  changes(in->exchange);
}

bool key_desk::serves(const std::string& route) {
  return route == "keys_query" || route == "keys_claim" || route == "one_time_key_counts" ||
         route == "device_list_changes";
}

void key_desk::begin_query(const local<incoming>& in, std::shared_ptr<void> held) {
  auto read = read_query(in->document->root());
  if (!read.problem.empty()) return in->exchange->respond_error(400, "M_BAD_JSON", read.problem);
  auto one = std::make_shared<query>();
  one->exchange = in->exchange;
  one->held = std::move(held);
  one->users = std::move(read.users);
  one->deadline = self_->clock().now() + std::chrono::milliseconds(read.timeout_ms);
  const auto requester = in->exchange->route.query.find("requester");
  if (requester != in->exchange->route.query.end()) {
    if (!is_user_id(requester->second) || !is_ours(requester->second))
      return in->exchange->respond_error(400, "M_INVALID_PARAM", "'requester' must be a user of this server");
    one->requester = requester->second;
  }
  self_->request(parts_.reader(), read_timeout, make_local(find_known_keys{one->users, one->requester, false}))
      .then([this, one](const local<known_keys>& known) { sort_users(one, *known); },
            [one](const caf::error&) { not_in_time(one->exchange); });
}

/// Who is answered now, whose list is fetched, who is asked for.
void key_desk::sort_users(const query_ptr& one, const known_keys& known) {
  std::map<std::string, std::vector<std::string>> to_refresh;
  std::map<std::string, devices_asked> to_ask;
  for (const auto& [user, devices] : one->users) {
    const auto found = known.users.find(user);
    const auto state = found == known.users.end() ? list_state::not_shared : found->second.state;
    if (state == list_state::own || state == list_state::fresh) {
      one->result.add(user, found->second, devices);
    } else if (is_ours(user)) {
      continue; // nobody of ours: absent
    } else if (state == list_state::stale || state == list_state::not_held) {
      to_refresh[std::string(server_of(user))].push_back(user);
      one->again[user] = devices;
      if (state == list_state::stale) one->had.insert(user);
    } else {
      to_ask[std::string(server_of(user))][user] = devices;
    }
  }
  for (const auto& [server, users] : to_refresh)
    refresh(one, server, users);
  for (const auto& [server, users] : to_ask)
    ask_directly(one, server, users);
  query_step_done(one);
}

void key_desk::refresh(const query_ptr& one, const std::string& server, const std::vector<std::string>& users) {
  ++one->outstanding;
  refresh_lists wanted;
  wanted.destination = server;
  wanted.users = users;
  wanted.within_ms = left_ms(one->deadline);
  self_->request(parts_.supervisor, std::chrono::milliseconds(wanted.within_ms) + beyond_answer, wanted)
      .then([this, one, server, users](const refreshed& outcome) { refreshed_users(one, server, users, outcome); },
            [this, one, server](const caf::error&) {
              one->result.fail(server, "no answer came within the time given");
              query_step_done(one);
            });
}

/// F2: that a server doesn't know a user is no failure, unless we have a list that may be wrong now.
void key_desk::refreshed_users(const query_ptr& one, const std::string& server, const std::vector<std::string>& users,
                               const refreshed& outcome) {
  for (const auto& user : users) {
    const auto found = outcome.failed.find(user);
    if (found == outcome.failed.end()) continue;
    const auto& unknown = outcome.unknown;
    if (std::find(unknown.begin(), unknown.end(), user) != unknown.end() && !one->had.contains(user)) continue;
    one->result.fail(server, outcome.server_problem.empty() ? found->second : outcome.server_problem);
  }
  if (outcome.failed.empty() && !outcome.server_problem.empty()) one->result.fail(server, outcome.server_problem);
  query_step_done(one);
}

/// One request a server; those for whom one is on its way, that ends in time, wait for that.
void key_desk::ask_directly(const query_ptr& one, const std::string& server, const devices_asked& users) {
  devices_asked whole, some;
  for (const auto& [user, devices] : users) {
    const auto known = flights_.find(user);
    if (!devices.empty()) {
      some[user] = devices;
    } else if (known == flights_.end() || known->second->deadline > one->deadline + near_enough) {
      whole[user] = devices;
    } else {
      ++one->outstanding;
      known->second->waiting.push_back([this, one, server, user = user](const query_answer& answer) {
        if (!answer.problem.empty()) one->result.fail(server, answer.problem);
        if (const auto found = answer.users.find(user); found != answer.users.end())
          one->result.add(user, found->second);
        query_step_done(one);
      });
    }
  }
  // Single devices of a user aren't what others wait for.
  if (some.empty()) return whole.empty() ? void() : fly(one, server, whole, true);
  some.insert(whole.begin(), whole.end());
  fly(one, server, some, false);
}

void key_desk::fly(const query_ptr& one, const std::string& server, const devices_asked& users, bool shared) {
  auto mine = std::make_shared<flight>();
  mine->deadline = one->deadline;
  ++one->outstanding;
  mine->waiting.push_back([this, one, server, users](const query_answer& answer) {
    if (!answer.problem.empty()) one->result.fail(server, answer.problem);
    for (const auto& [user, keys] : answer.users)
      one->result.add(user, keys, users.at(user));
    query_step_done(one);
  });
  if (shared)
    for (const auto& [user, devices] : users)
      flights_[user] = mine;
  pull order;
  order.destination = server;
  order.method = "POST";
  order.uri = "/_matrix/federation/v1/user/keys/query";
  order.body = shared_text(query_text(users));
  order.timeout_ms = left_ms(one->deadline);
  order.hasty = order.timeout_ms < pull::shortest_patience_ms;
  order.max_answer_bytes = max_answer_bytes;
  self_->request(parts_.supervisor, std::chrono::milliseconds(order.timeout_ms) + beyond_answer, order)
      .then(
          [this, users, shared, mine](const pulled& got) {
            query_answer answer;
            if (got.status == 200) answer = read_query_answer(got.body.view(), users);
            else answer.problem = why_not(got);
            landed(users, shared, mine, answer);
          },
          [this, users, shared, mine](const caf::error&) {
            query_answer none;
            none.problem = "no answer came within the time given";
            landed(users, shared, mine, none);
          });
}

void key_desk::landed(const devices_asked& users, bool shared, const std::shared_ptr<flight>& one,
                      const query_answer& answer) {
  if (shared)
    for (const auto& [user, devices] : users)
      if (const auto found = flights_.find(user); found != flights_.end() && found->second == one)
        flights_.erase(found);
  for (const auto& tell : std::exchange(one->waiting, {}))
    tell(answer);
}

/// Called once for each answer that it waits for, and once for its beginning. Then what was fetched is read.
void key_desk::query_step_done(const query_ptr& one) {
  if (--one->outstanding > 0) return;
  if (one->again.empty()) return one->exchange->respond(200, one->result.text());
  const auto again = std::exchange(one->again, {});
  one->outstanding = 1;
  self_->request(parts_.reader(), read_timeout, make_local(find_known_keys{again, one->requester, false}))
      .then([this, one, again](const local<known_keys>& known) { add_fetched(one, again, *known); },
            [one](const caf::error&) { not_in_time(one->exchange); });
}

/// A list that turned out to be too large isn't kept: such a user is asked for like one of whom nothing is kept.
void key_desk::add_fetched(const query_ptr& one, const devices_asked& users, const known_keys& known) {
  std::map<std::string, devices_asked> to_ask;
  for (const auto& [user, keys] : known.users)
    if (keys.state == list_state::fresh || keys.state == list_state::stale) one->result.add(user, keys, users.at(user));
    else if (keys.state == list_state::too_large) to_ask[std::string(server_of(user))][user] = users.at(user);
  for (const auto& [server, wanted] : to_ask)
    ask_directly(one, server, wanted);
  query_step_done(one);
}

} // namespace ranvier
