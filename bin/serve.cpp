#include "bin/serve.hpp"

#include "actors/admin_api.hpp"
#include "actors/egress.hpp"
#include "actors/engine.hpp"
#include "actors/ingress.hpp"
#include "actors/log.hpp"
#include "actors/log_level.hpp"
#include "actors/tokens.hpp"
#include "actors/whole_totals.hpp"
#include "bin/cli.hpp"
#include "bin/descriptors.hpp"
#include "bin/status_page.hpp"
#include "bin/watchdog.hpp"
#include "messages/config_text.hpp"
#include "storage/identity.hpp"
#include "storage/lock_file.hpp"

#include <systemd/sd-daemon.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <sstream>

namespace ranvier {
namespace {

using namespace std::chrono_literals;

/// At the end: for transactions in flight to be answered, and for requests of hosts and servers.
constexpr std::chrono::milliseconds last_answers_within = 5s;
constexpr std::chrono::milliseconds listeners_end_within = 3s;
/// For the watchdog: how long supervisor and ledger may take for a word. A disk that stands still is no reason to die.
constexpr std::chrono::milliseconds sign_of_life_within = 10s;

std::int64_t wall_now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::int64_t steady_now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Something about the start can't be used; what() says what and what to do. Ends with 78.
struct bad_start : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw bad_start(path + " can't be read");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_secret(const std::string& path, const std::string& text) {
  const auto old = ::umask(0077);
  std::ofstream file(path);
  file << text;
  file.close();
  ::umask(old);
  if (!file) throw bad_start(path + " can't be written");
}

std::shared_ptr<const signing_key> load_key(const config& settings) {
  const auto path = settings.signing_key.empty() ? settings.data_dir + "/signing.key" : settings.signing_key;
  try {
    if (std::filesystem::exists(path))
      return std::make_shared<const signing_key>(signing_key::from_file_text(read_file(path)));
    auto made = signing_key::generate();
    write_secret(path, made.file_text());
    log_info("signing_key_made", {{"path", path}, {"key_id", made.key_id()}});
    return std::make_shared<const signing_key>(std::move(made));
  } catch (const bad_start&) {
    throw;
  } catch (const std::exception& problem) {
    throw bad_start("the signing key in " + path + " can't be used: " + problem.what());
  }
}

std::string random_text() {
  std::random_device device;
  std::ostringstream text;
  text << std::hex;
  for (int i = 0; i < 4; ++i)
    text << device();
  return text.str();
}

/// As many descriptors as the kernel allows (DESIGN section 3); the caps are lowered, loudly, if that isn't enough.
/// The number of outgoing connections that fit.
std::int64_t raise_descriptor_limit(config& settings) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  const auto have = std::int64_t(std::min<rlim_t>(limit.rlim_max, 10'000'000));
  const auto plan = fit_descriptors(have, {settings.limits.federation_connections, settings.delivery.max_in_flight});
  if (!plan.problem.empty()) throw bad_start(plan.problem);
  if (!plan.lowered) return plan.outgoing_connections;
  settings.limits.federation_connections = plan.caps.federation_connections;
  settings.delivery.max_in_flight = plan.caps.max_in_flight;
  log_warning("descriptor_limit_small",
              {{"descriptors", std::to_string(have)},
               {"federation_connections", std::to_string(plan.caps.federation_connections)},
               {"max_in_flight", std::to_string(plan.caps.max_in_flight)},
               {"means", "the configured limits don't fit; raise the limit of open files (ulimit -n, LimitNOFILE)"}});
  return plan.outgoing_connections;
}

/// Only the main thread takes these; must run before any thread is made.
sigset_t block_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN); // a file size limit is a full disk, not the end
  sigset_t set;
  sigemptyset(&set);
  for (const int one : {SIGTERM, SIGINT, SIGHUP})
    sigaddset(&set, one);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return set;
}

/// A second signal while the engine ends: at once. Whatever was answered is durable.
void end_at_next_signal(const sigset_t& signals) {
  for (const int one : {SIGTERM, SIGINT})
    std::signal(one, [](int) { ::_exit(exit_ok); });
  std::signal(SIGHUP, SIG_IGN);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

/// Resident memory of this process, in bytes; 0 if the kernel doesn't say.
double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;
  return file >> all >> resident ? resident * double(::sysconf(_SC_PAGESIZE)) : 0;
}

/// SIGHUP: the configuration is read again, every change is named, and what a running engine can take up is. `running`
/// is what this process goes by. A configuration that can't be used changes nothing.
void reload(config& running, const serve_options& options) {
  if (!options.reload) return;
  try {
    const auto read = options.reload();
    const auto changes = config_changes(running, read);
    for (const auto& change : changes)
      log_info("configuration_changed", {{"key", change.path},
                                         {"from", change.from},
                                         {"to", change.to},
                                         {"takes_effect", change.at_once ? "now" : "at the next start"}});
    set_log_level(read.log.level);
    running.log.level = read.log.level;
    log_info("reloaded", {{"changes", std::to_string(changes.size())}});
  } catch (const std::exception& problem) {
    log_error("reload_refused", {{"why", problem.what()}, {"means", "the engine goes on with what it had"}});
  }
}

