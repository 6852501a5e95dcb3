#pragma once
#include "messages/config_schema.hpp"

#include <string>
#include <vector>

// What single values of the configuration may be. Each check gives an empty text or the end of a sentence that begins
// with the key: "must be ...".

namespace ranvier {

/// host:port, the host a name, an IPv4 address or an IPv6 address in brackets; port 1 to 65535.
bool is_host_port(const std::string& text);
/// An address range; a single address becomes /32 or /128. Empty if it is neither.
std::string cidr_of(const std::string& text);
/// "ip", "ip:port" or "[ip]:port", an IPv6 address with a zone (%eth0) too.
bool is_dns_server(const std::string& text);
/// Characters of server names, * and ?.
bool is_server_glob(const std::string& text);
/// http://host:port without a path.
bool is_upstream(const std::string& text);

std::string take_text(std::string& out, const setting& value);
std::string take_bool(bool& out, const setting& value);
std::string take_integer(std::int64_t& out, const setting& value, std::int64_t least, std::int64_t most);
std::string take_real(double& out, const setting& value, double least, double most);
std::string take_duration(std::int64_t& out_ms, const setting& value, bool zero_allowed);
std::string take_word(std::string& out, const setting& value, const std::vector<std::string>& allowed);
std::string take_host_port(std::string& out, const setting& value, bool empty_allowed);
std::string take_texts(std::vector<std::string>& out, const setting& value);
std::string take_globs(std::vector<std::string>& out, const setting& value);
std::string take_ranges(std::vector<std::string>& out, const setting& value);
std::string take_dns_servers(std::vector<std::string>& out, const setting& value);
std::string take_consumers(std::vector<std::string>& out, const setting& value);
std::string take_addresses(std::map<std::string, std::string>& out, const setting& value);
std::string take_keys(std::vector<old_key_config>& out, const setting& value, bool expired);

} // namespace ranvier
