// keys/claim and the small calls of the host; what other servers ask of our users' keys.
#include "actors/key_desk.hpp"
#include "messages/ids.hpp"

#include <algorithm>

namespace ranvier {
namespace {

using namespace std::chrono_literals;
constexpr auto read_timeout = 10s;
constexpr auto write_timeout = 60s;
constexpr auto beyond_answer = 200ms;

void not_in_time(const std::shared_ptr<http_exchange>& exchange) {
  exchange->respond_error(503, "M_UNKNOWN", "no answer from the database in time; try again", {{"Retry-After", "5"}});
}

std::string parameter(const http_exchange& exchange, const char* name) {
  const auto found = exchange.route.query.find(name);
  return found == exchange.route.query.end() ? std::string() : found->second;
}

std::string list_of(const std::vector<std::string>& names) {
  std::string out = "[";
  for (const auto& name : names)
    out += (out.size() > 1 ? "," : "") + json_string(name);
  return out + "]";
}

} // namespace

// --- claims of the host ---------------------------------------------------------------------------------------------

void key_desk::begin_claim(const local<incoming>& in, std::shared_ptr<void> held) {
  const auto read = read_claim(in->document->root());
  if (!read.problem.empty()) return in->exchange->respond_error(400, "M_BAD_JSON", read.problem);
  auto one = std::make_shared<claim>();
  one->exchange = in->exchange;
  one->held = std::move(held);
  claim_own_keys ours;
  std::map<std::string, keys_claimed> theirs;
  for (const auto& [user, devices] : read.wanted)
    if (is_ours(user)) ours.wanted[user] = devices;
    else theirs[std::string(server_of(user))][user] = devices;
  if (!ours.wanted.empty()) claim_ours(one, std::move(ours));
  for (const auto& [server, wanted] : theirs)
    claim_theirs(one, server, wanted, std::max<std::int64_t>(1, read.timeout_ms));
  claim_step_done(one);
}

void key_desk::claim_ours(const claim_ptr& one, claim_own_keys wanted) {
  ++one->outstanding;
  auto failed = [this, one](const std::string& why) {
    one->failures[parts_.settings->server_name] = "keys of our own users can't be handed out now: " + why;
    claim_step_done(one);
  };
  self_->request(parts_.ledger, write_timeout, make_local(std::move(wanted)))
      .then(
          [this, one, failed](const local<claimed_own_keys>& claimed) {
            if (!claimed->ok) return failed(claimed->problem);
            for (const auto& [user, devices] : claimed->keys)
              one->keys[user] = devices;
            claim_step_done(one);
          },
          [failed](const caf::error&) { failed("no answer from the database in time"); });
}

/// Q7: never sent twice once it may have arrived. A user waits, so it may be the probe of a closed gate (DESIGN 5).
void key_desk::claim_theirs(const claim_ptr& one, const std::string& server, const keys_claimed& wanted,
                            std::int64_t timeout_ms) {
  ++one->outstanding;
  pull order;
  order.destination = server;
  order.method = "POST";
  order.uri = "/_matrix/federation/v1/user/keys/claim";
  order.body = shared_text(claim_text(wanted));
  order.timeout_ms = timeout_ms;
  order.hasty = order.timeout_ms < pull::shortest_patience_ms;
  order.may_probe = true;
  order.repeatable = false;
  self_->request(parts_.supervisor, std::chrono::milliseconds(timeout_ms) + beyond_answer, order)
      .then(
          [this, one, server, wanted](const pulled& got) {
            if (got.status == 200) {
              auto answer = read_claim_answer(got.body.view(), wanted);
              if (!answer.problem.empty()) one->failures[server] = answer.problem;
              one->keys.merge(answer.keys);
            } else if (got.status != 0) {
              one->failures[server] = "it answered " + std::to_string(got.status);
            } else {
              one->failures[server] = got.problem.empty() ? "it didn't answer" : got.problem;
            }
            claim_step_done(one);
          },
          [this, one, server](const caf::error&) {
            one->failures[server] = "no answer came within the time given";
            claim_step_done(one);
          });
}

void key_desk::claim_step_done(const claim_ptr& one) {
  if (--one->outstanding == 0) one->exchange->respond(200, claim_result_text(one->keys, &one->failures));
}

// --- the host's small calls -----------------------------------------------------------------------------------------

void key_desk::counts(const std::shared_ptr<http_exchange>& exchange) {
  const auto user = parameter(*exchange, "user_id"), device = parameter(*exchange, "device_id");
  if (!is_user_id(user) || !is_ours(user))
    return exchange->respond_error(400, "M_INVALID_PARAM", "'user_id' must be a user of this server");
  if (device.empty()) return exchange->respond_error(400, "M_MISSING_PARAM", "say which device: &device_id=...");
  self_->request(parts_.reader(), read_timeout, make_local(count_one_time_keys{user, device}))
      .then(
          [exchange](const local<one_time_key_counts>& counts) {
            std::string left;
            for (const auto& [algorithm, count] : counts->left)
              left += (left.empty() ? "" : ",") + json_string(algorithm) + ":" + std::to_string(count);
            exchange->respond(200, R"({"counts":{)" + left + R"(},"unused_fallback_key_types":)" +
                                       list_of(counts->unused_fallback_types) + "}");
          },
          [exchange](const caf::error&) { not_in_time(exchange); });
}

void key_desk::changes(const std::shared_ptr<http_exchange>& exchange) {
  const auto user = parameter(*exchange, "user_id");
  const auto from = parse_integer(parameter(*exchange, "from")), to = parse_integer(parameter(*exchange, "to"));
  if (!is_user_id(user) || !is_ours(user))
    return exchange->respond_error(400, "M_INVALID_PARAM", "'user_id' must be a user of this server");
  if (!from || *from < 0 || !to || *to < *from)
    return exchange->respond_error(400, "M_INVALID_PARAM",
                                   "'from' and 'to' must be stream positions, 'to' not before 'from'");
  self_->request(parts_.reader(), read_timeout, make_local(find_device_changes{user, *from, *to}))
      .then(
          [exchange](const local<device_changes>& found) {
            exchange->respond(200, R"({"changed":)" + list_of(found->changed) + R"(,"left":)" + list_of(found->left) +
                                       R"(,"limited":)" + (found->limited ? "true" : "false") + "}");
          },
          [exchange](const caf::error&) { not_in_time(exchange); });
}

// --- what other servers ask -----------------------------------------------------------------------------------------

void key_desk::serve(const local<incoming>& in) {
  const auto& name = in->exchange->route.name;
  if (name == "user_devices") return serve_devices(in->exchange);
  if (name == "keys_query") return serve_query(in);
  serve_claim(in);
}

/// Q1.
void key_desk::serve_devices(const std::shared_ptr<http_exchange>& exchange) {
  const auto user = exchange->route.segments.at("userId");
  if (!is_user_id(user)) return exchange->respond_error(400, "M_INVALID_PARAM", "this is not a user id");
  if (!is_ours(user)) return exchange->respond_error(404, "M_NOT_FOUND", "this is not a user of this server");
  self_->request(parts_.reader(), read_timeout, make_local(read_own_list{user}))
      .then(
          [exchange](const local<own_list>& list) {
            if (list->known) exchange->respond(200, list->json);
            else exchange->respond_error(404, "M_NOT_FOUND", "this server has no such user");
          },
          [exchange](const caf::error&) { not_in_time(exchange); });
}

/// Q2, Q3; who isn't ours is passed over.
void key_desk::serve_query(const local<incoming>& in) {
  const auto exchange = in->exchange;
  auto read = read_query(in->document->root());
  if (!read.problem.empty()) return exchange->respond_error(400, "M_BAD_JSON", read.problem);
  std::erase_if(read.users, [this](const auto& one) { return !is_ours(one.first); });
  const auto users = read.users;
  self_->request(parts_.reader(), read_timeout, make_local(find_known_keys{users, "", true}))
      .then(
          [exchange, users](const local<known_keys>& known) {
            query_result result;
            for (const auto& [user, keys] : known->users)
              if (keys.state == list_state::own) result.add(user, keys, users.at(user));
            exchange->respond(200, result.text(false));
          },
          [exchange](const caf::error&) { not_in_time(exchange); });
}

/// Q4-Q6.
void key_desk::serve_claim(const local<incoming>& in) {
  const auto exchange = in->exchange;
  auto read = read_claim(in->document->root());
  if (!read.problem.empty()) return exchange->respond_error(400, "M_BAD_JSON", read.problem);
  std::erase_if(read.wanted, [this](const auto& one) { return !is_ours(one.first); });
  if (read.wanted.empty()) return exchange->respond(200, claim_result_text({}, nullptr));
  self_->request(parts_.ledger, write_timeout, make_local(claim_own_keys{std::move(read.wanted)}))
      .then(
          [exchange](const local<claimed_own_keys>& claimed) {
            if (!claimed->ok)
              return exchange->respond_error(503, "M_UNKNOWN", "keys can't be handed out now: " + claimed->problem,
                                             {{"Retry-After", "30"}});
            exchange->respond(200, claim_result_text(claimed->keys, nullptr));
          },
          [exchange](const caf::error&) { not_in_time(exchange); });
}

} // namespace ranvier
