#pragma once
#include "actors/resyncs.hpp"
#include "messages/protocol/delivery.hpp"

#include <cstddef>
#include <string>

namespace ranvier {

/// Longest answer to GET /user/devices that is read, bytes.
constexpr std::int64_t max_list_answer_bytes = 32 << 20;

/// What an answer to GET /_matrix/federation/v1/user/devices/{user} says (Q1), ready to be stored.
struct read_list {
  fetch_end how = fetch_end::failed;
  save_device_list list; ///< `user`, `is` and what came are set; marks, failures and the next attempt aren't
};

/// `status` is the answer's, with any but 0, 429 and 5xx (those are the server's own trouble). One device that can't be
/// used costs only itself: ids that don't match the entry or the user, ids that are cross-signing keys of the user
/// (L16), more than 64 KiB. Leniently of the rest: what a device's keys hold is passed on as it is (L18).
read_list read_device_list(const std::string& user, int status, std::string_view body, std::size_t devices_per_user);

} // namespace ranvier
