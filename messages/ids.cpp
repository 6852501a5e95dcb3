#include "messages/ids.hpp"

#include <algorithm>

namespace ranvier {

namespace {

constexpr std::size_t max_id_bytes = 255; // N8
constexpr std::size_t max_hostname_chars = 255;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// -1 if it isn't a hexadecimal digit.
int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (lower(c) >= 'a' && lower(c) <= 'f') return lower(c) - 'a' + 10;
  return -1;
}

/// Four numbers up to 255. Leading zeros make a name, not an address: programs disagree about what they would mean.
bool is_dotted_quad(std::string_view host) {
  int groups = 0;
  while (true) {
    const auto dot = host.find('.');
    const auto group = host.substr(0, dot);
    if (group.empty() || group.size() > 3 || !std::all_of(group.begin(), group.end(), is_digit)) return false;
    if (group.size() > 1 && group[0] == '0') return false;
    int value = 0;
    for (char c : group) value = value * 10 + (c - '0');
    if (value > 255) return false;
    ++groups;
    if (dot == std::string_view::npos) return groups == 4;
    host.remove_prefix(dot + 1);
  }
}

bool is_ipv6_text(std::string_view host) {
  return host.size() >= 2 && host.size() <= 45 &&
         std::all_of(host.begin(), host.end(), [](char c) { return hex_value(c) >= 0 || c == ':' || c == '.'; });
}

bool is_dns_text(std::string_view host) {
  return !host.empty() && host.size() <= max_hostname_chars &&
         std::all_of(host.begin(), host.end(),
                     [](char c) { return is_digit(c) || is_letter(c) || c == '-' || c == '.'; });
}

/// ":8448" as a port, nothing if it is none (N3).
std::optional<std::uint16_t> port_of(std::string_view text) {
  if (text.size() < 2 || text.size() > 6 || text[0] != ':') return std::nullopt;
  std::uint32_t value = 0;
  for (char c : text.substr(1)) {
    if (!is_digit(c)) return std::nullopt;
    value = value * 10 + static_cast<std::uint32_t>(c - '0');
  }
  if (value > 65535) return std::nullopt;
  return static_cast<std::uint16_t>(value);
}

bool has_sigil(std::string_view id, char sigil) {
  return id.size() >= 2 && id.size() <= max_id_bytes && id[0] == sigil && id.find('\0') == std::string_view::npos;
}

} // namespace

std::optional<server_name_parts> parse_server_name(std::string_view name) {
  server_name_parts parts;
  std::string_view rest;
  if (!name.empty() && name[0] == '[') {
    const auto end = name.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    const auto host = name.substr(1, end - 1);
    if (!is_ipv6_text(host)) return std::nullopt;
    parts.host = host;
    parts.ip_literal = parts.ipv6 = true;
    rest = name.substr(end + 1);
  } else {
    const auto colon = std::min(name.find(':'), name.size());
    const auto host = name.substr(0, colon);
    if (!is_dns_text(host)) return std::nullopt;
    parts.host = host;
    parts.ip_literal = is_dotted_quad(host);
    rest = name.substr(colon);
  }
  if (rest.empty()) return parts;
  parts.port = port_of(rest);
  if (!parts.port) return std::nullopt;
  return parts;
}

bool is_server_name(std::string_view name) { return parse_server_name(name).has_value(); }

bool is_user_id(std::string_view id) { return has_sigil(id, '@') && is_server_name(server_of(id)); }
bool is_room_id(std::string_view id) { return has_sigil(id, '!'); }
bool is_event_id(std::string_view id) { return has_sigil(id, '$'); }

std::string_view server_of(std::string_view id) {
  const auto colon = id.find(':');
  return colon == std::string_view::npos ? std::string_view() : id.substr(colon + 1);
}

std::string percent_encode(std::string_view text) {
  constexpr char digits[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size() + 16);
  for (char c : text) {
    if (is_digit(c) || is_letter(c) || c == '-' || c == '.' || c == '_' || c == '~') {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += digits[byte >> 4];
    out += digits[byte & 15];
  }
  return out;
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_value(text[i + 1]), low = hex_value(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

bool glob_matches(std::string_view pattern, std::string_view text) {
  // Only the last star needs to be remembered: an earlier one can't do what the last one can't. So this is linear in
  // practice and at worst |pattern| * |text|, whoever wrote the pattern (I6: patterns come from rooms).
  std::size_t p = 0, t = 0, star = std::string_view::npos, after_star = 0;
  const auto next_character = [&](std::size_t at) { // '?' is one character, which may be several bytes
    do ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
    return at;
  };
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after_star = t;
    } else if (p < pattern.size() && pattern[p] == '?') {
      ++p;
      t = next_character(t);
    } else if (p < pattern.size() && lower(pattern[p]) == lower(text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = after_star = next_character(after_star);
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

} // namespace ranvier
