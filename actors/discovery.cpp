#include "actors/discovery.hpp"

#include "messages/ids.hpp"

#include <algorithm>
#include <cctype>

namespace ranvier {
namespace {

constexpr int usual_port = 8448;
const std::string service_label = "_matrix-fed._tcp.", old_service_label = "_matrix._tcp.";

std::string join(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& w : words)
    out.append(out.empty() ? "" : ", ").append(w);
  return out;
}

bool same_host(const std::string& a, const std::string& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

} // namespace

std::vector<srv_record> order_services(std::vector<srv_record> records, const std::function<double()>& chance) {
  std::stable_sort(records.begin(), records.end(), [](const srv_record& a, const srv_record& b) {
    // Those of weight 0 come first within their priority, so that they have a small chance too (RFC 2782).
    return a.priority != b.priority ? a.priority < b.priority : (a.weight == 0) > (b.weight == 0);
  });
  std::vector<srv_record> out;
  while (!records.empty()) {
    auto priority = records.front().priority;
    auto end =
        std::find_if(records.begin(), records.end(), [&](const srv_record& r) { return r.priority != priority; });
    std::int64_t total = 0;
    for (auto r = records.begin(); r != end; ++r)
      total += r->weight;
    auto pick = static_cast<std::int64_t>(chance() * static_cast<double>(total + 1));
    auto chosen = records.begin();
    for (std::int64_t sum = chosen->weight; sum < pick && std::next(chosen) != end; sum += chosen->weight)
      ++chosen;
    out.push_back(*chosen);
    records.erase(chosen);
  }
  return out;
}

discovery::discovery(std::string server_name, const discovery_rules& rules)
    : rules_(rules)
    , name_(std::move(server_name)) {
  begin();
}

void discovery::begin() {
  auto parts = parse_server_name(name_);
  if (!parts) return fail("\"" + name_ + "\" isn't a server name");
  route_.host_header = name_;
  route_.tls_name = parts->host;
  if (auto it = rules_.addresses.find(name_); it != rules_.addresses.end())
    return start_static(it->second, parts->host);
  if (parts->ip_literal) { // D1
    step("\"" + name_ + "\" is an IP address: it is dialled as it is");
    found_.push_back(address_with_port(parts->host, parts->port.value_or(usual_port)));
    return finish();
  }
  if (parts->port) { // D2
    step("\"" + name_ + "\" names its port: no .well-known, no SRV");
    return find_addresses(parts->host, *parts->port);
  }
  wants_ = need::well_known; // D3
  about_ = parts->host;
}

void discovery::start_static(const std::string& target, const std::string& host) {
  auto parts = parse_server_name(target);
  if (!parts) return fail("[federation.addresses] has \"" + target + "\" for " + name_ + ", which isn't host:port");
  route_.pinned = true;
  route_.tls_name = host;
  step("[federation.addresses] sends " + name_ + " to " + target);
  auto port = parts->port.value_or(usual_port);
  if (!parts->ip_literal) return find_addresses(parts->host, port);
  found_.push_back(address_with_port(parts->host, port));
  finish();
}

void discovery::find_addresses(std::string host, int port) {
  wants_ = need::addresses;
  about_ = std::move(host);
  port_ = port;
}

void discovery::find_services(std::string name) {
  asked_services_of_ = std::move(name);
  wants_ = need::services;
  about_ = (old_service_label_ ? old_service_label : service_label) + asked_services_of_;
}

void discovery::take(const well_known_result& w) {
  step(".well-known of " + about_ + ": " + w.note);
  switch (w.what) {
  case well_known_result::outcome::unknown:
    return fail(".well-known of " + about_ + ": " + w.note);
  case well_known_result::outcome::none:
    return find_services(about_); // D12
  case well_known_result::outcome::delegated:
    return name_found(w.server);
  }
}

void discovery::name_found(const std::string& server_name) {
  auto parts = parse_server_name(server_name); // valid, or the file would not have been (D4)
  if (!parts) return fail(".well-known names \"" + server_name + "\", which isn't a server name");
  route_.host_header = server_name;
  route_.tls_name = parts->host;
  if (parts->ip_literal) { // D6
    found_.push_back(address_with_port(parts->host, parts->port.value_or(usual_port)));
    return finish();
  }
  if (parts->port) return find_addresses(parts->host, *parts->port); // D7
  find_services(parts->host);                                        // D8
}

void discovery::take_services(const lookup& l) {
  switch (l.what) {
  case lookup::outcome::failed:
    step("SRV " + about_ + ": " + l.note);
    return fail("SRV " + about_ + ": " + l.note);
  case lookup::outcome::no_records:
  case lookup::outcome::no_name:
    step("SRV " + about_ + ": none");
    if (old_service_label_) return find_addresses(asked_services_of_, usual_port); // D10, D14
    old_service_label_ = true;                                                     // D9, D13
    return find_services(asked_services_of_);
  case lookup::outcome::found:
    break;
  }
  targets_ = order_services(l.services, rules_.chance); // D16
  std::vector<std::string> words;
  for (const auto& r : targets_)
    words.push_back(r.target + ":" + std::to_string(r.port) + " (" + std::to_string(r.priority) + " " +
                    std::to_string(r.weight) + ")");
  step("SRV " + about_ + ": " + join(words));
  std::erase_if(targets_, [](const srv_record& r) { return r.target.empty() || r.target == "." || r.port == 0; });
  if (targets_.empty()) return fail("SRV " + about_ + " says that the service isn't offered there (target \".\")");
  if (targets_.size() > most_targets) targets_.resize(most_targets);
  std::reverse(targets_.begin(), targets_.end());
  at_targets_ = true;
  auto first = targets_.back();
  targets_.pop_back();
  find_addresses(first.target, first.port);
}

void discovery::add(const lookup& l) {
  switch (l.what) {
  case lookup::outcome::found:
    step("addresses of " + about_ + ": " + join(l.addresses) + (l.note.empty() ? "" : " (" + l.note + ")"));
    if (at_targets_ && l.alias) step(about_ + " is an alias (CNAME), which an SRV target must not be"); // D15
    for (const auto& a : l.addresses)
      if (found_.size() < most_addresses) found_.push_back(address_with_port(a, port_));
    return;
  case lookup::outcome::no_name:
    missing_name_ = true;
    lookup_problem_ = "there is no name " + about_ + " in DNS";
    break;
  case lookup::outcome::no_records:
    lookup_problem_ = about_ + " has no address in DNS";
    break;
  case lookup::outcome::failed:
    failed_lookup_ = true;
    lookup_problem_ = "addresses of " + about_ + ": " + l.note;
    break;
  }
  step(lookup_problem_);
}

void discovery::take_addresses(const lookup& l) {
  add(l);
  if (!targets_.empty() && found_.size() < most_addresses) {
    auto next = targets_.back();
    targets_.pop_back();
    return find_addresses(next.target, next.port);
  }
  if (!found_.empty()) return finish();
  // NXDOMAIN counts only if nothing failed to answer; an SRV target that isn't there is no missing server.
  route_.name_unknown =
      missing_name_ && !failed_lookup_ && (asked_services_of_.empty() || same_host(about_, asked_services_of_));
  fail(lookup_problem_);
}

void discovery::finish() {
  wants_ = need::nothing;
  for (auto& a : found_)
    if (route_.pinned || !rules_.deny.contains(address_of(a))) route_.addresses.push_back(a);
    else step(a + " stands in ip_deny: it is left out");
  if (route_.addresses.empty()) {
    route_.denied = true;
    return fail("all addresses of " + name_ + " stand in [federation] ip_deny (" + join(found_) + ")");
  }
  route_.ok = true;
  step("dial " + join(route_.addresses) + "; Host " + route_.host_header + "; certificate for " + route_.tls_name);
}

void discovery::fail(std::string problem) {
  wants_ = need::nothing;
  route_.ok = false;
  route_.problem = std::move(problem);
}

} // namespace ranvier
