#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ranvier {

/// What a request line meant.
struct route_match {
  int status = 404;                            ///< 200: found; 404, 405 (H4); 400: a broken percent escape
  std::string name;                            ///< of the route, if 200
  std::map<std::string, std::string> segments; ///< "{x}" of the pattern -> the decoded segment
  std::map<std::string, std::string> query;    ///< decoded; the first of each name
  std::string allowed;                         ///< of a 405: value of the Allow header
};

/// Finds a route by method and the raw request target. The target is split first and decoded afterwards, so that an id
/// may hold an encoded slash. Made once, then read by any thread.
class router {
public:
  /// `pattern` like "/a/{name}/b"; a segment in braces takes any segment that isn't empty.
  void add(std::string method, std::string_view pattern, std::string name);
  route_match match(std::string_view method, std::string_view target) const;

private:
  struct route {
    std::string method, name;
    std::vector<std::string> segments;
  };
  std::vector<route> routes_;
};

/// A decimal integer (with '-' too), or nothing.
std::optional<long long> parse_integer(std::string_view text);

} // namespace ranvier
