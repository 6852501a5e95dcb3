#include "actors/resolver.hpp"

#include "actors/actor_facts.hpp"
#include "actors/discovery_facts.hpp"
#include "actors/expiring_cache.hpp"
#include "actors/log.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <deque>
#include <optional>

namespace ranvier {
namespace {

/// What the network said, on its way back to the actor; `job` is the discovery that waits for it.
struct dns_came {
  std::string job, name;
  bool services = false;
  lookup what;
};
struct page_came {
  std::string job;
  well_known_walk::answer what;
};

struct go_on_waiting {}; ///< discoveries that wait may begin
struct keep_facts {};

using resolver_self = resolver_actor::extend<caf::reacts_to<local<dns_came>>, caf::reacts_to<local<page_came>>,
                                             caf::reacts_to<local<go_on_waiting>>, caf::reacts_to<local<keep_facts>>>;
const char* const fetch_asker = "(well-known)"; // no server name looks like this
constexpr std::size_t facts_of_a_name = 3;      // of DNS: its addresses, and SRV under two labels

/// A discovery under way, and who waits for it.
struct job {
  std::unique_ptr<discovery> machine;
  std::unique_ptr<well_known_walk> walk;
  std::vector<caf::typed_response_promise<local<route>>> waiting;
  std::vector<std::string> steps; ///< of the walk
  std::int64_t begun = 0, page_deadline = 0;
  std::uint64_t look_after = 0; ///< facts with a smaller stamp don't count
};

class resolver_core {
public:
  resolver_core(resolver_self::pointer self, resolver_settings settings, resolver_tools tools)
      : self_(self)
      , facts_(self, "resolver")
      , settings_(std::move(settings))
      , tools_(std::move(tools))
      , files_(settings_.cached_names)
      , dns_(settings_.cached_names * facts_of_a_name)
      , refreshed_(settings_.cached_names) {
    std::vector<std::string> problems;
    rules_ = {settings_.addresses, ip_ranges(settings_.ip_deny, &problems), tools_.chance};
    for (const auto& p : problems)
      log_error("ip_deny_unusable", {{"problem", p}});
    remember();
  }

  ~resolver_core() {
    if (unkept_) keep();
  }

  resolver_self::behavior_type make_behavior() {
    return {
        [this](local<resolve>& r) { return ask(*r); },
        [this](describe) { return description{describe_self()}; },
        [this](local<dns_came>& m) { take(*m); },
        [this](local<page_came>& m) { take(*m); },
        [this](local<go_on_waiting>&) { woken_ = false, start_waiting(); },
        [this](local<keep_facts>&) { keep(); },
    };
  }

private:
  std::int64_t now() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(self_->clock().now().time_since_epoch()).count();
  }

  caf::result<local<route>> ask(const resolve& r) {
    auto promise = self_->make_response_promise<local<route>>();
    auto look_after = oldest_stamp(r);
    if (auto it = jobs_.find(r.server_name); it != jobs_.end()) { // one at a time for a name
      it->second.look_after = std::max(it->second.look_after, look_after);
      it->second.waiting.push_back(promise);
      return promise;
    }
    auto& j = jobs_[r.server_name];
    j.waiting.push_back(promise);
    j.look_after = look_after;
    queue_.push_back(r.server_name);
    start_waiting();
    return promise;
  }

  /// Facts with this stamp or a greater one may serve this question.
  std::uint64_t oldest_stamp(const resolve& r) {
    if (r.no_cache) return ++stamp_;
    if (!r.after_failure || refreshed_.fresh(r.server_name, now())) return 0;
    refreshed_.put(r.server_name, {}, stamp_, now() + settings_.refresh_ms);
    return ++stamp_;
  }

  void start_waiting() {
    if (starting_) return; // one that is over at once came back here
    starting_ = true;
    start_as_many_as_may();
    starting_ = false;
  }

  void start_as_many_as_may() {
    while (!queue_.empty() && running_ < settings_.open_discoveries) {
      auto at = now();
      while (!young_.empty() && young_.begin()->first + settings_.young_ms <= at)
        young_.erase(young_.begin());
      if (young_.size() >= settings_.young_discoveries) {
        if (!woken_)
          self_->delayed_send(self_, std::chrono::milliseconds(young_.begin()->first + settings_.young_ms - at),
                              make_local(go_on_waiting{}));
        woken_ = true;
        return;
      }
      auto name = std::move(queue_.front());
      queue_.pop_front();
      start(name);
    }
  }

  void start(const std::string& name) {
    ++running_;
    auto& j = jobs_.at(name);
    j.begun = now();
    young_.emplace(j.begun, name);
    j.machine = std::make_unique<discovery>(name, rules_);
    go_on(name);
  }

