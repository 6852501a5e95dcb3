#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ranvier {

/// A server name taken apart (N1, N3).
struct server_name_parts {
  std::string host;                   ///< without brackets for an IPv6 literal
  std::optional<std::uint16_t> port;
  bool ip_literal = false;            ///< IPv4 dotted quad or IPv6 in brackets
  bool ipv6 = false;
};

/// Nothing if it isn't a server name: N1; a port must be 1 to 5 digits and at most 65535 (N3).
std::optional<server_name_parts> parse_server_name(std::string_view name);
bool is_server_name(std::string_view name);

/// '@' localpart ':' server name, at most 255 bytes (N4, N5: historical localparts are accepted, ":" and NUL aren't).
bool is_user_id(std::string_view id);
/// '!' and at least one character, at most 255 bytes, no NUL; a domain isn't demanded (N7).
bool is_room_id(std::string_view id);
/// '$' and at least one character, at most 255 bytes, no NUL.
bool is_event_id(std::string_view id);
/// What follows the first ':' (N4); empty if there is none. Views into `id`.
std::string_view server_of(std::string_view id);

/// Percent-encoding of one path segment: everything but unreserved characters (RFC 3986).
std::string percent_encode(std::string_view text);
/// Nothing if an escape is broken.
std::optional<std::string> percent_decode(std::string_view text);

/// Globs with * and ?, ASCII case-insensitive (I6; also allow and deny lists, selectors of the CLI).
bool glob_matches(std::string_view pattern, std::string_view text);

} // namespace ranvier
