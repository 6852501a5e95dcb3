#pragma once
#include "messages/records.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ranvier {

/// Largest to-device EDU that we make or take, in bytes of canonical JSON (CASES B85: larger ones can never be sent).
constexpr std::size_t max_to_device_edu_bytes = 65'536;

/// One EDU for one server.
struct to_device_part {
  std::string destination;
  std::string message_id; ///< of this EDU: the record's own for the first part of a destination (U8), then derived
  std::string edu;        ///< canonical JSON of the whole EDU: {"content":{...},"edu_type":"m.direct_to_device"}
};

/// The EDUs of one record, in order of destination; within a destination split by device so that each stays under
/// max_to_device_edu_bytes. Ids of parts after the first are a hash of message id, server and part, at most 32
/// characters: feeding a record again gives the same parts. Each user and device stands in exactly one part.
std::vector<to_device_part> split_to_device(const to_device_record& message);

/// The sender of such an EDU; empty if it has none. The view points into `edu`.
std::string_view to_device_sender(std::string_view edu);

} // namespace ranvier