  /// What was kept at the last end. Moments become those of our clock; none is later than it would have been.
  void remember() {
    if (!tools_.load) return;
    auto wall = tools_.wall_ms();
    for (auto& k : read_facts(tools_.load(), wall + well_known_walk::ceiling_ms)) {
      k.file.last_good_until += now() - wall;
      files_.put(k.host, std::move(k.file), stamp_, k.until_ms + now() - wall);
    }
  }

  void keep() {
    unkept_ = false;
    std::vector<kept_file> all;
    auto ahead = tools_.wall_ms() - now();
    files_.each([&](const std::string& host, const auto& e) {
      all.push_back({host, e.value, e.until_ms + ahead});
      all.back().file.last_good_until += ahead;
    });
    tools_.save(write_facts(all));
  }

  /// Drives a discovery until it is over or has to wait for the network.
  void go_on(const std::string& name) {
    for (;;) {
      auto& j = jobs_.at(name);
      bool went = j.walk ? walk_on(name, j) : false;
      if (j.walk) {
        if (!went) return;
        continue;
      }
      switch (j.machine->wants()) {
      case discovery::need::nothing:
        return end(name);
      case discovery::need::well_known:
        if (auto* known = file_of(j)) j.machine->take(*known);
        else {
          j.walk = std::make_unique<well_known_walk>(j.machine->about(), rules_.deny);
          j.page_deadline = now() + settings_.well_known_timeout_ms;
        }
        break;
      case discovery::need::addresses:
        if (auto* l = look_up(name, j, j.machine->about(), false)) j.machine->take_addresses(*l);
        else return;
        break;
      case discovery::need::services:
        if (auto* l = look_up(name, j, j.machine->about(), true)) j.machine->take_services(*l);
        else return;
        break;
      }
    }
  }

  /// One step of the walk to a .well-known file; false: it waits for the network.
  bool walk_on(const std::string& name, job& j) {
    switch (j.walk->wants()) {
    case well_known_walk::need::addresses:
      if (auto* l = look_up(name, j, j.walk->host(), false)) {
        j.walk->take(*l);
        return true;
      }
      return false;
    case well_known_walk::need::page:
      fetch(name, j);
      return false;
    case well_known_walk::need::nothing:
      break;
    }
    auto result = learn(j.machine->about(), j.walk->result());
    j.steps = j.walk->steps();
    j.walk.reset();
    j.machine->take(result);
    return true;
  }

