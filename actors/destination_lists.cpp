// Device lists of this server's users: which must be fetched, when, and who waits for them (DESIGN section 7).
#include "actors/destination_core.hpp"
#include "actors/list_answer.hpp"
#include "actors/log.hpp"
#include "messages/ids.hpp"
#include "messages/x_matrix.hpp"

namespace ranvier {
namespace {

using namespace std::chrono_literals;
constexpr auto store_timeout = 30s;
constexpr std::size_t most_refreshes = 1'000;
const std::string request_shown = "GET /user/devices";

/// An answer that is too long is the user's affair, not the server's.
bool too_long(const http_answer& answer) {
  return answer.status == 0 && !answer.cancelled && answer.problem.starts_with("the answer is larger than");
}

} // namespace

// --- who wants them -------------------------------------------------------------------------------------------------

caf::result<refreshed> destination_core::refresh(const refresh_lists& wanted) {
  idle_since_ms_ = now_ms();
  auto promise = self_->make_response_promise<refreshed>();
  refreshed refused;
  if (finishing_) refused.server_problem = "the engine is stopping";
  else if (askers_.size() + looking_up_ + when_loaded_.size() >= most_refreshes)
    refused.server_problem = "too many wait for device lists of " + birth_.name;
  if (!refused.server_problem.empty()) {
    for (const auto& user : wanted.users)
      refused.failed[user] = refused.server_problem;
    return refused;
  }
  const auto deadline_ms = now_ms() + wanted.within_ms;
  if (gate_) look_up(wanted, deadline_ms, promise);
  else when_loaded_.push_back([this, wanted, deadline_ms, promise] { look_up(wanted, deadline_ms, promise); });
  return promise;
}

/// Whoever asked may have read before the last fetch was stored, so what is fresh by now isn't fetched again.
void destination_core::look_up(const refresh_lists& wanted, std::int64_t deadline_ms,
                               caf::typed_response_promise<refreshed> promise) {
  find_known_keys question;
  std::vector<std::string> certain;
  for (const auto& user : wanted.users)
    if (wanted.by_hand || resyncs_.wants(user)) certain.push_back(user);
    else question.users[user] = {""}; // no device: only how its list stands
  if (question.users.empty()) return want_lists(certain, wanted.by_hand, deadline_ms, promise);
  ++looking_up_;
  self_->request(parts_->reader(birth_.name), store_timeout, make_local(std::move(question)))
      .then(
          [this, certain, wanted, deadline_ms, promise](const local<known_keys>& known) {
            --looking_up_;
            auto users = certain;
            for (const auto& [user, found] : known->users)
              if (found.state == list_state::stale || found.state == list_state::not_held) users.push_back(user);
            want_lists(users, wanted.by_hand, deadline_ms, promise);
          },
          [this, wanted, deadline_ms, promise](const caf::error&) {
            --looking_up_;
            want_lists(wanted.users, wanted.by_hand, deadline_ms, promise);
          });
}

void destination_core::want_lists(const std::vector<std::string>& users, bool by_hand, std::int64_t deadline_ms,
                                  const caf::typed_response_promise<refreshed>& promise) {
  askers_.emplace(resyncs_.want(users, deadline_ms, by_hand, now()), promise);
  if (finishing_) return end_refreshes("the engine is stopping");
  step();
}

void destination_core::lists_marked(const log_entry& entry) {
  resyncs_.mark(entry.subject, entry.marks, now());
  step();
}

void destination_core::answer_askers() {
  for (auto& [who, answer] : resyncs_.take_answers(now())) {
    auto found = askers_.find(who);
    if (found == askers_.end()) continue;
    found->second.deliver(std::move(answer));
    askers_.erase(found);
  }
}

void destination_core::end_refreshes(const std::string& why) {
  for (auto& [who, promise] : std::exchange(askers_, {})) {
    refreshed refused;
    refused.server_problem = why;
    promise.deliver(std::move(refused));
  }
}

// --- the requests ---------------------------------------------------------------------------------------------------

/// Part of step(): asks for as many lists as may be asked for now.
void destination_core::fetch_lists() {
  const auto at = now();
  while (gate_->may_pull(at) != pass::no) {
    const auto user = resyncs_.next(at);
    if (!user) break;
    start_fetch(*user, at);
  }
  // Nobody waits for a server that isn't asked; one that is being tried may be there in a moment.
  if (resyncs_.waited_for() && gate_->may_pull(at) == pass::no && !gate_->probing()) resyncs_.barred(closed_sentence());
  if (auto unmarked = resyncs_.take_unmarked(); !unmarked.empty())
    mark_lists(std::move(unmarked), "its list was wanted while its server couldn't be asked");
  answer_askers();
}

void destination_core::start_fetch(const std::string& user, moment at) {
  list_fetch going{user, resyncs_.begin(user, at), gate_->began(lane::pull, at), at.wall_ms};
  http_call call;
  call.id = ++last_call_;
  call.destination = birth_.name;
  call.method = "GET";
  call.uri = "/_matrix/federation/v1/user/devices/" + percent_encode(user);
  call.authorization =
      x_matrix_header(call.method, call.uri, parts_->settings.server_name, birth_.name, "", *parts_->key);
  call.probe = going.pass.probe;
  call.timeout_ms = parts_->settings.delivery.request_timeout_ms;
  call.max_answer_bytes = max_list_answer_bytes;
  fetches_.emplace(call.id, std::move(going));
  order(std::move(call));
}

/// False if the answer is to something else.
bool destination_core::list_answered(const http_answer& answer) {
  auto found = fetches_.find(answer.id);
  if (found == fetches_.end()) return false;
  const auto going = std::move(found->second);
  fetches_.erase(found);
  idle_since_ms_ = now_ms();
  if (answer.cancelled) {
    judge_pull(answer, going.pass, request_shown, 0);
    resyncs_.cut(going.user);
    step();
    return true;
  }
  read_list read;
  read.list.user = going.user;
  if (too_long(answer)) {
    follow(gate_->proved_nothing(going.pass, now()));
    read.how = fetch_end::too_large;
    read.list.is = save_device_list::outcome::too_large;
    read.list.problem = answer.problem;
  } else if (const auto said =
                 judge_pull(answer, going.pass, request_shown, parts_->settings.delivery.request_timeout_ms);
             said.is == verdict::failure) {
    read.list.problem = said.why.message;
  } else {
    read = read_device_list(going.user, answer.status, answer.body.view(),
                            std::size_t(parts_->settings.limits.devices_per_user));
  }
  const bool was_open = resyncs_.lane_open();
  const auto outcome = resyncs_.ended(going.user, read.how, read.list.problem, now());
  if (was_open != resyncs_.lane_open())
    log_info(was_open ? "device_lists_refused" : "device_lists_given",
             {{"destination", birth_.name}, {"user", going.user}, {"why", read.list.problem}});
  read.list.marks = going.marks;
  read.list.began_ms = going.began_ms;
  read.list.failures = outcome.failures;
  read.list.next_attempt_ms = outcome.next_attempt_ms;
  if (outcome.mark) {
    mark_lists({going.user}, "its list was wanted and its server couldn't be asked");
    resyncs_.stored(going.user, {}, now());
  } else {
    store_list(std::move(read.list));
  }
  step();
  return true;
}

void destination_core::store_list(save_device_list list) {
  const auto user = list.user;
  self_->request(parts_->ledger, store_timeout, make_local(std::move(list)))
      .then(
          [this, user](const local<device_list_saved>& saved) {
            if (!saved->ok) log_warning("device_list_not_stored", {{"user", user}, {"why", saved->problem}});
            resyncs_.stored(user, *saved, now());
            step();
          },
          [this, user](const caf::error& problem) {
            device_list_saved unknown;
            unknown.ok = false;
            unknown.problem = self_->system().render(problem);
            log_warning("device_list_not_stored", {{"user", user}, {"why", unknown.problem}});
            resyncs_.stored(user, unknown, now());
            step();
          });
}

void destination_core::mark_lists(std::vector<std::string> users, const std::string& cause) {
  self_->request(parts_->ledger, store_timeout, make_local(mark_stale{std::move(users), cause}))
      .then([](const done&) {}, // it comes as an entry
            [this](const caf::error& problem) {
              log_warning("lists_not_marked", {{"destination", birth_.name}, {"why", self_->system().render(problem)}});
            });
}

} // namespace ranvier
