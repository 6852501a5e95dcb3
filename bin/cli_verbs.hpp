#pragma once
#include "bin/admin_client.hpp"
#include "bin/cli_config.hpp"

#include <optional>
#include <string>
#include <vector>

// What each verb does once the command line is read. Each gives the exit code, or throws cli_failure. Data goes to
// standard output, words to standard error (API.md section 6).

namespace ranvier {

/// What the verbs that speak to an engine take.
struct admin_options {
  std::string socket, url, data_dir, config_file, token_file;
};
/// Flag, RANVIER_DATA_DIR, data_dir of the given configuration, ./ranvier-data: the first that is given names the
/// folder.
admin_address find_engine(const admin_options& options);

struct listing_options {
  std::string output = "table"; ///< table, wide, json, jsonl, custom=COL,...
  std::string sort;
  std::int64_t limit = -1; ///< -1: all
  bool headers = true;
  double watch_s = 0; ///< above 0: again and again, so often
};
struct selector_options {
  std::string pattern, state, error, older;
};

int print_version(const std::string& output);
int generate_key(const std::string& out_file);
int check_config(const config_source& from);

int show_status(const admin_client& engine, const std::string& output);
int list_destinations(const admin_client& engine, const selector_options& which, const listing_options& how);
int show_destination(const admin_client& engine, const std::string& name, const std::string& output);
int list_actors(const admin_client& engine, const listing_options& how);
int list_stale_users(const admin_client& engine, const listing_options& how);
/// Exit code 1 if the list couldn't be fetched at once; it will be.
int resync_user(const admin_client& engine, const std::string& user, const std::string& output);

// Looking into one thing: cli_inspect.cpp.
int show_why(const admin_client& engine, const std::string& subject, const std::string& output);
int show_shape(const admin_client& engine, const selector_options& which, const listing_options& how);
int list_queue(const admin_client& engine, const std::string& name, const listing_options& how);
int list_rooms(const admin_client& engine, const std::string& name, const listing_options& how);
int list_attempts(const admin_client& engine, const std::string& name, const listing_options& how);
int list_audit(const admin_client& engine, const listing_options& how);

// What happens: cli_events.cpp. Numbers as they change: cli_meters.cpp.
int show_events(const admin_client& engine, bool and_on, std::int64_t last, const std::string& output);
int trace_destination(const admin_client& engine, const std::string& name, const std::string& output);
int show_config(const admin_client& engine, bool origin, const std::string& output);
int show_top(const admin_client& engine, const listing_options& how);
int show_stat(const admin_client& engine, double seconds, std::int64_t times, const std::string& output);

// Asking the world outside through the engine: cli_probe.cpp. Exit code 1 if the answer is no.
int show_route(const admin_client& engine, const std::string& name, bool no_cache, const std::string& output);
int probe_server(const admin_client& engine, const std::string& name, const std::string& output);

struct drop_options {
  std::string reason, older, output, within; ///< older: only what waits as long; within: of drain
  bool dry_run = false, yes = false;
};
/// Counts first, asks, then drops.
int drop_owed(const admin_client& engine, const selector_options& which, const drop_options& how);
/// Exit code 1 if something is left for servers that can be reached.
int drain_engine(const admin_client& engine, const std::string& within, const std::string& output);
/// A bundle for those who help, in a new file. `data_dir`: where the engine's secrets are, which are looked for in it.
int write_report(const admin_client& engine, const std::string& file, const std::string& data_dir);
int restart_actor(const admin_client& engine, const std::string& id, const std::string& output);

struct act_options {
  std::string verb, reason, lasts, output;
};
/// wake, hold, release, reset.
int act_on(const admin_client& engine, const selector_options& which, const act_options& how);

/// Names for a verb that acts: a single one isn't looked up first. Empty: none matches.
std::vector<std::string> names_for(const admin_client& engine, const selector_options& which);

// What isn't a server: cli_subjects.cpp. What loses something asks first (bin/confirm.hpp).
struct change_options {
  std::string reason, output, lasts;
  bool yes = false, dry_run = false;
};
int list_partial_joins(const admin_client& engine, const listing_options& how);
/// retry, abandon.
int change_partial_join(const admin_client& engine, const std::string& room, const std::string& verb,
                        const change_options& how);
int list_quarantine(const admin_client& engine, const listing_options& how);
/// retry, drop; `id` as the list shows it.
int change_quarantine(const admin_client& engine, const std::string& id, const std::string& verb,
                      const change_options& how);

// The engine itself, and waiting for what it does: cli_engine.cpp.
int list_holds(const admin_client& engine, const listing_options& how);
/// `what`: delivered or open. Exit code 1 if it isn't so `within` a time (empty: 10 minutes). Looks at most 5 times a
/// second, later every 2 s.
int wait_for(const admin_client& engine, const std::string& name, const std::string& what, const std::string& within,
             const std::string& output);
int show_actor(const admin_client& engine, const std::string& id, const std::string& output);
int change_log_level(const admin_client& engine, const std::string& level, const std::string& lasts,
                     const std::string& output);
/// Exit code 1 if something is wrong with it; what, on standard output.
int check_database(const admin_client& engine, const std::string& output);
int back_up_database(const admin_client& engine, const std::string& file, const std::string& output);

/// All destinations that match; those that a state or a name alone decides are chosen by the engine.
std::vector<nlohmann::json> select_destinations(const admin_client& engine, const selector_options& which);

std::int64_t wall_now_ms();

} // namespace ranvier
