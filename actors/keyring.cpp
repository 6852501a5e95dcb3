#include "actors/keyring.hpp"

#include "actors/actor_facts.hpp"
#include "actors/key_document.hpp"
#include "actors/log.hpp"
#include "messages/ids.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

namespace ranvier {
namespace {

using namespace std::chrono_literals;
constexpr auto read_timeout = 10s;
constexpr std::int64_t fetch_timeout_ms = 20'000;
constexpr std::size_t most_servers_in_memory = 20'000;
// Somebody who makes up key ids under another's name must not make us ask that server again and again (K10): so many
// fetches at once, then one in this time.
constexpr double most_fetches_at_once = 3;
constexpr double fetch_refill_ms = 60'000;
constexpr std::size_t most_waiters_per_server = 2'000;

struct holder;
using self_ptr = keyring_actor::stateful_pointer<holder>;

class keyring {
public:
  keyring(self_ptr self, keyring_parts parts);
  keyring_actor::behavior_type make_behavior();

private:
  struct waiter {
    get_key asked;
    caf::typed_response_promise<got_key> answer;
  };
  struct server_keys {
    bool loaded = false, busy = false;
    std::vector<remote_key> known;
    std::vector<waiter> waiting;
    double fetches_left = most_fetches_at_once;
    std::int64_t refilled_ms = 0;
  };

  caf::result<got_key> get(const get_key& asked);
  void work_on(const std::string& server);
  void load(const std::string& server);
  void fetch(const std::string& server);
  void fetched(const std::string& server, const pulled& answer);
  void answer_all(const std::string& server, const std::string& problem);
  bool may_fetch_now(server_keys& entry);
  void make_room();

