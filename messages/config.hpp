#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ranvier {

/// The configuration, one struct a section, as API.md section 2 has it; durations in ms. Defaults are the documented
/// ones.
struct old_key_config {
  std::string key_id, key;
  std::int64_t expired_ms = 0;
};
struct federation_config {
  std::string listen = "127.0.0.1:8448";
  std::string tls_certificate, tls_private_key;
  bool verify_certificates = true;
  std::string ca_file;
  std::vector<std::string> allow, deny;
  std::vector<std::string> ip_deny; ///< filled with the documented list by default_config()
  std::string tls_minimum = "1.2";
  std::string upstream;
  bool display_names = true;
  bool http2 = true;                    ///< HTTP/2 where a peer offers it
  std::vector<std::string> dns_servers; ///< "ip" or "ip:port"; empty: those of /etc/resolv.conf
  std::map<std::string, std::string> addresses;
};
struct host_config {
  std::string listen = "127.0.0.1:8449";
  std::vector<std::string> consumers{"host"};
};
struct admin_config {
  std::string listen;
};
struct backoff_config {
  std::int64_t first_ms = 5'000;
  double factor = 2.0;
  std::int64_t max_ms = 86'400'000;
  double jitter = 0.5;
};
struct delivery_config {
  std::int64_t max_in_flight = 512;
  std::int64_t max_new_connections_per_second = 500;
  std::int64_t idle_connection_timeout_ms = 120'000;
  std::int64_t request_timeout_ms = 60'000;
  std::int64_t connect_timeout_ms = 10'000;
  std::int64_t catch_up_events_per_room = 50;
  std::int64_t to_device_max_age_ms = 30LL * 86'400'000;
  std::int64_t device_changes_horizon_ms = 7LL * 86'400'000;
  std::int64_t announce_after_outage_ms = 600'000;
  std::int64_t device_update_burst = 20;
  std::int64_t device_update_interval_ms = 30'000;
  std::int64_t join_update_delay_ms = 2'000;
};
struct partial_join_config {
  std::int64_t abandon_after_ms = 86'400'000;
  std::int64_t request_timeout_ms = 60'000;
};
struct limits_config {
  std::int64_t transaction_pdus = 50;
  std::int64_t transaction_edus = 100;
  std::int64_t transaction_bytes = 1'048'576;
  std::int64_t devices_per_user = 10'000;
  std::int64_t inbound_body_bytes = 13'107'200;
  std::int64_t inbound_transactions_per_origin = 5;
  std::int64_t stream_bytes = 1'073'741'824;
  std::int64_t federation_connections = 2'000;
  std::int64_t waiting_calls = 1'000;
};
struct log_config {
  std::string level = "info";
  std::string format = "text";
};
struct config {
  std::string server_name;
  std::string data_dir = "./ranvier-data";
  std::string signing_key;
  std::vector<old_key_config> old_keys, also_keys;
  federation_config federation;
  host_config host;
  admin_config admin;
  backoff_config backoff;
  delivery_config delivery;
  partial_join_config partial_join;
  limits_config limits;
  log_config log;
  std::string file; ///< where it was read from, for messages; empty: no file
};

/// All mistakes, each a sentence with file, line and what is allowed.
struct config_result {
  config value;
  std::vector<std::string> problems;
};

/// Reads TOML text (`file` names it in messages), then RANVIER_SECTION_KEY from `environment` over it, then `flags`
/// ("section.key" -> value) over that. Unknown keys, wrong types and unusable values are problems, with the nearest
/// valid key named. Doesn't touch the disk or the environment itself.
config_result read_config(const std::string& text, const std::string& file,
                          const std::map<std::string, std::string>& environment,
                          const std::map<std::string, std::string>& flags);

/// A duration: a number, fractions too, with ms, s, m, h or d. In ms; -1 if it isn't one.
std::int64_t parse_duration(const std::string& text);

} // namespace ranvier
