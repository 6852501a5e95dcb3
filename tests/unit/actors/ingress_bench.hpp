#pragma once
// The ingress over real HTTP, with actors behind it that answer as each test says.
#include "actors/ingress.hpp"
#include "messages/event.hpp"
#include "tests/unit/actors/net/raw_client.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>

namespace ranvier::testing {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr std::int64_t now_ms = 1'700'000'000'000;
inline const std::string us = "ours.test", origin = "remote.test";

inline const signing_key& key_named(char letter) {
  start_crypto();
  static std::map<char, signing_key> keys;
  return keys.try_emplace(letter, signing_key::from_seed(std::string(1, letter), std::string(32, letter)))
      .first->second;
}

/// What the actors behind the ingress say, and what they heard. The mutex guards all of it.
struct script {
  std::mutex mutex;
  std::condition_variable changed;
  feed_outcome fed;       ///< `accepted` and `head` are filled per batch
  inbound_outcome stored; ///< `answer` is that of the transaction if empty
  stream_page page;
  bool hold_transactions = false; ///< their answers wait for release()
  pulled answer;
  known_keys known;       ///< what readers say of users; then `known_later`
  known_keys known_later; ///< what they say after lists were refreshed
  refreshed lists;
  own_list own;
  claimed_own_keys claimed;

  std::vector<std::string> refreshes; ///< server and users
  std::vector<std::string> claims;    ///< users
  std::size_t reads = 0;
  std::vector<std::size_t> batches;
  std::vector<inbound_transaction> transactions;
  std::vector<position> acknowledged;
  std::vector<std::string> heard, pulls;
  std::vector<std::pair<caf::typed_response_promise<local<inbound_outcome>>, inbound_outcome>> held;

  template <class Check> void wait(Check check) {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, 10s, check));
  }
  void release() {
    std::lock_guard lock(mutex);
    hold_transactions = false;
    for (auto& [promise, outcome] : held)
      promise.deliver(make_local(outcome));
    held.clear();
  }
};
using script_ptr = std::shared_ptr<script>;

// Untyped, with only what the ingress asks for; anything else is answered with an error and fails the test.

inline caf::behavior ledger(caf::event_based_actor* self, const script_ptr& s) {
  return {[s](const local<feed_batch>& batch) {
            std::lock_guard lock(s->mutex);
            s->batches.push_back(batch->lines.size());
            auto out = s->fed;
            out.accepted = batch->lines.size();
            out.head = position(s->batches.size());
            return make_local(out);
          },
          [self, s](const local<inbound_transaction>& transaction) {
            auto promise = self->make_response_promise<local<inbound_outcome>>();
            std::lock_guard lock(s->mutex);
            s->transactions.push_back(*transaction);
            auto out = s->stored;
            if (out.answer.empty()) out.answer = transaction->answer;
            if (s->hold_transactions) s->held.emplace_back(promise, out);
            else promise.deliver(make_local(out));
            s->changed.notify_all();
            return promise;
          },
          [s](const local<claim_own_keys>& asked) {
            std::lock_guard lock(s->mutex);
            for (const auto& [user, devices] : asked->wanted)
              s->claims.push_back(user);
            return make_local(s->claimed);
          },
          [s](const local<acknowledge_stream>& ack) {
            std::lock_guard lock(s->mutex);
            s->acknowledged.push_back(ack->upto);
            return done{};
          }};
}

inline caf::behavior reader(caf::event_based_actor*, const script_ptr& s) {
  return {[s](const local<read_stream>& asked) {
            std::lock_guard lock(s->mutex);
            auto out = s->page;
            std::erase_if(out.items, [&](const auto& item) { return asked->has_after && item.first <= asked->after; });
            if (out.items.size() > asked->limit) out.items.resize(asked->limit);
            ++s->reads;
            s->changed.notify_all();
            return make_local(out);
          },
          [](const local<find_room>& asked) {
            found_room out;
            out.known = asked->room_id == "!r:a/b";
            out.version = "10";
            out.members = {{"@u:remote.test", "join"}};
            out.servers = {"remote.test"};
            return make_local(out);
          },
          [s](const local<find_known_keys>& asked) {
            std::lock_guard lock(s->mutex);
            known_keys out;
            const auto& from = s->refreshes.empty() ? s->known : s->known_later;
            for (const auto& [user, devices] : asked->users)
              if (const auto found = from.users.find(user); found != from.users.end()) out.users.insert(*found);
            return make_local(out);
          },
          [s](const local<read_own_list>&) {
            std::lock_guard lock(s->mutex);
            return make_local(s->own);
          },
          [](const local<count_one_time_keys>& asked) {
            one_time_key_counts out;
            out.left = {{"alg", asked->device == "D1" ? 3 : 0}};
            out.unused_fallback_types = {"alg"};
            return make_local(out);
          },
          [](const local<find_device_changes>& asked) {
            return make_local(device_changes{{"@c:remote.test"}, {}, asked->from == 0});
          },
          [](const local<find_source>& asked) {
            return make_local(found_source{asked->source == "known", 7});
          }};
}

