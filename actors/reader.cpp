#include "actors/reader.hpp"

#include "actors/actor_facts.hpp"
#include "actors/log.hpp"
#include "messages/joins.hpp"
#include "storage/destination_store.hpp"
#include "storage/inbox_store.hpp"
#include "storage/key_store.hpp"
#include "storage/owed.hpp"
#include "storage/own_lists.hpp"
#include "storage/partial_joins.hpp"
#include "storage/presence.hpp"
#include "storage/quarantine.hpp"
#include "storage/remote_lists.hpp"
#include "storage/room_store.hpp"

#include <algorithm>
#include <optional>
#include <set>

namespace ranvier {

namespace {

struct holder;
using self_pointer = reader_actor::stateful_pointer<holder>;

class core {
public:
  core(reader_actor::pointer self, reader_settings settings)
      : settings_(std::move(settings))
      , db_(settings_.path, storage::database::mode::read)
      , destinations_(db_)
      , owed_(db_, settings_.catch_up_events_per_room)
      , keys_(db_)
      , own_(db_, settings_.display_names)
      , remote_(db_)
      , instance_(db_.text("SELECT value FROM meta WHERE key = 'instance'").value_or(""))
      , facts_(self, "reader", settings_.name, "engine", settings_.wall_ms()) {}

  reader_actor::behavior_type make_behavior();

private:
  /// Runs a question in a snapshot; a failure is logged and becomes an error for the asker.
  template <class T, class F> caf::result<local<T>> within(F&& question) {
    facts_.count();
    try {
      storage::snapshot moment(db_);
      return make_local<T>(question());
    } catch (const storage::error& failed) {
      ++failures_;
      log_error("reader_cannot_read", {{"reason", failed.what()}});
      if constexpr (requires(T broken) {
                      broken.ok = false;
                      broken.problem = std::string();
                    }) {
        T broken;
        broken.ok = false;
        broken.problem = failed.what();
        return make_local<T>(std::move(broken));
      } else {
        return caf::make_error(caf::sec::runtime_error, std::string(failed.what()));
      }
    }
  }

  position head() { return db_.integer("SELECT value FROM meta WHERE key = 'head'").value_or(0); }
  loaded_destination load(const load_destination& what);
  owed_items owed(const read_owed& what);
  owed_counts count(const count_owed& what);
  stream_page stream(const read_stream& what);
  known_keys known(const find_known_keys& what);
  names list_all_owed(const list_owed& what);
  description describe_me() const;