  void fetch(const std::string& name, const job& j) {
    http_job h;
    h.asker = fetch_asker;
    h.way = j.walk->wanted_page().way;
    h.call.destination = j.walk->host() + " (well-known)";
    h.call.method = "GET";
    h.call.uri = j.walk->wanted_page().uri;
    h.call.timeout_ms = std::max<std::int64_t>(j.page_deadline - now(), 1'000);
    h.call.max_answer_bytes = well_known_walk::most_bytes;
    h.answer = [to = resolver_self{self_}, name](http_reply r) {
      page_came m{
          name,
          {r.answer.status, r.answer.body.str(), r.location, r.cache_control, r.expires, r.date, r.answer.problem}};
      caf::anon_send(to, make_local(std::move(m)));
    };
    tools_.fetch(std::move(h));
  }

  const well_known_result* file_of(const job& j) {
    auto* e = files_.fresh(j.machine->about(), now());
    return e && e->stamp >= j.look_after ? &e->value.what : nullptr;
  }

  /// Keeps what the walk found out, and answers what is to be believed.
  well_known_result learn(const std::string& host, const well_known_result& found) {
    auto* old = files_.find(host);
    auto f = old ? old->value : known_file();
    auto lifetime = learn_file(f, found, now(), settings_.first_refusal_ms, settings_.most_refusal_ms);
    auto believed = f.what;
    if (lifetime == 0) return believed;
    files_.put(host, std::move(f), stamp_, now() + lifetime);
    if (tools_.save && !std::exchange(unkept_, true))
      self_->delayed_send(self_, std::chrono::milliseconds(settings_.keep_after_ms), make_local(keep_facts{}));
    return believed;
  }

  /// From the cache, or null after the question was sent.
  const lookup* look_up(const std::string& job_name, const job& j, const std::string& name, bool services) {
    auto key = (services ? "s " : "a ") + name;
    auto* e = dns_.find(key);
    bool good = e && e->value.what != lookup::outcome::failed && now() < e->until_ms && e->stamp >= j.look_after;
    if (good) return &e->value;
    auto answer = [to = resolver_self{self_}, job_name, name, services](lookup l) {
      caf::anon_send(to, make_local(dns_came{job_name, name, services, std::move(l)}));
    };
    (services ? tools_.services : tools_.addresses)(name, std::move(answer));
    return nullptr;
  }

  std::int64_t lifetime_ms(const lookup& l, bool services) const {
    bool found = l.what == lookup::outcome::found;
    if (!found && l.ttl_s < 0) return services ? settings_.no_services_ms : settings_.no_address_ms;
    auto most = found ? settings_.most_dns_ms : settings_.most_nothing_ms;
    return std::clamp(std::max<std::int64_t>(l.ttl_s, 0) * 1000, settings_.least_dns_ms, most);
  }

  void take(const dns_came& m) {
    auto key = (m.services ? "s " : "a ") + m.name;
    auto l = m.what;
    if (l.what == lookup::outcome::failed) {
      auto* old = dns_.find(key);
      if (old && old->value.what == lookup::outcome::found && now() < old->until_ms + settings_.old_answers_ms) {
        auto failure = l.note;
        l = old->value;
        l.note = "an older answer; " + failure;
      }
    } else {
      dns_.put(key, l, stamp_, now() + lifetime_ms(l, m.services));
    }
    auto it = jobs_.find(m.job);
    if (it == jobs_.end() || !it->second.machine) return;
    auto& j = it->second;
    if (j.walk && j.walk->wants() == well_known_walk::need::addresses && !m.services) j.walk->take(l);
    else if (j.machine->wants() == discovery::need::addresses && !m.services) j.machine->take_addresses(l);
    else if (j.machine->wants() == discovery::need::services && m.services) j.machine->take_services(l);
    else return;
    go_on(m.job);
  }

  void take(const page_came& m) {
    auto it = jobs_.find(m.job);
    if (it == jobs_.end() || !it->second.walk || it->second.walk->wants() != well_known_walk::need::page) return;
    auto& j = it->second;
    auto answer = m.what;
    if (now() >= j.page_deadline && answer.status >= 300 && answer.status < 400) {
      answer.status = 0;
      answer.problem = "its redirects took too long";
    }
    j.walk->take(answer);
    go_on(m.job);
  }

  void end(const std::string& name) {
    auto node = jobs_.extract(name);
    auto& j = node.mapped();
    --running_;
    young_.erase({j.begun, name});
    auto r = j.machine->result();
    r.steps.insert(r.steps.begin(), j.steps.begin(), j.steps.end());
    (r.ok ? found_ : failed_) += 1;
    auto shared = make_local(std::move(r));
    for (auto& p : j.waiting)
      p.deliver(shared);
    start_waiting();
  }

  std::string describe_self() {
    auto view = facts_.view(running_ ? "looking up" : "idle", "");
    view.update(nlohmann::json{{"looking_up", running_},
                               {"queued", queue_.size()},
                               {"well_known_cached", files_.size()},
                               {"dns_cached", dns_.size()},
                               {"found", found_},
                               {"failed", failed_}});
    return view.dump();
  }

  resolver_self::pointer self_;
  actor_facts facts_;
  resolver_settings settings_;
  resolver_tools tools_;
  discovery_rules rules_;
  expiring_cache<known_file> files_; ///< by host name
  expiring_cache<lookup> dns_;       ///< by "a name" (addresses) and "s name" (services)
  expiring_cache<char> refreshed_;   ///< names looked up anew because their route failed
  std::map<std::string, job> jobs_;
  std::deque<std::string> queue_;
  std::set<std::pair<std::int64_t, std::string>> young_; ///< by when they began
  bool starting_ = false;
  bool woken_ = false;  ///< a go_on_waiting is on its way
  bool unkept_ = false; ///< something was learnt since the facts were kept
  std::size_t running_ = 0;
  std::uint64_t stamp_ = 1; ///< grows with each wish for newer facts
  std::uint64_t found_ = 0, failed_ = 0;
};

struct resolver_state {
  resolver_state() = default;
  static inline const char* name = "resolver";
  std::optional<resolver_core> core;
};

resolver_self::behavior_type resolver_body(resolver_self::stateful_pointer<resolver_state> self,
                                           resolver_settings settings, resolver_tools tools) {
  self->set_exception_handler([](std::exception_ptr& e) -> caf::error {
    try {
      std::rethrow_exception(e);
    } catch (const std::exception& x) {
      log_error("actor_failed", {{"actor", "resolver"}, {"problem", x.what()}});
    } catch (...) {
      log_error("actor_failed", {{"actor", "resolver"}, {"problem", "unknown"}});
    }
    return caf::sec::runtime_error;
  });
  self->state.core.emplace(self, std::move(settings), std::move(tools));
  return self->state.core->make_behavior();
}

} // namespace

resolver_settings resolver_settings::from(const config& c) {
  resolver_settings s;
  s.addresses = c.federation.addresses;
  s.ip_deny = c.federation.ip_deny;
  return s;
}

resolver_actor spawn_resolver(caf::actor_system& system, resolver_settings settings, resolver_tools tools) {
  return system.spawn(resolver_body, std::move(settings), std::move(tools));
}

} // namespace ranvier