  self_ptr self_;
  keyring_parts parts_;
  actor_facts facts_;
  std::map<std::string, server_keys> servers_;
  std::uint64_t fetches_ = 0, failed_fetches_ = 0;
};

struct holder {
  holder() = default;
  static inline const char* name = "keyring";
  std::optional<keyring> core;
};

keyring::keyring(self_ptr self, keyring_parts parts)
    : self_(self)
    , parts_(std::move(parts))
    , facts_(self, "keyring", "", "engine", parts_.wall_ms()) {}

caf::result<got_key> keyring::get(const get_key& asked) {
  auto& entry = servers_[asked.server];
  if (const auto* key = usable_key(entry.known, asked.key_id, asked.valid_at_ms, asked.for_event))
    return got_key{key->key, ""};
  if (!is_server_name(asked.server)) return got_key{"", asked.server + " is not a server name"};
  if (entry.waiting.size() >= most_waiters_per_server)
    return got_key{"", "too many requests wait for the keys of " + asked.server};
  auto promise = self_->make_response_promise<got_key>();
  entry.waiting.push_back({asked, promise});
  work_on(asked.server);
  return promise;
}

/// One step at a time per server: storage first, then the server itself.
void keyring::work_on(const std::string& server) {
  auto& entry = servers_[server];
  if (entry.busy || entry.waiting.empty()) return;
  entry.busy = true;
  if (entry.loaded) fetch(server);
  else load(server);
}

void keyring::load(const std::string& server) {
  auto next = [this, server](std::vector<remote_key> keys) {
    auto& entry = servers_[server];
    entry.loaded = true;
    if (entry.known.empty()) entry.known = std::move(keys);
    std::erase_if(entry.waiting, [&](waiter& w) {
      const auto* key = usable_key(entry.known, w.asked.key_id, w.asked.valid_at_ms, w.asked.for_event);
      if (key) w.answer.deliver(got_key{key->key, ""});
      return key != nullptr;
    });
    entry.busy = false;
    work_on(server);
  };
  self_->request(parts_.reader, read_timeout, make_local(find_keys{server}))
      .then([next](const local<found_keys>& found) { next(found->keys); },
            [this, server](const caf::error& problem) {
              answer_all(server, "the store can't be read: " + self_->system().render(problem));
            });
}

void keyring::fetch(const std::string& server) {
  auto& entry = servers_[server];
  std::erase_if(entry.waiting, [&](waiter& w) {
    if (w.asked.may_fetch) return false;
    w.answer.deliver(got_key{"", "the key " + w.asked.key_id + " of " + server + " isn't known"});
    return true;
  });
  if (entry.waiting.empty()) {
    entry.busy = false;
    return;
  }
  if (!may_fetch_now(entry)) return answer_all(server, "the keys of " + server + " were asked for a moment ago");
  ++fetches_;
  pull ask;
  ask.destination = server;
  ask.method = "GET";
  ask.uri = "/_matrix/key/v2/server";
  ask.timeout_ms = fetch_timeout_ms;
  ask.may_probe = true;
  ask.sign = false;
  self_->request(parts_.supervisor, std::chrono::milliseconds(fetch_timeout_ms + 5'000), ask)
      .then([this, server](const pulled& answer) { fetched(server, answer); },
            [this, server](const caf::error& problem) {
              ++failed_fetches_;
              answer_all(server,
                         "the keys of " + server + " couldn't be asked for: " + self_->system().render(problem));
            });
}

bool keyring::may_fetch_now(server_keys& entry) {
  const auto at =
      std::chrono::duration_cast<std::chrono::milliseconds>(self_->clock().now().time_since_epoch()).count();
  entry.fetches_left =
      std::min(most_fetches_at_once, entry.fetches_left + double(at - entry.refilled_ms) / fetch_refill_ms);
  entry.refilled_ms = at;
  if (entry.fetches_left < 1) return false;
  entry.fetches_left -= 1;
  return true;
}

void keyring::fetched(const std::string& server, const pulled& answer) {
  if (answer.status != 200) {
    ++failed_fetches_;
    answer_all(server, answer.status == 0 ? answer.problem
                                          : server + " answered " + std::to_string(answer.status) + " for its keys");
    return;
  }
  auto read = read_key_document(answer.body.view(), server, parts_.wall_ms());
  if (!read.problem.empty()) {
    ++failed_fetches_;
    log_warning("keys_refused", {{"server", server}, {"why", read.problem}});
    answer_all(server, read.problem);
    return;
  }
  auto& known = servers_[server].known;
  for (const auto& key : read.keys) { // K15: a later document that lacks a key doesn't delete it
    std::erase_if(known, [&](const remote_key& old) { return old.key_id == key.key_id; });
    known.push_back(key);
  }
  self_->request(parts_.ledger, read_timeout, make_local(save_keys{read.keys}))
      .then([](const done&) {},
            [this, server](const caf::error& problem) {
              log_warning("keys_not_stored", {{"server", server}, {"why", self_->system().render(problem)}});
            });
  answer_all(server, "");
}

/// Everybody who waits gets a key or the reason; the server's next asker starts anew.
void keyring::answer_all(const std::string& server, const std::string& problem) {
  auto& entry = servers_[server];
  auto waiting = std::move(entry.waiting);
  entry.waiting.clear();
  entry.busy = false;
  for (auto& w : waiting) {
    const auto* key = usable_key(entry.known, w.asked.key_id, w.asked.valid_at_ms, w.asked.for_event);
    if (key) w.answer.deliver(got_key{key->key, ""});
    else w.answer.deliver(got_key{"", problem.empty() ? server + " has no usable key " + w.asked.key_id : problem});
  }
  make_room();
}

void keyring::make_room() {
  for (auto it = servers_.begin(); servers_.size() > most_servers_in_memory && it != servers_.end();)
    it = it->second.busy || !it->second.waiting.empty() ? std::next(it) : servers_.erase(it);
}

keyring_actor::behavior_type keyring::make_behavior() {
  return {[this](const get_key& asked) { return facts_.count(), get(asked); },
          [this](const describe&) {
            auto view = facts_.view("ready", "");
            view["servers"] = servers_.size();
            view["fetches"] = fetches_;
            view["failed_fetches"] = failed_fetches_;
            return description{view.dump()};
          }};
}

keyring_actor::behavior_type keyring_behavior(self_ptr self, const keyring_parts& parts) {
  self->state.core.emplace(self, parts);
  return self->state.core->make_behavior();
}

} // namespace

keyring_actor spawn_keyring(caf::actor_system& system, keyring_parts parts) {
  return system.spawn(keyring_behavior, std::move(parts));
}

} // namespace ranvier
