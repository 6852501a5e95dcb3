#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ranvier {

/// What one server made of a join, and what the host is told when none of them helped (API 3.3). Pure.
struct join_try {
  std::string server;
  int status = 0;           ///< of its answer; 0: none came
  std::string errcode;      ///< of its answer, if it had one
  std::string words;        ///< a sentence, without the server's name
  std::string room_version; ///< M_INCOMPATIBLE_ROOM_VERSION: the room's
};

/// An error answer read: errcode, the server's words (shortened, without control characters), room_version.
join_try read_refusal(const std::string& server, std::string_view request, int status, std::string_view body);

struct join_failure {
  int status = 502;
  std::string body; ///< errcode, error with every server's answer, room_version if one told it
};
/// The errcode is that of the last meaningful answer: a refusal (400, 401, 403 and the like) counts before a 404, and
/// that before failures of the server itself.
join_failure report_join(const std::vector<join_try>& tries, const std::string& room_id);

} // namespace ranvier
