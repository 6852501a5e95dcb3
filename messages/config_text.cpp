#include "messages/config_text.hpp"

#include "messages/canonical_json.hpp"
#include "messages/config_schema.hpp"

#include <cmath>
#include <cstdio>
#include <set>
#include <utility>

namespace ranvier {
namespace {

/// What serve takes up while it runs; everything else was copied to the parts that use it when they were made.
const std::set<std::string>& reloadable() {
  static const std::set<std::string> keys{"log.level"};
  return keys;
}

/// "[a, b]" or "{ a, b }".
template <class List, class Write>
std::string joined(const char* open, const char* close, const List& list, Write write) {
  std::string out;
  for (const auto& item : list)
    out += (out.empty() ? "" : ", ") + write(item);
  return open + out + close;
}

} // namespace

std::string config_text(const std::string& value) { return json_string(value); }
std::string config_text(bool value) { return value ? "true" : "false"; }
std::string config_text(std::int64_t value) { return std::to_string(value); }

std::string config_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, std::floor(value) == value && std::fabs(value) < 1e15 ? "%.1f" : "%.15g", value);
  return text;
}

std::string config_text(const std::vector<std::string>& value) {
  return joined("[", "]", value, [](const std::string& one) { return json_string(one); });
}

std::string config_text(const std::map<std::string, std::string>& value) {
  return joined("{", "}", value,
                [](const auto& one) { return json_string(one.first) + " = " + json_string(one.second); });
}

std::string config_text(const std::vector<old_key_config>& value) {
  return joined("[", "]", value, [](const old_key_config& one) {
    return "{key_id = " + json_string(one.key_id) + ", key = " + json_string(one.key) +
           (one.expired_ms ? ", expired_ms = " + std::to_string(one.expired_ms) : "") + "}";
  });
}

std::string duration_text(std::int64_t ms) {
  constexpr std::pair<std::int64_t, const char*> units[]{
      {86'400'000, "d"}, {3'600'000, "h"}, {60'000, "m"}, {1'000, "s"}};
  for (const auto& [size, name] : units)
    if (ms != 0 && ms % size == 0) return '"' + std::to_string(ms / size) + name + '"';
  return ms == 0 ? "\"0s\"" : '"' + std::to_string(ms) + "ms\"";
}

std::vector<config_change> config_changes(const config& running, const config& read) {
  std::vector<config_change> out;
  auto before = running, after = read; // the schema's accessors take what may be changed
  for (const auto& key : config_keys()) {
    auto from = key.show(before), to = key.show(after);
    if (from != to) out.push_back({key.path, std::move(from), std::move(to), reloadable().contains(key.path)});
  }
  return out;
}

} // namespace ranvier
