#pragma once
#include "storage/database.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ranvier::storage {

// Our own presence: the heartbeat, what an outage of ours leaves to be done, and what a clock that jumped falsifies
// (DESIGN section 5, own outage). Moments are wall clock, ms. Writes happen inside the ledger's transaction.

/// At start, before anything is sent. After more than `announce_after_ms` without a heartbeat everyone whom we haven't
/// reached since is owed a word; that is remembered until end_announcement(). 0 switches it off, also what was begun.
/// The first heartbeat is written with it. Returns the silence that counted, 0 if none did.
std::int64_t begin_life(database& db, std::int64_t now_ms, std::int64_t announce_after_ms);
/// `reached_ms`: the latest answer from anybody, of any kind; 0 if there was none in this life.
void write_heartbeat(database& db, std::int64_t now_ms, std::int64_t reached_ms = 0);

/// The start after an outage from which on a success counts; 0: nobody is owed an announcement.
std::int64_t announce_since(database& db);
/// Only if it is still that outage.
void end_announcement(database& db, std::int64_t since_ms);
/// Servers whose last success lies before `since_ms`, whose push lane is open and who aren't held; by name.
std::vector<std::string> unannounced_servers(database& db, std::int64_t since_ms, std::int64_t now_ms,
                                             std::string_view after, std::size_t limit);

/// Servers whose push lane closed since then because connecting failed, by name.
std::vector<std::string> unreachable_servers(database& db, std::int64_t since_ms, std::string_view after,
                                             std::size_t limit);
/// The latest success with anyone, be it with a transaction or (to a heartbeat's precision) any other answer; 0: none.
std::int64_t latest_success(database& db);
/// When the first of those lanes closed that closed after `after_ms` because connecting failed; 0: none did.
std::int64_t first_unreachable_since(database& db, std::int64_t after_ms);

/// The wall clock jumped by so much (negative: back): what is kept by age ages as if it hadn't, so that a jump lets
/// nothing go and keeps nothing for ever.
void shift_ages(database& db, std::int64_t by_ms, std::int64_t now_ms);

} // namespace ranvier::storage
