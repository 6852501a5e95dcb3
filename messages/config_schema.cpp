#include "messages/config_schema.hpp"

#include "messages/config_text.hpp"
#include "messages/config_values.hpp"
#include "messages/ids.hpp"
#include "messages/transaction.hpp"

#include <algorithm>

namespace ranvier {

namespace {

using kind = setting_kind;

/// How a key shows what `at` names.
template <class T> std::function<std::string(config&)> shown(T& (*at)(config&)) {
  return [at](config& c) { return config_text(at(c)); };
}

config_key text(std::string path, std::string& (*at)(config&)) {
  return {std::move(path), kind::text, [at](config& c, const setting& v) { return take_text(at(c), v); }, shown(at)};
}
config_key flag(std::string path, bool& (*at)(config&)) {
  return {std::move(path), kind::boolean, [at](config& c, const setting& v) { return take_bool(at(c), v); }, shown(at)};
}
config_key integer(std::string path, std::int64_t& (*at)(config&), std::int64_t least, std::int64_t most) {
  return {std::move(path), kind::integer,
          [=](config& c, const setting& v) { return take_integer(at(c), v, least, most); }, shown(at)};
}
config_key real(std::string path, double& (*at)(config&), double least, double most) {
  return {std::move(path), kind::real, [=](config& c, const setting& v) { return take_real(at(c), v, least, most); },
          shown(at)};
}
config_key duration(std::string path, std::int64_t& (*at)(config&), bool zero_allowed = false) {
  return {std::move(path), kind::duration,
          [=](config& c, const setting& v) { return take_duration(at(c), v, zero_allowed); },
          [at](config& c) { return duration_text(at(c)); }};
}
config_key listen(std::string path, std::string& (*at)(config&), bool empty_allowed) {
  return {std::move(path), kind::text,
          [=](config& c, const setting& v) { return take_host_port(at(c), v, empty_allowed); }, shown(at)};
}
config_key word(std::string path, std::string& (*at)(config&), std::vector<std::string> allowed) {
  return {std::move(path), kind::text,
          [at, allowed](config& c, const setting& v) { return take_word(at(c), v, allowed); }, shown(at)};
}
template <class T> config_key list(std::string path, T& (*at)(config&), std::string (*take)(T&, const setting&)) {
  return {std::move(path), kind::json, [=](config& c, const setting& v) { return take(at(c), v); }, shown(at)};
}

std::string take_server_name(config& c, const setting& value) {
  if (value.is != setting::type::text || !is_server_name(value.text))
    return "must be a Matrix server name like \"example.org\" or \"example.org:8448\"";
  c.server_name = value.text;
  return {};
}
std::string take_data_dir(config& c, const setting& value) {
  if (value.is == setting::type::text && value.text.empty()) return "must be the path of a folder";
  return take_text(c.data_dir, value);
}
std::string take_upstream(config& c, const setting& value) {
  if (value.is != setting::type::text || (!value.text.empty() && !is_upstream(value.text)))
    return "must be http://host:port without a path, or empty";
  c.federation.upstream = value.text.ends_with('/') ? value.text.substr(0, value.text.size() - 1) : value.text;
  return {};
}

#define AT(member)                                                                                                     \
  [](config & c) -> auto& { return c.member; }

std::vector<config_key> top_keys() {
  return {
      {"server_name", kind::text, take_server_name, shown<std::string>(AT(server_name))},
      {"data_dir", kind::text, take_data_dir, shown<std::string>(AT(data_dir))},
      text("signing_key", AT(signing_key)),
      {"old_keys", kind::json, [](config& c, const setting& v) { return take_keys(c.old_keys, v, true); },
       shown<std::vector<old_key_config>>(AT(old_keys))},
      {"also_keys", kind::json, [](config& c, const setting& v) { return take_keys(c.also_keys, v, false); },
       shown<std::vector<old_key_config>>(AT(also_keys))},
  };
}

std::vector<config_key> listener_keys() {
  return {
      listen("federation.listen", AT(federation.listen), false),
      text("federation.tls_certificate", AT(federation.tls_certificate)),
      text("federation.tls_private_key", AT(federation.tls_private_key)),
      flag("federation.verify_certificates", AT(federation.verify_certificates)),
      text("federation.ca_file", AT(federation.ca_file)),
      list<std::vector<std::string>>("federation.allow", AT(federation.allow), take_globs),
      list<std::vector<std::string>>("federation.deny", AT(federation.deny), take_globs),
      list<std::vector<std::string>>("federation.ip_deny", AT(federation.ip_deny), take_ranges),
      word("federation.tls_minimum", AT(federation.tls_minimum), {"1.2", "1.3"}),
      {"federation.upstream", kind::text, take_upstream, shown<std::string>(AT(federation.upstream))},
      flag("federation.display_names", AT(federation.display_names)),
      flag("federation.http2", AT(federation.http2)),
      list<std::vector<std::string>>("federation.dns_servers", AT(federation.dns_servers), take_dns_servers),
      list<std::map<std::string, std::string>>("federation.addresses", AT(federation.addresses), take_addresses),
      listen("host.listen", AT(host.listen), false),
      list<std::vector<std::string>>("host.consumers", AT(host.consumers), take_consumers),
      listen("admin.listen", AT(admin.listen), true),
      word("log.level", AT(log.level), {"trace", "debug", "info", "warn", "error", "off"}),
      word("log.format", AT(log.format), {"text", "json"}),
  };
}

std::vector<config_key> delivery_keys() {
  return {
      duration("backoff.first", AT(backoff.first_ms)),
      real("backoff.factor", AT(backoff.factor), 1, 100),
      duration("backoff.max", AT(backoff.max_ms)),
      real("backoff.jitter", AT(backoff.jitter), 0, 1),
      integer("delivery.max_in_flight", AT(delivery.max_in_flight), 1, 100'000),
      integer("delivery.max_new_connections_per_second", AT(delivery.max_new_connections_per_second), 1, 100'000),
      duration("delivery.idle_connection_timeout", AT(delivery.idle_connection_timeout_ms)),
      duration("delivery.request_timeout", AT(delivery.request_timeout_ms)),
      duration("delivery.connect_timeout", AT(delivery.connect_timeout_ms)),
      integer("delivery.catch_up_events_per_room", AT(delivery.catch_up_events_per_room), 1, 1'000'000),
      duration("delivery.to_device_max_age", AT(delivery.to_device_max_age_ms)),
      duration("delivery.device_changes_horizon", AT(delivery.device_changes_horizon_ms)),
      duration("delivery.announce_after_outage", AT(delivery.announce_after_outage_ms), true),
      integer("delivery.device_update_burst", AT(delivery.device_update_burst), 1, 1'000'000),
      duration("delivery.device_update_interval", AT(delivery.device_update_interval_ms), true),
      duration("delivery.join_update_delay", AT(delivery.join_update_delay_ms), true),
      duration("partial_join.abandon_after", AT(partial_join.abandon_after_ms)),
      duration("partial_join.request_timeout", AT(partial_join.request_timeout_ms)),
  };
}

std::vector<config_key> limit_keys() {
  constexpr std::int64_t much = 1LL << 40;
  return {
      integer("limits.transaction_pdus", AT(limits.transaction_pdus), 1, max_transaction_pdus),
      integer("limits.transaction_edus", AT(limits.transaction_edus), 1, max_transaction_edus),
      integer("limits.transaction_bytes", AT(limits.transaction_bytes), 1'024, 100LL << 20),
      integer("limits.devices_per_user", AT(limits.devices_per_user), 1, 1'000'000),
      integer("limits.inbound_body_bytes", AT(limits.inbound_body_bytes), 1'024, 1LL << 30),
      integer("limits.inbound_transactions_per_origin", AT(limits.inbound_transactions_per_origin), 1, 1'000),
      integer("limits.stream_bytes", AT(limits.stream_bytes), 1'024, much),
      integer("limits.federation_connections", AT(limits.federation_connections), 1, 1'000'000),
      integer("limits.waiting_calls", AT(limits.waiting_calls), 1, 1'000'000),
  };
}

#undef AT

/// Edits between two words: insert, delete, replace, swap neighbours.
std::size_t edits(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> table(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    table[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j)
    table[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      auto best = std::min({table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        best = std::min(best, table[i - 2][j - 2] + 1);
      table[i][j] = best;
    }
  return table[a.size()][b.size()];
}

std::string last_word(const std::string& path) { return path.substr(path.find('.') + 1); }
std::string section_of(const std::string& path) {
  auto dot = path.find('.');
  return dot == std::string::npos ? std::string() : path.substr(0, dot);
}

} // namespace

const std::vector<config_key>& config_keys() {
  static const std::vector<config_key> all = [] {
    std::vector<config_key> keys;
    for (auto part : {top_keys(), listener_keys(), delivery_keys(), limit_keys()})
      keys.insert(keys.end(), part.begin(), part.end());
    return keys;
  }();
  return all;
}

const std::vector<std::string>& config_sections() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> sections;
    for (const auto& key : config_keys()) {
      auto section = section_of(key.path);
      if (!section.empty() && std::find(sections.begin(), sections.end(), section) == sections.end())
        sections.push_back(section);
    }
    return sections;
  }();
  return all;
}

const config_key* find_config_key(const std::string& path) {
  for (const auto& key : config_keys())
    if (key.path == path) return &key;
  return nullptr;
}

std::string nearest_name(const std::string& wrong, const std::vector<std::string>& known) {
  std::string best;
  std::size_t least = std::max<std::size_t>(2, wrong.size() / 3) + 1;
  for (const auto& name : known)
    if (auto distance = edits(wrong, name); distance < least) {
      least = distance;
      best = name;
    }
  return best;
}

std::string suggest_key(const std::string& path) {
  std::vector<std::string> all, here;
  for (const auto& key : config_keys()) {
    all.push_back(key.path);
    if (section_of(key.path) == section_of(path)) here.push_back(key.path);
    // The right word in the wrong section.
    if (last_word(key.path) == last_word(path)) return "; did you mean \"" + key.path + "\"?";
  }
  auto nearest = nearest_name(path, here);
  if (nearest.empty()) nearest = nearest_name(path, all);
  if (!nearest.empty()) return "; did you mean \"" + nearest + "\"?";
  std::string list;
  for (const auto& name : here)
    list += (list.empty() ? "" : ", ") + name;
  return list.empty() ? std::string() : "; known here are " + list;
}

std::string environment_name(const std::string& path) {
  std::string out = "RANVIER_";
  for (char c : path)
    out += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::vector<std::string> contradictions(const config& value) {
  std::vector<std::string> out;
  if (value.federation.tls_certificate.empty() != value.federation.tls_private_key.empty())
    out.emplace_back("\"federation.tls_certificate\" and \"federation.tls_private_key\" must be given both, or none");
  if (value.backoff.first_ms > value.backoff.max_ms)
    out.emplace_back("\"backoff.first\" must not be longer than \"backoff.max\"");
  std::vector<std::pair<std::string, std::string>> listeners{{"federation.listen", value.federation.listen},
                                                             {"host.listen", value.host.listen}};
  if (!value.admin.listen.empty()) listeners.emplace_back("admin.listen", value.admin.listen);
  for (std::size_t i = 0; i < listeners.size(); ++i)
    for (std::size_t j = i + 1; j < listeners.size(); ++j)
      if (listeners[i].second == listeners[j].second)
        out.push_back('"' + listeners[i].first + "\" and \"" + listeners[j].first +
                      "\" must not be the same: both are " + listeners[i].second);
  return out;
}

} // namespace ranvier