/// Everything between the lock on the data folder and its release.
class running_engine {
public:
  running_engine(config settings, const serve_options& options, std::int64_t outgoing_connections)
      : settings_(std::make_shared<config>(std::move(settings)))
      , lock_(settings_->data_dir + "/lock")
      , key_(load_key(*settings_))
      , options_(options) {
    const auto database = settings_->data_dir + "/ranvier.db";
    const auto report = storage::prepare(database, {settings_->server_name, key_->key_id(), key_->public_key()},
                                         options.accept_new_identity, random_text());
    for (const auto& name : report.cursors_pulled_back)
      log_warning("cursor_pulled_back", {{"destination", name}, {"why", "it stood beyond the head of the log"}});
    auto out = spawn_outgoing(system_, *settings_, std::random_device{}(), outgoing_connections);
    egress_ = out.egress;
    resolver_ = out.resolver;
    engine_.emplace(system_, engine_parts{*settings_, key_, database, wall_now_ms, std::random_device{}(), true,
                                          out.egress, counters_, [this] { become_ready(); },
                                          [](const std::string& why) {
                                            log_error("engine_failed", {{"why", why}});
                                            std::_Exit(exit_fault);
                                          },
                                          [this](const std::string& problem) { storage_health(problem); },
                                          [this] { stream_moved(); }});
    open_ears();
  }