  reader_settings settings_;
  storage::database db_;
  storage::destination_store destinations_;
  storage::owed_reader owed_;
  storage::key_store keys_;
  storage::own_lists own_;
  storage::remote_list_reader remote_;
  std::string instance_;
  actor_facts facts_;
  std::uint64_t failures_ = 0;
};

struct holder {
  holder() = default;
  std::optional<core> it;
};

loaded_destination core::load(const load_destination& what) {
  auto here = head();
  if (auto row = destinations_.find(what.name)) {
    const auto server = db_.integer("SELECT id FROM server WHERE name = ?", what.name).value_or(0);
    const bool nothing_passed = storage::quarantine(db_).nothing_passed(server, row->gate.last_success_ms);
    return {true, nothing_passed, std::move(*row), here};
  }
  loaded_destination unknown;
  unknown.row.name = what.name;
  unknown.row.at = {here, here, here};
  unknown.head = here;
  return unknown;
}

owed_items core::owed(const read_owed& what) {
  auto page = owed_.page(what.destination, what.after, what.upto,
                         {what.max_pdus, what.max_bytes, what.max_to_device, what.max_extras, what.extras_after});
  owed_items out;
  out.retried = std::move(page.retried);
  out.extras = std::move(page.extras);
  out.more_extras = page.more_extras;
  out.pdus = std::move(page.pdus);
  out.to_device = std::move(page.to_device);
  out.more_pdus = page.more_pdus;
  out.more_to_device = page.more_to_device;
  out.pdus_through = page.pdus_through;
  out.to_device_through = page.to_device_through;
  out.let_go_at = std::move(page.let_go_at);
  out.rooms_behind = std::move(page.rooms_behind);
  return out;
}

owed_counts core::count(const count_owed& what) {
  auto totals = owed_.count(what.destination, what.after);
  owed_counts out;
  out.pdus = totals.pdus;
  out.to_device = totals.to_device;
  const auto lists = own_.count(what.destination, what.after.device_lists);
  out.device_lists = lists.entries;
  out.oldest_at_ms = totals.oldest_at_ms;
  if (lists.entries > 0 && (out.oldest_at_ms == 0 || lists.oldest_at_ms < out.oldest_at_ms))
    out.oldest_at_ms = lists.oldest_at_ms;
  out.behind = std::max<std::int64_t>(0, head() - std::min(what.after.pdu, what.after.to_device));
  return out;
}

stream_page core::stream(const read_stream& what) {
  // The bounds are taken before the first question, at which the snapshot begins: then everything durable up to them is
  // visible in it, and no item is passed over because one behind it, in memory, was seen first.
  auto bounds = settings_.inbox->limits();
  if (!bounds.known) bounds = storage::stored_bounds(db_);
  auto after = what.has_after ? what.after : bounds.floor;
  auto items = settings_.inbox->read(after, bounds.head, what.limit, settings_.wall_ms());
  for (auto& item : storage::read_stream(db_, after, bounds.head, what.limit))
    items.push_back(std::move(item));
  std::sort(items.begin(), items.end(), [](const auto& a, const auto& b) { return a.pos < b.pos; });
  if (items.size() > what.limit) items.resize(what.limit);
  stream_page page;
  page.instance = instance_;
  for (auto& item : items)
    page.items.emplace_back(item.pos, stream_item{std::move(item.kind), std::move(item.json)});
  page.oldest = bounds.floor + 1;
  page.head = bounds.head;
  page.reserved = std::max(bounds.reserved, bounds.head);
  return page;
}

/// Servers that are owed something of any kind, or whose users' lists must be fetched.
names core::list_all_owed(const list_owed& what) {
  std::set<std::string> all;
  for (auto& list : {owed_.list(what.after, what.limit), own_.owed_servers(what.after, what.limit),
                     remote_.servers_with_stale(what.after, what.limit)})
    all.insert(list.begin(), list.end());
  names out;
  for (const auto& name : all)
    if (out.list.size() < what.limit) out.list.push_back(name);
  return out;
}

known_keys core::known(const find_known_keys& what) {
  known_keys out;
  for (const auto& [user, devices] : what.users) {
    auto known = own_.keys(user, devices, user == what.requester && !what.for_federation, what.for_federation);
    if (known.state != list_state::own && !what.for_federation) known = remote_.keys(user, devices);
    out.users.emplace(user, std::move(known));
  }
  return out;
}

description core::describe_me() const {
  auto view = facts_.view("ready", "");
  view["failed_queries"] = failures_;
  return {view.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

reader_actor::behavior_type core::make_behavior() {
  return {
      [this](const local<load_destination>& what) { return within<loaded_destination>([&] { return load(*what); }); },
      [this](const local<read_owed>& what) { return within<owed_items>([&] { return owed(*what); }); },
      [this](const local<count_owed>& what) { return within<owed_counts>([&] { return count(*what); }); },
      [this](const local<list_owed>& what) { return within<names>([&] { return list_all_owed(*what); }); },
      [this](const local<list_unannounced>& what) {
        return within<unannounced>([&] {
          const auto since = storage::announce_since(db_);
          if (since == 0) return unannounced{};
          return unannounced{since,
                             storage::unannounced_servers(db_, since, settings_.wall_ms(), what->after, what->limit)};
        });
      },
      [this](const local<list_unreachable>& what) {
        return within<names>(
            [&] { return names{storage::unreachable_servers(db_, what->since_ms, what->after, what->limit)}; });
      },
      [this](const local<find_unreachable>&) {
        return within<found_unreachable>([&] {
          found_unreachable out;
          out.since_ms = storage::first_unreachable_since(db_, storage::latest_success(db_));
          if (out.since_ms > 0) out.list = storage::unreachable_servers(db_, out.since_ms, "", 100);
          return out;
        });
      },
      [this](const local<list_destinations>&) {
        return within<destination_rows>([&] { return destination_rows{destinations_.all(), head()}; });
      },
      [this](const local<list_quarantine>&) {
        return within<quarantine_rows>([&] { return quarantine_rows{storage::quarantine(db_).list()}; });
      },
      [this](const local<read_stream>& what) { return within<stream_page>([&] { return stream(*what); }); },
      [this](const local<find_transaction>& what) {
        return within<found_transaction>([&] {
          auto answer =
              db_.text("SELECT answer FROM inbound WHERE origin = ? AND txn_id = ?", what->origin, what->txn_id);
          return found_transaction{answer.has_value(), answer.value_or("")};
        });
      },
      [this](const local<find_keys>& what) {
        return within<found_keys>([&] {
          found_keys out;
          for (auto& key : keys_.find(what->server))
            out.keys.push_back({key.server, key.key_id, key.key, key.valid_until_ms, key.expired_ms});
          return out;
        });
      },
      [this](const local<find_room>& what) {
        return within<found_room>([&] {
          auto room = storage::find_room(db_, what->room_id, what->with_members);
          return found_room{room.known,   room.version,    room.acl, std::move(room.members), std::move(room.servers),
                            room.partial, room.ours_joined};
        });
      },
      [this](const local<find_source>& what) {
        return within<found_source>([&] {
          auto seq = storage::last_seq(db_, what->source);
          return found_source{seq.has_value(), seq.value_or(0)};
        });
      },
      [this](const local<find_rooms_of>& what) {
        return within<names>([&] { return names{storage::rooms_of(db_, what->destination)}; });
      },
      [this](const local<read_device_updates>& what) {
        return within<device_updates>([&] { return own_.updates(*what); });
      },
      [this](const local<read_own_list>& what) { return within<own_list>([&] { return own_.list(what->user); }); },
      [this](const local<find_known_keys>& what) { return within<known_keys>([&] { return known(*what); }); },
      [this](const local<count_one_time_keys>& what) {
        return within<one_time_key_counts>([&] { return own_.counts(what->user, what->device); });
      },
      [this](const local<find_device_changes>& what) {
        return within<device_changes>(
            [&] { return remote_.changes(*what, settings_.wall_ms(), settings_.device_changes_horizon_ms); });
      },
      [this](const local<list_stale>& what) {
        return within<stale_users>([&] { return remote_.stale(what->server); });
      },
      [this](const local<list_partial_joins>& what) {
        return within<partial_joins>([&] { return partial_joins{storage::list_partial_joins(db_, what->room_id)}; });
      },
      [this](const local<read_join_events>& what) {
        return within<join_events>(
            [&] { return join_events{storage::read_join_events(db_, what->room_id, what->bodies)}; });
      },
      [this](const local<read_room_state>& what) {
        return within<room_state>([&] { return storage::read_room_state(db_, what->room_id); });
      },
      [this](const describe&) {
        facts_.count();
        return describe_me();
      },
  };
}

reader_actor::behavior_type reader_behavior(self_pointer self, reader_settings settings) {
  self->set_exception_handler([](std::exception_ptr& failure) -> caf::error {
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& cause) {
      log_error("reader_failed", {{"reason", cause.what()}});
    } catch (...) {
      log_error("reader_failed", {{"reason", "an exception without words"}});
    }
    return caf::make_error(caf::sec::runtime_error, "a reader failed");
  });
  self->state.it.emplace(self, std::move(settings));
  return self->state.it->make_behavior();
}

} // namespace

reader_actor spawn_reader(caf::actor_system& system, reader_settings settings, bool detached) {
  if (detached) return system.spawn<caf::detached>(reader_behavior, std::move(settings));
  return system.spawn(reader_behavior, std::move(settings));
}

} // namespace ranvier
