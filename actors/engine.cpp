#include "actors/engine.hpp"

#include "actors/ledger.hpp"
#include "actors/log.hpp"
#include "actors/reader.hpp"

#include <bit>
#include <functional>

namespace ranvier {
namespace {

constexpr std::size_t reader_count = 2;

/// A number in [0, 1) from the seed, a name and a counter (splitmix64): no state but the counter, so any thread may
/// ask.
double chance(std::uint64_t seed, std::uint64_t of_name, std::uint64_t turn) {
  std::uint64_t x = seed + of_name * 0x9e3779b97f4a7c15ULL + turn * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return double((x ^ (x >> 31)) >> 11) * 0x1.0p-53;
}

/// FNV-1a: the same on every machine, so that a seed means the same everywhere.
std::uint64_t hash_of(const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const unsigned char c : name)
    hash = (hash ^ c) * 0x100000001b3ULL;
  return hash;
}

/// Watches those without whom there is no engine.
caf::behavior guard(caf::event_based_actor* self, const std::vector<caf::actor>& watched,
                    const std::function<void(const std::string&)>& fatal) {
  for (const auto& one : watched)
    self->monitor(one);
  self->set_down_handler([self, fatal](const caf::down_msg& down) {
    if (down.reason == caf::exit_reason::user_shutdown) return;
    if (fatal) fatal(self->system().render(down.reason));
  });
  return {[](caf::unit_t) {}};
}

} // namespace

engine::engine(caf::actor_system& system, engine_parts parts)
    : system_(system)
    , parts_(std::move(parts))
    , inbox_(std::make_shared<storage::ephemeral_inbox>()) {
  auto ledger_settings = ledger_settings_of(parts_.settings, parts_.database, parts_.wall_ms, inbox_);
  ledger_settings.on_health = parts_.storage_health;
  ledger_settings.on_stream = parts_.stream_moved;
  ledger_ = spawn_ledger(system_, std::move(ledger_settings), parts_.detached);
  for (std::size_t i = 0; i < reader_count; ++i)
    readers_.push_back(
        spawn_reader(system_,
                     {parts_.database, parts_.wall_ms, inbox_, parts_.settings.delivery.catch_up_events_per_room,
                      "reader " + std::to_string(i + 1), parts_.settings.federation.display_names,
                      parts_.settings.delivery.device_changes_horizon_ms},
                     parts_.detached));
  auto common = std::make_shared<destination_parts>();
  common->settings = parts_.settings;
  common->key = parts_.key;
  common->ledger = ledger_;
  common->reader = [readers = readers_](const std::string& about) { return readers[hash_of(about) % readers.size()]; };
  common->egress = parts_.egress;
  common->counters = parts_.counters;
  common->rates = std::make_shared<recent_rates>();
  common->wall_ms = parts_.wall_ms;
  auto turn = std::make_shared<std::atomic<std::uint64_t>>(0);
  common->uniform = [seed = parts_.seed, turn](const std::string& name) {
    return chance(seed, hash_of(name), turn->fetch_add(1));
  };
  supervisor_ = spawn_supervisor(system_, {common, {}, parts_.ready});
  keyring_ = spawn_keyring(system_, {supervisor_, ledger_, readers_.front(), parts_.wall_ms});
  caf::anon_send(supervisor_, make_local(introduce{single_actors(), keyring_}));
  guard_ = system_.spawn(
      guard, std::vector<caf::actor>{caf::actor_cast<caf::actor>(ledger_), caf::actor_cast<caf::actor>(supervisor_)},
      parts_.fatal);
}

engine::~engine() { stop(); }

reader_actor engine::reader(const std::string& about) const { return readers_[hash_of(about) % readers_.size()]; }

reader_actor engine::next_reader() const { return readers_[turn_.fetch_add(1) % readers_.size()]; }

std::vector<describable> engine::single_actors() const {
  std::vector<describable> all{caf::actor_cast<describable>(ledger_), caf::actor_cast<describable>(keyring_),
                               caf::actor_cast<describable>(parts_.egress)};
  for (const auto& one : readers_)
    all.push_back(caf::actor_cast<describable>(one));
  return all;
}

void engine::stop() {
  if (stopped_) return;
  stopped_ = true;
  const auto reason = caf::exit_reason::user_shutdown;
  caf::anon_send_exit(guard_, reason);
  caf::anon_send_exit(supervisor_, reason); // takes its destinations along
  caf::anon_send_exit(keyring_, reason);
  caf::anon_send_exit(ledger_, reason); // writes what it gathered
  if (parts_.detached) {
    caf::scoped_actor self{system_};
    self->wait_for(ledger_);
  }
  for (const auto& one : readers_)
    caf::anon_send_exit(one, reason);
}

} // namespace ranvier
