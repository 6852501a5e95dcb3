#include "actors/discovery.hpp"

#include "messages/ids.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>

namespace ranvier {
namespace {

std::string lower(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::tolower(c); });
  return s;
}

/// Seconds since the epoch of "Sun, 06 Nov 1994 08:49:37 GMT", the one form of HTTP dates that is still made.
std::optional<std::int64_t> parse_http_date(const std::string& text) {
  static constexpr std::array<const char*, 12> months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  int day = 0, year = 0, h = 0, m = 0, s = 0;
  char month[4] = {};
  auto comma = text.find(',');
  if (comma == std::string::npos) return {};
  if (std::sscanf(text.c_str() + comma + 1, " %2d %3s %4d %2d:%2d:%2d GMT", &day, month, &year, &h, &m, &s) != 6)
    return {};
  auto it = std::find_if(months.begin(), months.end(), [&](const char* name) { return std::string(name) == month; });
  if (it == months.end()) return {};
  using namespace std::chrono;
  auto date = std::chrono::year{year} / std::chrono::month{static_cast<unsigned>(it - months.begin()) + 1} /
              std::chrono::day{static_cast<unsigned>(day)};
  if (!date.ok()) return {};
  return duration_cast<seconds>(sys_days{date}.time_since_epoch()).count() + h * 3600LL + m * 60 + s;
}

bool plain_uri(const std::string& uri) {
  return std::none_of(uri.begin(), uri.end(), [](unsigned char c) { return c <= 0x20 || c >= 0x7f; });
}

} // namespace

std::int64_t well_known_lifetime_ms(const std::string& cache_control, const std::string& expires,
                                    const std::string& date) {
  auto within = [](std::int64_t ms) { return std::clamp(ms, well_known_walk::floor_ms, well_known_walk::ceiling_ms); };
  auto text = lower(cache_control);
  if (text.find("no-store") != std::string::npos || text.find("no-cache") != std::string::npos) return within(0);
  if (auto at = text.find("max-age="); at != std::string::npos) {
    auto from = text.data() + at + 8 + (text.size() > at + 8 && text[at + 8] == '"');
    std::int64_t seconds = 0;
    auto [p, ec] = std::from_chars(from, text.data() + text.size(), seconds);
    if (ec == std::errc::result_out_of_range) return within(well_known_walk::ceiling_ms);
    if (ec != std::errc()) return within(0);
    return within(std::clamp<std::int64_t>(seconds, 0, 1'000'000) * 1000);
  }
  if (expires.empty()) return within(well_known_walk::usual_ms);
  auto until = parse_http_date(expires), since = parse_http_date(date);
  // Without a Date there is nothing to count from; an unreadable Expires means "already over" (RFC 9111, 5.3).
  if (!until || !since) return within(0);
  return within((*until - *since) * 1000);
}

bool follow_location(const std::string& location, std::string& host, int& port, std::string& uri) {
  auto text = location.substr(0, location.find('#'));
  if (text.empty() || !plain_uri(text)) return false;
  auto scheme_end = text.find("://");
  std::string rest;
  if (text.starts_with("//")) rest = text.substr(2);
  else if (scheme_end != std::string::npos && text.find_first_of("/?") > scheme_end) {
    if (lower(text.substr(0, scheme_end)) != "https") return false;
    rest = text.substr(scheme_end + 3);
  } else { // on the same server
    if (text.starts_with("/")) uri = text;
    else if (text.starts_with("?")) uri = uri.substr(0, uri.find('?')) + text;
    else uri = uri.substr(0, uri.substr(0, uri.find('?')).rfind('/') + 1) + text;
    return true;
  }
  auto end = rest.find_first_of("/?");
  auto parts = parse_server_name(rest.substr(0, end));
  if (!parts || (parts->port && *parts->port == 0)) return false;
  host = parts->host;
  port = parts->port.value_or(443);
  uri = end == std::string::npos ? "/" : rest.substr(end);
  if (uri.starts_with('?')) uri = "/" + uri;
  return true;
}

well_known_walk::well_known_walk(std::string host, const ip_ranges& deny)
    : deny_(deny) {
  look_at(std::move(host), 443, "/.well-known/matrix/server");
}

void well_known_walk::look_at(std::string host, int port, std::string uri) {
  host_ = std::move(host);
  port_ = port;
  auto shown = host_.find(':') != std::string::npos ? "[" + host_ + "]" : host_;
  page_ = {};
  page_.way.tls_name = host_;
  page_.way.host_header = port == 443 ? shown : shown + ":" + std::to_string(port);
  page_.uri = std::move(uri);
  auto url = "https://" + page_.way.host_header + page_.uri;
  if (!seen_.insert(lower(page_.way.host_header) + page_.uri).second)
    return end(well_known_result::outcome::none, url + " leads back to itself");
  if (seen_.size() > most_redirects + 1)
    return end(well_known_result::outcome::none, "more than " + std::to_string(most_redirects) + " redirects");
  steps_.push_back("GET " + url);
  wants_ = need::addresses;
  if (!is_ip_address(host_)) return;
  lookup self;
  self.what = lookup::outcome::found;
  self.addresses = {host_};
  take(self);
}

void well_known_walk::take(const lookup& l) {
  using outcome = lookup::outcome;
  if (l.what == outcome::failed)
    return end(well_known_result::outcome::unknown, "addresses of " + host_ + ": " + l.note);
  if (l.what == outcome::no_name) return end(well_known_result::outcome::none, "there is no name " + host_ + " in DNS");
  for (const auto& a : l.addresses)
    if (!deny_.contains(a)) page_.way.addresses.push_back(address_with_port(a, port_));
  if (page_.way.addresses.empty())
    return end(well_known_result::outcome::none, l.addresses.empty()
                                                     ? host_ + " has no address in DNS"
                                                     : "all addresses of " + host_ + " stand in ip_deny");
  page_.way.ok = true;
  wants_ = need::page;
}

void well_known_walk::take(const answer& a) {
  if (a.status == 0) return end(well_known_result::outcome::none, a.problem, true);
  if (a.status == 301 || a.status == 302 || a.status == 303 || a.status == 307 || a.status == 308)
    return redirect(a.location);
  if (a.status != 200)
    return end(well_known_result::outcome::none, "status " + std::to_string(a.status),
               a.status >= 500 || a.status == 429);
  auto document = nlohmann::json::parse(a.body, nullptr, false); // whatever its Content-Type (D4)
  if (document.is_discarded()) return end(well_known_result::outcome::none, "the file isn't JSON");
  auto server = document.is_object() ? document.find("m.server") : document.end();
  if (server == document.end() || !server->is_string())
    return end(well_known_result::outcome::none, "the file has no string m.server");
  auto name = server->get<std::string>();
  auto parts = parse_server_name(name);
  if (!parts || (parts->port && *parts->port == 0))
    return end(well_known_result::outcome::none, "its m.server isn't a server name");
  result_.server = name;
  result_.lifetime_ms = well_known_lifetime_ms(a.cache_control, a.expires, a.date);
  end(well_known_result::outcome::delegated, "delegated to " + name);
}

void well_known_walk::redirect(const std::string& location) {
  auto host = host_, uri = page_.uri;
  auto port = port_;
  if (!follow_location(location, host, port, uri))
    return end(well_known_result::outcome::none, "a redirect to something that isn't a usable https address");
  look_at(std::move(host), port, std::move(uri));
}

void well_known_walk::end(well_known_result::outcome what, std::string note, bool passing) {
  wants_ = need::nothing;
  result_.what = what;
  result_.note = std::move(note);
  result_.passing = passing;
}

} // namespace ranvier
