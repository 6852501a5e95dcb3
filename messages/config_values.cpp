#include "messages/config_values.hpp"

#include "messages/ids.hpp"
#include "messages/signing.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

namespace ranvier {

namespace {

using type = setting::type;

constexpr std::string_view key_version_characters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

/// A number of `text` in full, or -1.
std::int64_t whole_number(std::string_view text) {
  std::int64_t number = -1;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() ? number : -1;
}

std::string shown(double number) {
  auto text = std::to_string(number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

const setting* member(const setting& table, std::string_view name) {
  for (const auto& [key, value] : table.members)
    if (key == name) return &value;
  return nullptr;
}

std::string take_key(old_key_config& out, const setting& value, bool expired) {
  const std::string shape = expired ? "must be a list of {key_id = \"ed25519:...\", key = \"<base64>\", expired_ms = 0}"
                                    : "must be a list of {key_id = \"ed25519:...\", key = \"<base64>\"}";
  if (value.is != type::table) return shape;
  for (const auto& [name, each] : value.members)
    if (name != "key_id" && name != "key" && name != "expired_ms") return shape + "; \"" + name + "\" is unknown";
  const auto* id = member(value, "key_id");
  const auto* key = member(value, "key");
  if (!id || !key || id->is != type::text || key->is != type::text) return shape;
  auto version = std::string_view(id->text).substr(std::min<std::size_t>(8, id->text.size()));
  if (!id->text.starts_with("ed25519:") || version.empty() ||
      version.find_first_not_of(key_version_characters) != std::string_view::npos)
    return "must have key ids of the form ed25519:<letters, digits, _>";
  auto raw = unbase64(key->text);
  if (!raw || raw->size() != 32) return "must have keys of 32 bytes in base64";
  const auto* when = member(value, "expired_ms");
  if (when && (when->is != type::integer || when->integer < 0))
    return "must have expired_ms as milliseconds, 0 or more";
  out = {id->text, key->text, when ? when->integer : 0};
  return {};
}

} // namespace

bool is_host_port(const std::string& text) {
  auto parts = parse_server_name(text);
  return parts && parts->port && *parts->port > 0;
}

std::string cidr_of(const std::string& text) {
  auto slash = text.find('/');
  auto address = text.substr(0, slash);
  unsigned char bytes[16];
  int bits = inet_pton(AF_INET, address.c_str(), bytes) == 1    ? 32
             : inet_pton(AF_INET6, address.c_str(), bytes) == 1 ? 128
                                                                : 0;
  if (bits == 0) return {};
  if (slash == std::string::npos) return address + '/' + std::to_string(bits);
  auto length = whole_number(std::string_view(text).substr(slash + 1));
  return length >= 0 && length <= bits ? text : std::string();
}

bool is_server_glob(const std::string& text) {
  return !text.empty() && text.size() <= 255 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || std::string_view("-.:[]*?").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

bool is_upstream(const std::string& text) {
  constexpr std::string_view scheme = "http://";
  if (!text.starts_with(scheme)) return false;
  auto rest = text.substr(scheme.size());
  if (rest.ends_with('/')) rest.pop_back();
  return is_host_port(rest);
}

std::string take_text(std::string& out, const setting& value) {
  if (value.is != type::text) return "must be a string";
  if (value.text.find('\0') != std::string::npos) return "must not hold a NUL character";
  out = value.text;
  return {};
}

std::string take_bool(bool& out, const setting& value) {
  if (value.is != type::boolean) return "must be true or false";
  out = value.boolean;
  return {};
}

std::string take_integer(std::int64_t& out, const setting& value, std::int64_t least, std::int64_t most) {
  if (value.is != type::integer || value.integer < least || value.integer > most)
    return "must be an integer from " + std::to_string(least) + " to " + std::to_string(most);
  out = value.integer;
  return {};
}

std::string take_real(double& out, const setting& value, double least, double most) {
  double number = value.is == type::integer ? static_cast<double>(value.integer) : value.real;
  if ((value.is != type::integer && value.is != type::real) || !(number >= least && number <= most))
    return "must be a number from " + shown(least) + " to " + shown(most);
  out = number;
  return {};
}

std::string take_duration(std::int64_t& out_ms, const setting& value, bool zero_allowed) {
  auto ms = value.is == type::text ? parse_duration(value.text) : -1;
  if (ms < 0) return "must be a duration in quotes: a number with ms, s, m, h or d, like \"1.5h\"";
  if (ms == 0 && !zero_allowed) return "must be a duration longer than 0";
  out_ms = ms;
  return {};
}

std::string take_word(std::string& out, const setting& value, const std::vector<std::string>& allowed) {
  if (value.is == type::text && std::find(allowed.begin(), allowed.end(), value.text) != allowed.end()) {
    out = value.text;
    return {};
  }
  std::string list;
  for (const auto& word : allowed)
    list += (list.empty() ? "\"" : ", \"") + word + '"';
  return "must be one of " + list;
}

std::string take_host_port(std::string& out, const setting& value, bool empty_allowed) {
  bool empty = value.is == type::text && value.text.empty() && empty_allowed;
  if (!empty && (value.is != type::text || !is_host_port(value.text)))
    return std::string("must be host:port with a port from 1 to 65535, like \"127.0.0.1:8448\"") +
           (empty_allowed ? ", or empty" : "");
  out = value.text;
  return {};
}

std::string take_texts(std::vector<std::string>& out, const setting& value) {
  if (value.is != type::list) return "must be a list of strings";
  std::vector<std::string> texts;
  for (const auto& item : value.items) {
    if (item.is != type::text) return "must be a list of strings";
    texts.push_back(item.text);
  }
  out = std::move(texts);
  return {};
}

std::string take_globs(std::vector<std::string>& out, const setting& value) {
  std::vector<std::string> globs;
  if (auto problem = take_texts(globs, value); !problem.empty()) return problem;
  for (const auto& glob : globs)
    if (!is_server_glob(glob)) return "must hold server names with * and ? as wildcards; \"" + glob + "\" is none";
  out = std::move(globs);
  return {};
}

std::string take_ranges(std::vector<std::string>& out, const setting& value) {
  std::vector<std::string> ranges;
  if (auto problem = take_texts(ranges, value); !problem.empty()) return problem;
  for (auto& range : ranges) {
    auto good = cidr_of(range);
    if (good.empty()) return "must hold address ranges like \"10.0.0.0/8\" or \"fc00::/7\"; \"" + range + "\" is none";
    range = std::move(good);
  }
  out = std::move(ranges);
  return {};
}

bool is_dns_server(const std::string& text) {
  auto address = text;
  if (auto colon = text.rfind(':'); text.starts_with('[') || (colon != std::string::npos && text.find(':') == colon)) {
    auto bracket = text.find(']');
    if (text.starts_with('[') && bracket == std::string::npos) return false;
    auto end = text.starts_with('[') ? bracket + 1 : colon;
    if (end < text.size()) {
      auto port = text[end] == ':' ? whole_number(std::string_view(text).substr(end + 1)) : -1;
      if (port < 1 || port > 65'535) return false;
    }
    address = text.starts_with('[') ? text.substr(1, bracket - 1) : text.substr(0, colon);
  }
  bool v6 = address.find(':') != std::string::npos;
  if (auto zone = address.find('%'); v6 && zone != std::string::npos) {
    if (zone + 1 == address.size()) return false;
    address.resize(zone);
  }
  unsigned char bytes[16];
  return inet_pton(v6 ? AF_INET6 : AF_INET, address.c_str(), bytes) == 1;
}

std::string take_dns_servers(std::vector<std::string>& out, const setting& value) {
  std::vector<std::string> servers;
  if (auto problem = take_texts(servers, value); !problem.empty()) return problem;
  for (const auto& server : servers)
    if (!is_dns_server(server))
      return "must hold DNS servers like \"192.0.2.53\", \"192.0.2.53:5353\" or \"[2001:db8::53]:53\"; \"" + server +
             "\" is none";
  out = std::move(servers);
  return {};
}

std::string take_consumers(std::vector<std::string>& out, const setting& value) {
  std::vector<std::string> readers;
  if (auto problem = take_texts(readers, value); !problem.empty()) return problem;
  if (readers.empty()) return "must name at least one reader of the stream, like [\"host\"]";
  for (const auto& reader : readers)
    if (reader.empty() || reader.size() > 64 || !std::all_of(reader.begin(), reader.end(), [](unsigned char c) {
          return std::isalnum(c) || c == '_' || c == '-';
        }))
      return "must hold names of 1 to 64 letters, digits, - and _; \"" + reader + "\" is none";
  if (std::set<std::string>(readers.begin(), readers.end()).size() != readers.size()) return "must not name one twice";
  out = std::move(readers);
  return {};
}

std::string take_addresses(std::map<std::string, std::string>& out, const setting& value) {
  const std::string shape = "must be a section of \"server name\" = \"host:port\"";
  if (value.is != type::table) return shape;
  std::map<std::string, std::string> addresses;
  for (const auto& [name, address] : value.members) {
    if (!is_server_name(name)) return shape + "; \"" + name + "\" is no server name";
    if (address.is != type::text || !is_host_port(address.text))
      return shape + "; that of \"" + name + "\" must be host:port with a port from 1 to 65535";
    addresses[name] = address.text;
  }
  out = std::move(addresses);
  return {};
}

std::string take_keys(std::vector<old_key_config>& out, const setting& value, bool expired) {
  if (value.is != type::list) return "must be a list";
  std::vector<old_key_config> keys;
  for (const auto& item : value.items) {
    old_key_config key;
    if (auto problem = take_key(key, item, expired); !problem.empty()) return problem;
    keys.push_back(std::move(key));
  }
  out = std::move(keys);
  return {};
}

std::int64_t parse_duration(const std::string& text) {
  double number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || text.empty() || !(text[0] >= '0' && text[0] <= '9')) return -1;
  std::string unit(end, text.data() + text.size());
  double ms = unit == "ms"  ? 1
              : unit == "s" ? 1e3
              : unit == "m" ? 6e4
              : unit == "h" ? 3.6e6
              : unit == "d" ? 8.64e7
                            : -1;
  // A thousand years are more than anybody means, and keep sums far from overflow.
  if (ms < 0 || number * ms > 365'250.0 * 8.64e7) return -1;
  return std::llround(number * ms);
}

} // namespace ranvier
