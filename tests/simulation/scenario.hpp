#pragma once
#include "tests/simulation/model.hpp"
#include "tests/simulation/world.hpp"

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace ranvier::sim {

/// What becomes of the database while the engine is down.
enum class loss : std::uint8_t {
  none,
  lost,    ///< a new one: the host feeds its rosters, and the events of the last day
  restored ///< a backup of some hours ago: the host feeds everything since then
};

/// What kinds of trouble a run has. Everything is drawn from the seed.
struct scenario_plan {
  std::uint64_t seed = 1;
  int peers = 50, rooms = 30, local_users = 12, users_per_peer = 3;
  std::int64_t length_ms = 3 * day;
  int records = 4'000;
  int kills = 4;        ///< kill -9 of the engine, at moments of their own
  bool sources = false; ///< lines carry source and seq
  bool uplink_outage = false;
  bool speak_when_well =
      false;                  ///< once healed, peers send us something each minute: they are served soon, not in a day
  bool host_away = false;     ///< the host is silent for a day, then feeds everything again, old and new
  loss database = loss::none; ///< once, in a kill of its own
  int tarpits = 0;            ///< per cent of the peers that take requests and never answer, for two days
  int failing_percent = 0;    ///< of all requests, in every class, for a day
  int max_in_flight = 512;
  int device_percent = 20;  ///< of the host's batches have a change of a device of ours
  int changes_per_peer = 6; ///< of devices of its users, at most
};

/// A host that speaks to the engine: the lines of one request, and when.
struct feed_batch_plan {
  std::int64_t at_ms = 0;
  std::vector<feed_item> items;
  bool all_again = false; ///< everything that was fed before goes first, once more
};
struct inbound_plan {
  std::int64_t at_ms = 0;
  std::string server;   ///< it sends us valid signed traffic
  bool is_back = false; ///< after an outage, to tell us so: it must be served soon
};
/// A user of a peer changes a device, and its server tells us; `key` empty: it is deleted.
struct change_plan {
  std::int64_t at_ms = 0;
  std::string server, user, device, key, name;
  enum class fate : std::uint8_t { told, lost, late } is = fate::told; ///< late: behind the next one that is told
};
struct kill_plan {
  std::int64_t at_ms = 0, down_for_ms = 0;
  std::int64_t wall_jump_ms = 0; ///< the wall clock was set while we were down
  loss database = loss::none;
};

struct scenario {
  scenario_plan plan;
  std::vector<feed_batch_plan> feed;
  std::vector<inbound_plan> inbound;
  std::vector<kill_plan> kills;
  std::vector<change_plan> changes;
  std::optional<std::int64_t> backup_ms; ///< when the database is copied
  std::int64_t healed_ms = 0;            ///< from then on all peers are well
};

/// Makes the peers of `outside` and the script of the run. Times count from `start_ms`.
scenario make_scenario(const scenario_plan& plan, world& outside, std::int64_t start_ms);

} // namespace ranvier::sim
