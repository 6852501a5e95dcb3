#include "actors/supervisor_core.hpp"

#include "actors/failure_classes.hpp"
#include "messages/ids.hpp"

#include <algorithm>
#include <charconv>

// Introspection: the supervisor asks those who know and puts their answers together; it reads nobody's memory.

namespace ranvier {
namespace {

using namespace std::chrono_literals;
constexpr auto describe_timeout = 1500ms; // the CLI waits 2 s in all
constexpr auto store_timeout = 10s;
constexpr std::size_t most_in_a_list = 1000;
constexpr std::int64_t stale_is_old_ms = 3'600'000; ///< from then on somebody should look
constexpr std::size_t most_asked = 500;             ///< by one call; the store counts for all others

std::string text_of(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// What GET /destinations can be ordered by, taken from what storage knows.
std::int64_t order_value(const destination_row& row, const std::string& by) {
  if (by == "consecutive_failures") return row.gate.push.failures;
  if (by == "failing_since_ms") return row.gate.push.failing_since_ms;
  if (by == "next_attempt_ms") return row.gate.push.next_attempt_ms;
  if (by == "interval_ms") return row.gate.push.interval_ms;
  if (by == "last_success_ms") return row.gate.last_success_ms;
  if (by == "last_inbound_ms") return row.last_inbound_ms;
  if (by == "rooms") return row.rooms;
  if (by == "cursor") return row.at.pdu;
  return 0;
}

std::int64_t waiting_value(const nlohmann::json& view, const std::string& by) {
  if (!view.contains("pending")) return 0;
  const auto& pending = view["pending"];
  if (by == "oldest_age_ms") return pending.value("oldest_age_ms", std::int64_t(0));
  std::int64_t sum = 0;
  for (const auto* kind : {"pdus", "device_lists", "to_device"})
    sum += pending.value(kind, std::int64_t(0));
  return sum;
}

bool contains_ignoring_case(const std::string& text, const std::string& part) {
  auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

} // namespace

std::shared_ptr<gathering> supervisor_core::gather(std::size_t count, std::function<void(gathering&)> finish) {
  auto into = std::make_shared<gathering>();
  into->missing = count;
  into->finish = std::move(finish);
  if (count == 0) into->finish(*into);
  return into;
}

/// A view that doesn't come in time is left out: a busy actor must not hide the others.
template <class Handle>
void supervisor_core::ask(const std::shared_ptr<gathering>& into, const Handle& whom, bool brief) {
  auto take = [into](nlohmann::json view) {
    if (!view.is_null()) into->views.push_back(std::move(view));
    if (--into->missing == 0) into->finish(*into);
  };
  self_->request(whom, describe_timeout, describe{brief})
      .then([take](const description& d) { take(nlohmann::json::parse(d.json, nullptr, false)); },
            [take](const caf::error&) { take(nullptr); });
}

/// As it stands in storage, for those without an actor.
gate_view supervisor_core::shown(const destination_row& row) {
  const moment at{now_ms(), parts_.destinations->wall_ms()};
  const gate stored(
      parts_.destinations->settings.backoff, [] { return 0.5; }, row.gate, row.hold, denied(row.name), at);
  return stored.view(at);
}

void supervisor_core::stored_view(const std::string& name, std::function<void(nlohmann::json)> then) {
  const auto reader = parts_.destinations->reader(name);
  self_->request(reader, store_timeout, make_local(load_destination{name}))
      .then(
          [this, reader, name, then](const local<loaded_destination>& found) {
            if (!found->known) return then(nullptr);
            destination_facts facts;
            facts.row = found->row;
            facts.shown = shown(found->row);
            facts.head = found->head;
            self_->request(reader, store_timeout, make_local(count_owed{name, found->row.at}))
                .then(
                    [this, reader, facts, then](const local<owed_counts>& counts) mutable {
                      facts.owed = *counts;
                      self_->request(reader, store_timeout, make_local(list_stale{facts.row.name}))
                          .then(
                              [this, facts, then](const local<stale_users>& stale) mutable {
                                facts.stale_users = stale->list.size();
                                then(destination_view(facts, parts_.destinations->wall_ms()));
                              },
                              [then](const caf::error&) { then(nullptr); });
                    },
                    [then](const caf::error&) { then(nullptr); });
          },
          [then](const caf::error&) { then(nullptr); });
}

caf::result<description> supervisor_core::describe_destination(const describe_one& which) {
  auto promise = self_->make_response_promise<description>();
  auto from_storage = [this, promise, name = which.name] {
    stored_view(name, [promise](nlohmann::json view) mutable {
      if (!view.is_null() && !view.contains("attempts")) view["attempts"] = nlohmann::json::array();
      promise.deliver(description{view.is_null() ? "" : text_of(view)});
    });
  };
  auto found = children_.find(which.name);
  if (found == children_.end() || !found->second.actor) {
    from_storage();
    return promise;
  }
  self_->request(found->second.actor, describe_timeout, describe{false})
      .then(
          [promise, from_storage](const description& d) mutable {
            auto view = nlohmann::json::parse(d.json, nullptr, false);
            if (view.is_object() && view.contains("destination"))
              promise.deliver(description{text_of(view["destination"])});
            else from_storage();
          },
          [from_storage](const caf::error&) { from_storage(); });
  return promise;
}

caf::result<description> supervisor_core::list_destinations_view(const list_view& wanted) {
  auto promise = self_->make_response_promise<description>();
  self_->request(parts_.destinations->reader("list"), store_timeout, make_local(list_destinations{}))
      .then([this, wanted, promise](const local<destination_rows>& all) { answer_list(wanted, *all, promise); },
            [this, promise](const caf::error& e) mutable { promise.deliver(e); });
  return promise;
}

/// Filters and orders by the stored rows (a gate is stored whenever it changes), then asks only those on the page.
void supervisor_core::answer_list(const list_view& wanted, const destination_rows& all,
                                  caf::typed_response_promise<description> promise) {
  std::vector<const destination_row*> chosen;
  for (const auto& row : all.rows) {
    if (!wanted.text.empty() && !contains_ignoring_case(row.name, wanted.text)) continue;
    if (!wanted.state.empty() && shown(row).state != wanted.state) continue;
    chosen.push_back(&row);
  }
  const bool descending = wanted.direction == "desc";
  std::stable_sort(chosen.begin(), chosen.end(), [&](const auto* a, const auto* b) {
    const auto left = order_value(*a, wanted.order_by), right = order_value(*b, wanted.order_by);
    if (left != right) return descending ? left > right : left < right;
    return descending && (wanted.order_by.empty() || wanted.order_by == "destination") ? a->name > b->name
                                                                                       : a->name < b->name;
  });
  std::size_t first = 0;
  std::from_chars(wanted.from.data(), wanted.from.data() + wanted.from.size(), first);
  const auto limit = std::clamp<std::size_t>(wanted.limit, 1, most_in_a_list);
  // What waits is counted by those who are asked, so an order by it asks all that were chosen.
  const bool by_waiting = wanted.order_by == "waiting" || wanted.order_by == "oldest_age_ms";
  const auto begin = std::min(first, chosen.size()), end = std::min(chosen.size(), begin + limit);
  std::vector<std::string> page;
  for (auto i = by_waiting ? 0 : begin; i < (by_waiting ? chosen.size() : end); ++i)
    page.push_back(chosen[i]->name);
  const auto next = end < chosen.size() ? std::to_string(end) : std::string();
  auto into = gather(page.size(), [=, total = chosen.size(), by = wanted.order_by](gathering& g) mutable {
    auto answer = nlohmann::json{{"destinations", nlohmann::json::array()}, {"total", total}};
    std::map<std::string, nlohmann::json> by_name;
    for (auto& view : g.views) {
      auto name = view.value("destination", "");
      by_name[std::move(name)] = std::move(view);
    }
    if (by_waiting) {
      std::stable_sort(page.begin(), page.end(), [&](const auto& a, const auto& b) {
        const auto left = waiting_value(by_name[a], by), right = waiting_value(by_name[b], by);
        return descending ? left > right : left < right;
      });
      page = {page.begin() + std::ptrdiff_t(begin), page.begin() + std::ptrdiff_t(end)};
    }
    for (const auto& name : page)
      answer["destinations"].push_back(std::move(by_name[name]));
    answer["next"] = next.empty() ? nlohmann::json() : nlohmann::json(next);
    promise.deliver(description{text_of(answer)});
  });
  for (const auto& name : page) {
    auto take = [into](nlohmann::json view) {
      view.erase("attempts");
      into->views.push_back(std::move(view));
      if (--into->missing == 0) into->finish(*into);
    };
    auto from_storage = [this, name, take] {
      stored_view(name, [take, name](nlohmann::json v) {
        take(v.is_null() ? nlohmann::json{{"destination", name}} : std::move(v));
      });
    };
    auto found = children_.find(name);
    if (found == children_.end() || !found->second.actor) {
      from_storage();
      continue;
    }
    self_->request(found->second.actor, describe_timeout, describe{false})
        .then(
            [take, from_storage](const description& d) {
              auto view = nlohmann::json::parse(d.json, nullptr, false);
              if (view.is_object() && view.contains("destination")) take(std::move(view["destination"]));
              else from_storage();
            },
            [from_storage](const caf::error&) { from_storage(); });
  }
}

nlohmann::json supervisor_core::own_view() const {
  auto view = facts_.view(booting_ ? "booting" : "ready", "");
  view["destinations"] = children_.size();
  view["child_restarts"] = restarts_;
  view["fanned_out"] = fanned_out_;
  view["announcing_since_ms"] = announcing_.active ? nlohmann::json(announcing_.since_ms) : nlohmann::json();
  view["uplink"] = {{"failing", uplink_.failing()}, {"bringing_forward", forwarding_.active}};
  return view;
}

caf::result<description> supervisor_core::list_actors_view(const list_actors& which) {
  auto promise = self_->make_response_promise<description>();
  auto wanted = [&](caf::actor_id id) { return which.id == 0 || which.id == id; };
  std::vector<destination_actor> destinations;
  std::vector<describable> others;
  for (const auto& [name, one] : children_)
    if (one.actor && wanted(one.actor->id())) destinations.push_back(one.actor);
  for (const auto& other : others_)
    if (wanted(other->id())) others.push_back(other);
  for (const auto& [room_id, one] : joins_)
    if (one.actor && wanted(one.actor->id())) others.push_back(caf::actor_cast<describable>(one.actor));
  nlohmann::json own = wanted(self_->id()) ? own_view() : nlohmann::json();
  nlohmann::json failed = nlohmann::json::array();
  if (which.id == 0)
    for (const auto& [name, one] : children_)
      if (one.failed)
        failed.push_back({{"id", nullptr},
                          {"kind", "destination"},
                          {"name", name},
                          {"parent", "supervisor"},
                          {"state", "failed"},
                          {"mailbox", 0},
                          {"handled", 0},
                          {"restarts", one.restarts},
                          {"started_ms", 0},
                          {"busy_with", nullptr},
                          {"last_failure", one.last_crash}});
  auto into = gather(destinations.size() + others.size(), [own, failed, promise](gathering& g) mutable {
    auto list = std::move(failed);
    if (!own.is_null()) list.push_back(std::move(own));
    for (auto& view : g.views)
      list.push_back(std::move(view));
    promise.deliver(description{text_of(nlohmann::json{{"actors", std::move(list)}})});
  });
  const bool brief = which.id == 0;
  for (const auto& one : destinations)
    ask(into, one, brief);
  for (const auto& one : others)
    ask(into, one, brief);
  return promise;
}

/// GET /stats: counts over the stored rows; what waits for those that are being sent to, whose names are in "counted".
caf::result<description> supervisor_core::totals_view() {
  auto promise = self_->make_response_promise<description>();
  self_->request(parts_.destinations->reader("list"), store_timeout, make_local(list_stale{}))
      .then([this, promise](const local<stale_users>& stale) { count_all(*stale, promise); },
            [promise](const caf::error& e) mutable { promise.deliver(e); });
  return promise;
}

void supervisor_core::count_all(const stale_users& stale, caf::typed_response_promise<description> promise) {
  const auto old_since = parts_.destinations->wall_ms() - stale_is_old_ms;
  const auto old = std::count_if(stale.list.begin(), stale.list.end(),
                                 [old_since](const stale_user& one) { return one.since_ms < old_since; });
  self_->request(parts_.destinations->reader("list"), store_timeout, make_local(list_destinations{}))
      .then(
          [this, count = stale.list.size(), old, promise](const local<destination_rows>& all) mutable {
            nlohmann::json states{{"open", 0}, {"closed", 0}, {"probing", 0}, {"held", 0}, {"denied", 0}};
            // B119: that most fail in the same way is one fact about us, not many about them.
            nlohmann::json failing = nlohmann::json::object();
            const auto add = [](nlohmann::json& into, const std::string& what) {
              into[what] = into.value(what, 0) + 1;
            };
            std::int64_t quarantined = 0;
            for (const auto& row : all->rows) {
              const auto view = shown(row);
              quarantined += row.quarantined;
              add(states, view.state);
              if ((view.state == "closed" || view.state == "probing") && view.last_error)
                add(failing, std::string(to_string(view.last_error->stage)));
            }
            states["in_memory"] = children_.size();
            // Those with a window know best what waits: their acks may not be written yet. All others, and these too if
            // there are many, are counted in the store (actors/whole_totals.hpp).
            std::vector<destination_actor> asked;
            auto names = nlohmann::json::array();
            for (const auto& [name, one] : children_) {
              if (!one.actor || !one.subscribed) continue;
              asked.push_back(one.actor);
              names.push_back(name);
            }
            if (asked.size() > most_asked) {
              asked.clear();
              names.clear();
            }
            nlohmann::json totals{
                {"destinations", states},
                {"failing", std::move(failing)},
                {"stale_users", count},
                {"stale_users_old", old},
                {"partial_joins", joins_.size()},
                {"quarantined", quarantined},
                {"head", all->head},
                {"actor_restarts", restarts_},
                {"last_restart", last_restart_.empty() ? nlohmann::json() : nlohmann::json(last_restart_)},
                {"last_restart_ms", last_restart_wall_ms_ ? nlohmann::json(last_restart_wall_ms_) : nlohmann::json()},
                {"total", all->rows.size()},
                {"rates", parts_.destinations->rates->view(parts_.destinations->wall_ms())}};
            totals["counted"] = std::move(names);
            auto into = gather(asked.size(), [totals, promise](gathering& g) mutable {
              nlohmann::json waiting{{"pdus", 0}, {"device_lists", 0}, {"to_device", 0}};
              std::int64_t oldest = 0, catching_up = 0;
              for (const auto& view : g.views) {
                if (!view.contains("destination")) continue;
                const auto& pending = view["destination"]["pending"];
                for (const auto* kind : {"pdus", "device_lists", "to_device"})
                  waiting[kind] = waiting[kind].get<std::int64_t>() + pending.value(kind, std::int64_t(0));
                oldest = std::max(oldest, pending.value("oldest_age_ms", std::int64_t(0)));
                const auto& one = view["destination"];
                if (one["gate"].value("state", "") == "open" && one.value("catching_up", false)) ++catching_up;
              }
              waiting["oldest_age_ms"] = oldest;
              totals["waiting"] = std::move(waiting);
              totals["destinations"]["catching_up"] = catching_up;
              promise.deliver(description{text_of(totals)});
            });
            for (const auto& one : asked)
              ask(into, one, false);
          },
          [promise](const caf::error& e) mutable { promise.deliver(e); });
}

} // namespace ranvier
