#include "tests/simulation/life.hpp"

#include "storage/identity.hpp"
#include "tests/simulation/model.hpp"
#include "tests/simulation/network.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <stdexcept>

namespace ranvier::sim {

namespace {

using namespace std::chrono_literals;

const signing_key& our_key() {
  static const signing_key key = signing_key::from_seed("sim", std::string(32, 's'));
  return key;
}

} // namespace

life::life(world& outside, const config& settings, const std::string& database, std::int64_t now_ms)
    : outside_(outside)
    , settings_(settings)
    , time_(now_ms) {
  storage::prepare(database, {our_name, our_key().key_id(), our_key().public_key()}, false, "simulated");
  network_ = spawn_network(time_.system, outside_,
                           {settings_.delivery.max_in_flight, settings_.delivery.max_new_connections_per_second});
  engine_parts parts;
  parts.settings = settings_;
  parts.key = std::make_shared<const signing_key>(our_key());
  parts.database = database;
  parts.wall_ms = [this] { return outside_.wall_ms(time_.now_ms()); };
  parts.seed = outside_.random();
  parts.detached = false;
  parts.egress = network_;
  parts.counters = std::make_shared<metrics>();
  parts.storage_health = [this](const std::string& problem) {
    if (!problem.empty()) outside_.breach("the store fails: " + problem);
  };
  engine_.emplace(time_.system, std::move(parts));
  time_.drain();
}

/// Ends everything at once, as a kill -9 does: what is in a mailbox or in memory is gone.
void life::kill() {
  if (!engine_) return;
  const auto end_now = [this](const auto& one, caf::exit_reason how = caf::exit_reason::kill) {
    caf::anon_send_exit(one, how);
    time_.scheduler().prioritize(one);
    time_.scheduler().try_run_once();
  };
  end_now(engine_->ledger());
  end_now(network_);
  end_now(engine_->supervisor(), caf::exit_reason::user_shutdown); // takes its destinations along, who find all dead
  end_now(engine_->keyring());
  for (int i = 0; i < 2; ++i)
    caf::anon_send_exit(engine_->next_reader(), caf::exit_reason::kill);
  for (const auto& one : askers_)
    caf::anon_send_exit(one.who, caf::exit_reason::kill);
  askers_.clear();
  engine_.reset();
  network_ = nullptr;
  time_.drain();
  time_.clock().cancel_all(); // the last references to destinations
  time_.drain();
}

template <class Answer, class Ask> std::shared_ptr<std::optional<Answer>> life::spawn_asker(Ask how) {
  constexpr std::size_t many = 64;
  if (askers_.size() > many) std::erase_if(askers_, [](const asker& one) { return one.answered(); });
  auto out = std::make_shared<std::optional<Answer>>();
  auto who = time_.system.spawn([how, out](caf::event_based_actor* self) { how(self, out); });
  askers_.push_back({who, [out] { return out->has_value(); }});
  return out;
}

template <class Answer, class Handle, class Request>
std::shared_ptr<std::optional<Answer>> life::ask(const Handle& whom, Request what) {
  return spawn_asker<Answer>([whom, what = make_local(std::move(what))](caf::event_based_actor* self, auto out) {
    self->request(whom, 600s, what)
        .then([out](const local<Answer>& answer) { *out = *answer; },
              [self](const caf::error& problem) { (void)self->system().render(problem); });
  });
}

std::shared_ptr<std::optional<feed_outcome>> life::feed(const std::vector<std::string>& lines) {
  feed_batch batch;
  for (std::size_t i = 0; i < lines.size(); ++i)
    batch.lines.push_back(parse_feed_line(lines[i], i + 1, our_name));
  return ask<feed_outcome>(engine_->ledger(), std::move(batch));
}

std::shared_ptr<std::optional<got_key>> life::heard(const std::string& server, const std::string& key_id) {
  const get_key asked{server, key_id, outside_.wall_ms(time_.now_ms())};
  return spawn_asker<got_key>([keyring = engine_->keyring(), supervisor = engine_->supervisor(), asked,
                               outside = &outside_](caf::event_based_actor* self, auto out) {
    self->request(keyring, 60s, asked)
        .then(
            [=](const got_key& answer) {
              *out = answer;
              if (answer.key.empty()) return;
              outside->excuse(asked.server);
              self->send(supervisor, heard_from{asked.server});
            },
            [self](const caf::error& problem) { (void)self->system().render(problem); });
  });
}

void life::operate(const std::string& server, const std::string& verb) {
  caf::anon_send(engine_->supervisor(), ranvier::operate{server, verb, "simulated", "test", 0});
}

destination_row life::row_of(const std::string& server) {
  auto answer = ask<loaded_destination>(engine_->next_reader(), load_destination{server});
  time_.drain();
  if (!*answer) throw std::runtime_error("the reader didn't answer");
  return (*answer)->row;
}

std::shared_ptr<std::optional<join_recorded>> life::join(record_join what) {
  return ask<join_recorded>(engine_->ledger(), std::move(what));
}

nlohmann::json life::joins() {
  auto out = std::make_shared<std::string>();
  time_.system.spawn([whom = engine_->supervisor(), out](caf::event_based_actor* self) {
    self->request(whom, 600s, make_local(describe_joins{}))
        .then([out](const description& answer) { *out = answer.json; }, [](const caf::error&) {});
  });
  time_.drain();
  if (out->empty()) throw std::runtime_error("the supervisor didn't answer");
  return nlohmann::json::parse(*out).at("partial_joins");
}

own_list life::list_of(const std::string& user) {
  auto answer = ask<own_list>(engine_->next_reader(), read_own_list{user});
  time_.drain();
  if (!*answer) throw std::runtime_error("the reader didn't answer");
  return **answer;
}

void life::take_changes(const std::string& server, std::vector<inbound_device_change> changes) {
  inbound_transaction all;
  all.origin = server;
  all.txn_id = "sim" + std::to_string(outside_.random());
  all.answer = "{}";
  all.at_ms = outside_.wall_ms(time_.now_ms());
  all.device_changes = std::move(changes);
  ask<inbound_outcome>(engine_->ledger(), std::move(all));
  outside_.excuse(server);
  caf::anon_send(engine_->supervisor(), heard_from{server});
}

known_keys_of_user life::known_of(const std::string& user) {
  find_known_keys question;
  question.users[user] = {};
  auto answer = ask<known_keys>(engine_->next_reader(), std::move(question));
  time_.drain();
  if (!*answer) throw std::runtime_error("the reader didn't answer");
  return (*answer)->users[user];
}

std::vector<stale_user> life::stale() {
  auto answer = ask<stale_users>(engine_->next_reader(), list_stale{});
  time_.drain();
  if (!*answer) throw std::runtime_error("the reader didn't answer");
  return (*answer)->list;
}

owed_counts life::owed(const std::string& server, const cursors& after) {
  auto answer = ask<owed_counts>(engine_->next_reader(), count_owed{server, after});
  time_.drain();
  if (!*answer) throw std::runtime_error("the reader didn't answer");
  return **answer;
}

life::footprint life::memory() {
  auto out = std::make_shared<std::string>();
  time_.system.spawn([whom = engine_->supervisor(), out](caf::event_based_actor* self) {
    self->request(whom, 600s, make_local(list_actors{}))
        .then([out](const description& answer) { *out = answer.json; }, [](const caf::error&) {});
  });
  time_.drain();
  footprint all;
  const auto told = nlohmann::json::parse(*out);
  for (const auto& one : told.at("actors")) {
    all.mailboxes += one.value("mailbox", 0U);
    if (one.value("kind", "") != "destination") continue;
    ++all.destinations;
    if (const auto held = one.find("in_memory"); held != one.end()) all.windows += held->value("window", 0U);
  }
  return all;
}

} // namespace ranvier::sim