  /// What is in flight gets a bounded time to be answered and acked; nothing new begins. Then everything ends.
  ~running_engine() {
    sd_notify(0, "STOPPING=1");
    watchdog_.reset();
    ready_->stop();
    caf::scoped_actor self{system_};
    auto last_answers =
        self->request(engine_->supervisor(), last_answers_within + 1s, wind_down{last_answers_within.count()});
    for (auto& server : admin_)
      server->stop();
    if (listeners_) listeners_->stop(listeners_end_within);
    last_answers.receive([](const done&) {}, [](const caf::error&) {});
    // Acks that destinations sent the ledger stand before this in its mailbox; its end writes what it gathered.
    self->request(engine_->ledger(), last_answers_within, describe{true})
        .receive([](const description&) {}, [](const caf::error&) {});
    caf::anon_send_exit(ingress_, caf::exit_reason::user_shutdown);
    self->wait_for(ingress_);
    caf::anon_send_exit(introspector_, caf::exit_reason::user_shutdown);
    engine_.reset();
    caf::anon_send_exit(egress_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(resolver_, caf::exit_reason::user_shutdown);
  }

private:
  static caf::actor_system_config& system_settings() {
    static caf::actor_system_config settings;
    settings.set("scheduler.policy", caf::atom("sharing")); // LIBRARIES section 0: the others stall or starve
    settings.set("scheduler.max-threads", std::size_t(2));
    settings.set("scheduler.max-throughput", std::size_t(300));
    settings.set("logger.file-verbosity", caf::atom("quiet"));
    return settings;
  }

  void open_ears() {
    ingress_parts parts;
    parts.supervisor = engine_->supervisor();
    parts.ledger = engine_->ledger();
    parts.reader = [this] { return engine_->next_reader(); };
    parts.keyring = engine_->keyring();
    parts.settings = settings_;
    parts.key = key_;
    parts.wall_ms = wall_now_ms;
    parts.metrics = [this] { return read_metrics(); };
    parts.counters = counters_;
    counters_->set("process_start_time_seconds", "", double(wall_now_ms()) / 1000);
    parts.ready = ready_;
    parts.host_token = load_or_make_token(settings_->data_dir + "/host_token");
    parts.version = RANVIER_VERSION;
    ingress_ = spawn_ingress(system_, parts);
    ears_open_ = true;
    auto others = engine_->single_actors();
    others.push_back(caf::actor_cast<describable>(ingress_));
    others.push_back(caf::actor_cast<describable>(resolver_));
    introspector_ = spawn_introspector(
        system_, {settings_->data_dir + "/ranvier.db", wall_now_ms, settings_->delivery.catch_up_events_per_room},
        true);
    others.push_back(caf::actor_cast<describable>(introspector_));
    caf::anon_send(engine_->supervisor(), make_local(introduce{others}));
    others.push_back(caf::actor_cast<describable>(engine_->supervisor()));
    listeners_.emplace(parts, ingress_);
    watchdog_.emplace([this] { return is_alive(); });
    auto audit = std::make_shared<audit_file>(settings_->data_dir + "/audit.log");
    admin_parts office{parts, others, "", resolver_, audit, introspector_, options_.origins, status_page};
    open_admin(settings_->data_dir + "/admin.sock", office);
    if (settings_->admin.listen.empty()) return;
    office.token = load_or_make_token(settings_->data_dir + "/admin_token");
    open_admin(settings_->admin.listen, office);
  }

  void open_admin(const std::string& listen, admin_parts parts) {
    auto desk = std::make_shared<admin_desk>(system_, std::move(parts));
    admin_.push_back(
        std::make_unique<admin_server>(listen, [desk](const admin_request& r) { return desk->answer(r); }));
  }

  /// Counters are always true; the gauges are asked for, at most once in 5 s, and stay as they were if nobody answers.
  std::string read_metrics() {
    const auto now = steady_now_ms(); // a wall clock that is set back must not freeze them
    auto last = gauges_at_ms_.load();
    if ((last == 0 || now - last >= 5'000) && gauges_at_ms_.compare_exchange_strong(last, now)) {
      if (const auto all = whole_totals(system_, engine_->supervisor(), introspector_, wall_now_ms(), 500ms))
        set_gauges(*all);
    }
    counters_->set("ranvier_ready", "", ready_->get().first ? 1 : 0);
    counters_->set("process_resident_memory_bytes", "", resident_bytes());
    std::error_code missing;
    const auto database = std::filesystem::file_size(settings_->data_dir + "/ranvier.db", missing);
    if (!missing) counters_->set("ranvier_database_bytes", "", double(database));
    return counters_->render();
  }

  /// Those answer without whom the process does nothing; the supervisor looks after the rest.
  bool is_alive() {
    caf::scoped_actor self{system_};
    bool alive = true;
    for (const auto& one :
         {caf::actor_cast<describable>(engine_->supervisor()), caf::actor_cast<describable>(engine_->ledger())})
      self->request(one, sign_of_life_within, describe{true})
          .receive([](const description&) {}, [&alive](const caf::error&) { alive = false; });
    return alive;
  }

  void set_gauges(const nlohmann::json& all) {
    if (!all.is_object() || !all.contains("waiting")) return;
    for (const auto* state : {"open", "closed", "probing", "held", "denied"})
      counters_->set("ranvier_destinations", state, all["destinations"].value(state, 0.0));
    for (const auto* stage : {"build", "resolve", "connect", "tls", "request", "answer"})
      counters_->set("ranvier_destinations_failing", stage,
                     all.value("failing", nlohmann::json::object()).value(stage, 0.0));
    for (const auto* kind : {"pdus", "device_lists", "to_device"})
      counters_->set("ranvier_waiting", kind, all["waiting"].value(kind, 0.0));
    counters_->set("ranvier_waiting_oldest_seconds", "", all["waiting"].value("oldest_age_ms", 0.0) / 1000);
    counters_->set("ranvier_destinations_in_memory", "", all["destinations"].value("in_memory", 0.0));
    counters_->set("ranvier_log_head", "", all.value("head", 0.0));
    for (const auto* name : {"stale_users", "partial_joins", "quarantined"})
      counters_->set(std::string("ranvier_") + name, "", all.value(name, 0.0));
  }

  void become_ready() {
    ready_->set(true);
    log_info("ready", {{"server_name", settings_->server_name},
                       {"federation", settings_->federation.listen},
                       {"host", settings_->host.listen},
                       {"data_dir", settings_->data_dir}});
    sd_notify(0, "READY=1");
  }

  void storage_health(const std::string& problem) {
    if (problem.empty()) ready_->set(true);
    else ready_->set(false, "the database can't be written: " + problem);
  }

  void stream_moved() {
    if (ears_open_) caf::anon_send(ingress_, stream_advanced{});
  }

  std::shared_ptr<config> settings_;
  storage::lock_file lock_;
  std::shared_ptr<const signing_key> key_;
  std::shared_ptr<metrics> counters_ = std::make_shared<metrics>();
  std::atomic<std::int64_t> gauges_at_ms_{0};
  std::shared_ptr<readiness> ready_ = std::make_shared<readiness>();
  caf::actor_system system_{system_settings()};
  egress_actor egress_;
  resolver_actor resolver_;
  std::optional<engine> engine_;
  ingress_actor ingress_;
  introspector_actor introspector_;
  const serve_options& options_;
  std::atomic<bool> ears_open_{false}; ///< ingress_ is set: the ledger's thread may use it
  std::optional<ingress_listeners> listeners_;
  std::vector<std::unique_ptr<admin_server>> admin_;
  std::optional<watchdog> watchdog_;
};

} // namespace

int serve(const config& settings, const serve_options& options) {
  const auto signals = block_signals();
  start_logging(settings.log.level, settings.log.format);
  auto refuse = [](const std::string& why) {
    log_error("not_started", {{"why", why}});
    return exit_config;
  };
  try {
    start_crypto();
    if (settings.server_name.empty())
      return refuse("no server_name is configured; set it in the file, by RANVIER_SERVER_NAME or --server-name");
    std::filesystem::create_directories(settings.data_dir);
    std::filesystem::permissions(settings.data_dir, std::filesystem::perms::owner_all);
    auto own = settings;
    const auto outgoing_connections = raise_descriptor_limit(own);
    running_engine engine(std::move(own), options, outgoing_connections);
    auto in_force = settings; // as far as it can be told: what needs a start is told again at each reload
    int signal = 0;
    while (sigwait(&signals, &signal) == 0 && signal == SIGHUP)
      reload(in_force, options);
    log_info("stopping", {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"}});
    end_at_next_signal(signals);
  } catch (const std::exception& problem) {
    return refuse(problem.what());
  }
  return exit_ok;
}

} // namespace ranvier