inline caf::behavior supervisor(caf::event_based_actor*, const script_ptr& s) {
  return {[s](const pull& order) {
            std::lock_guard lock(s->mutex);
            s->pulls.push_back(order.method + " " + order.destination + order.uri + " " + order.body.str());
            return s->answer;
          },
          [s](const refresh_lists& asked) {
            std::lock_guard lock(s->mutex);
            auto text = asked.destination;
            for (const auto& user : asked.users)
              text += " " + user;
            s->refreshes.push_back(text);
            return s->lists;
          },
          [s](const heard_from& from) {
            std::lock_guard lock(s->mutex);
            s->heard.push_back(from.server);
            s->changed.notify_all();
          }};
}

/// Knows one key of each server: the one named by the first letter of the server's name.
inline caf::behavior keyring(caf::event_based_actor*) {
  return {[](const get_key& asked) {
    const auto& key = key_named(asked.server.front());
    return asked.key_id == key.key_id() ? got_key{key.public_key(), ""} : got_key{"", "it has no such key"};
  }};
}

inline caf::actor_system_config& quiet() {
  static caf::actor_system_config settings;
  settings.set("scheduler.policy", caf::atom("sharing"));
  settings.set("scheduler.max-threads", std::size_t(2));
  settings.set("logger.file-verbosity", caf::atom("quiet"));
  return settings;
}

struct ingress_bench {
  explicit ingress_bench(const config& settings = with([](config&) {})) {
    auto all = std::make_shared<config>(settings);
    ledger_ = caf::actor_cast<ledger_actor>(system.spawn(ledger, says));
    reader_ = caf::actor_cast<reader_actor>(system.spawn(reader, says));
    supervisor_ = caf::actor_cast<supervisor_actor>(system.spawn(supervisor, says));
    keyring_ = caf::actor_cast<keyring_actor>(system.spawn(keyring));
    ingress_parts parts{supervisor_,
                        ledger_,
                        [this] {
                          if (crashing) throw std::runtime_error("made to crash");
                          return reader_;
                        },
                        keyring_,
                        all,
                        std::make_shared<signing_key>(key_named('o')),
                        [] { return now_ms; },
                        [] { return std::string("ranvier_up 1\n"); },
                        nullptr,
                        ready,
                        "secret",
                        "1.2.3"};
    actor = spawn_ingress(system, parts);
    listeners.emplace(parts, actor);
  }
  ~ingress_bench() {
    says->release();
    listeners.reset();
    for (const auto& one : {caf::actor_cast<caf::actor>(actor), caf::actor_cast<caf::actor>(ledger_),
                            caf::actor_cast<caf::actor>(reader_), caf::actor_cast<caf::actor>(supervisor_),
                            caf::actor_cast<caf::actor>(keyring_)})
      caf::anon_send_exit(one, caf::exit_reason::user_shutdown);
  }
  template <class Change> static config with(Change change) {
    config out;
    out.server_name = us;
    out.federation.listen = out.host.listen = "127.0.0.1:0";
    change(out);
    return out;
  }

  raw_answer host(const std::string& method, const std::string& path, const std::string& body = "",
                  const std::string& headers = "Authorization: Bearer secret\r\n") {
    raw_client client(listeners->host_port());
    return client.ask(request(method, path, body, headers));
  }
  static std::string send_text(const std::string& txn, const json& body, const std::string& from = origin,
                               const std::pair<std::string, std::string>& change = {}) {
    const auto uri = "/_matrix/federation/v1/send/" + txn;
    auto header = x_matrix_header("PUT", uri, from, us, canonical_json(body.dump()), key_named(from.front()));
    if (const auto found = header.find(change.first); !change.first.empty() && found != std::string::npos)
      header.replace(found, change.first.size(), change.second);
    return request("PUT", uri, body.dump(), "Authorization: " + header + "\r\n");
  }
  /// A signed request of a server to one of the key endpoints; no body for a GET.
  static std::string key_text(const std::string& method, const std::string& path, const std::string& body = "",
                              const std::string& from = origin) {
    const auto uri = "/_matrix/federation/v1/user/" + path;
    const auto header =
        x_matrix_header(method, uri, from, us, body.empty() ? "" : canonical_json(body), key_named(from.front()));
    return request(method, uri, body, "Authorization: " + header + "\r\n");
  }
  raw_answer federation(const std::string& text) {
    raw_client client(listeners->federation_port());
    return client.ask(text);
  }

  std::atomic<bool> crashing{false}; ///< whoever wants to read throws: how a fault in the actor is made
  script_ptr says = std::make_shared<script>();
  std::shared_ptr<readiness> ready = std::make_shared<readiness>();
  caf::actor_system system{quiet()};
  ledger_actor ledger_;
  reader_actor reader_;
  supervisor_actor supervisor_;
  keyring_actor keyring_;
  ingress_actor actor;
  std::optional<ingress_listeners> listeners;
};

inline const json empty_transaction = {{"origin", origin}, {"origin_server_ts", 1}, {"pdus", json::array()}};
inline json with_message(const std::string& id) {
  auto out = empty_transaction;
  out["edus"] = {{{"edu_type", "m.direct_to_device"},
                  {"content",
                   {{"sender", "@bob:remote.test"},
                    {"type", "t"},
                    {"message_id", id},
                    {"messages", {{"@a:ours.test", {{"*", json::object()}}}}}}}}};
  return out;
}
inline std::string code_of(const raw_answer& answer) { return json::parse(answer.body).value("errcode", ""); }

} // namespace ranvier::testing
