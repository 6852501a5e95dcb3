#include "actors/net/router.hpp"

#include "messages/ids.hpp"

#include <charconv>
#include <set>

namespace ranvier {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

bool is_variable(std::string_view segment) {
  return segment.size() > 2 && segment.front() == '{' && segment.back() == '}';
}

/// In a query '+' is a space, as forms write it.
std::optional<std::string> decode_query(std::string_view text) {
  std::string spaced(text);
  for (auto& c : spaced)
    if (c == '+') c = ' ';
  return percent_decode(spaced);
}

bool read_query(std::string_view text, std::map<std::string, std::string>& out) {
  if (text.empty()) return true;
  for (const auto part : split(text, '&')) {
    if (part.empty()) continue;
    const auto at = part.find('=');
    auto name = decode_query(part.substr(0, at));
    auto value = decode_query(at == std::string_view::npos ? std::string_view() : part.substr(at + 1));
    if (!name || !value) return false;
    out.try_emplace(std::move(*name), std::move(*value));
  }
  return true;
}

} // namespace

void router::add(std::string method, std::string_view pattern, std::string name) {
  route added{std::move(method), std::move(name), {}};
  for (const auto segment : split(pattern, '/'))
    added.segments.emplace_back(segment);
  routes_.push_back(std::move(added));
}

route_match router::match(std::string_view method, std::string_view target) const {
  route_match found;
  const auto mark = target.find('?');
  const auto given = split(target.substr(0, mark), '/');
  std::set<std::string> allowed;
  for (const auto& candidate : routes_) {
    if (candidate.segments.size() != given.size()) continue;
    bool fits = true;
    for (std::size_t i = 0; fits && i < given.size(); ++i)
      fits = is_variable(candidate.segments[i]) ? !given[i].empty() : candidate.segments[i] == given[i];
    if (!fits) continue;
    if (candidate.method != method) {
      allowed.insert(candidate.method);
      continue;
    }
    found.status = 200;
    found.name = candidate.name;
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (!is_variable(candidate.segments[i])) continue;
      auto value = percent_decode(given[i]);
      if (!value) found.status = 400;
      const auto& name = candidate.segments[i];
      found.segments[name.substr(1, name.size() - 2)] = value.value_or("");
    }
    if (mark != std::string_view::npos && !read_query(target.substr(mark + 1), found.query)) found.status = 400;
    return found;
  }
  if (allowed.empty()) return found;
  found.status = 405;
  for (const auto& one : allowed)
    found.allowed += (found.allowed.empty() ? "" : ", ") + one;
  return found;
}

std::optional<long long> parse_integer(std::string_view text) {
  long long value = 0;
  const auto end = text.data() + text.size();
  const auto [at, problem] = std::from_chars(text.data(), end, value);
  if (problem != std::errc() || at != end || text.empty()) return std::nullopt;
  return value;
}

} // namespace ranvier
