#include "bin/render.hpp"

#include <doctest/doctest.h>

using namespace ranvier;
using nlohmann::json;

namespace {

constexpr std::int64_t minute = 60'000, hour = 60 * minute, day = 24 * hour;
constexpr std::int64_t now = 1'000 * day;

/// dead.example as the engine describes it.
json dead() {
  return {{"destination", "dead.example"},
          {"gate",
           {{"state", "closed"},
            {"lanes", {{"push", "closed"}, {"pull", "closed"}, {"devices", "open"}}},
            {"failing_since_ms", now - 3 * day - 2 * hour},
            {"consecutive_failures", 14},
            {"next_attempt_ms", now + 5 * hour},
            {"interval_ms", 10 * hour},
            {"last_error",
             {{"class", "unreachable"},
              {"stage", "tls"},
              {"status", nullptr},
              {"item", nullptr},
              {"message", "certificate expired 2 days ago"}}}}},
          {"cursor", {{"pdu", 8326}, {"device_lists", 8300}, {"to_device", 8326}}},
          {"head", 10236},
          {"pending",
           {{"pdus", 1910},
            {"device_lists", 3},
            {"to_device", 1},
            {"ephemeral", 0},
            {"oldest_age_ms", 3 * day + 2 * hour}}},
          {"catching_up", true},
          {"in_flight", nullptr},
          {"stale_users", 0},
          {"resyncing_users", 0},
          {"quarantined", 0},
          {"rooms", 12},
          {"last_success_ms", now - 3 * day - 2 * hour},
          {"last_inbound_ms", nullptr},
          {"resident", true},
          {"hold", nullptr},
          {"attempts", json::array()}};
}

json healthy() {
  auto d = dead();
  d["destination"] = "good.example";
  d["gate"] = {{"state", "open"},
               {"lanes", {{"push", "open"}, {"pull", "open"}, {"devices", "open"}}},
               {"failing_since_ms", nullptr},
               {"consecutive_failures", 0},
               {"next_attempt_ms", nullptr},
               {"interval_ms", 0},
               {"last_error", nullptr}};
  d["pending"] = {{"pdus", 0}, {"device_lists", 0}, {"to_device", 0}, {"ephemeral", 0}, {"oldest_age_ms", 0}};
  d["catching_up"] = false;
  d["in_flight"] = {{"transaction_id", "abc"}, {"since_ms", now - 2'000}, {"bytes", 2'048}};
  d["rooms"] = 1;
  d["last_success_ms"] = now - minute;
  d["last_inbound_ms"] = now - 5'000;
  d["attempts"] = json::array({{{"at_ms", now - minute},
                                {"request", "PUT /send"},
                                {"outcome", "ok"},
                                {"status", 200},
                                {"took_ms", 12},
                                {"items", {{"pdus", 1}, {"edus", 2}}}}});
  return d;
}

std::string listing(const std::vector<json>& rows, bool wide) {
  std::vector<const column*> columns;
  for (const auto& each : destination_columns())
    if (wide || !each.wide) columns.push_back(&each);
  return table_text(rows, columns, now, true);
}

} // namespace

TEST_CASE("render: ls") {
  CHECK(listing({dead(), healthy()}, false) ==
        "DESTINATION   STATE   SINCE   WAITING  OLDEST  TRIES  NEXT TRY  LAST ERROR\n"
        "dead.example  closed  3d 02h  1914     3d 02h  14     in 5h     unreachable: certificate expired 2 days ago\n"
        "good.example  open            0                0\n");
}

TEST_CASE("render: ls -o wide has everything that ls has, and more") {
  auto text = listing({healthy()}, true);
  CHECK(text.find("ROOMS  CURSOR  HEAD") != std::string::npos);
  CHECK(text.find("2.0 KiB for 2s") != std::string::npos);
  CHECK(text.find("1m ago") != std::string::npos);
}

TEST_CASE("render: every column can be sorted by, whatever is missing") {
  for (const auto& columns : {destination_columns(), actor_columns(), stale_user_columns()})
    for (const auto& each : columns) {
      std::vector<json> rows{dead(), json::object(), healthy(), json(nullptr), json::array()};
      CAPTURE(each.key());
      CHECK(sort_rows(rows, columns, "-" + each.key()));
      CHECK(rows.size() == 5);
    }
}

TEST_CASE("render: ls --sort -waiting puts the longest queue first, --sort since the longest failing") {
  std::vector<json> rows{healthy(), dead()};
  CHECK(sort_rows(rows, destination_columns(), "-waiting"));
  CHECK(rows.front()["destination"] == "dead.example");
}

TEST_CASE("render: stale users, the oldest first if sorted by -since") {
  std::vector<json> rows{{{"user_id", "@b:r.test"},
                          {"destination", "r.test"},
                          {"since_ms", now - 60'000},
                          {"failures", 2},
                          {"next_attempt_ms", now + 120'000},
                          {"cause", "a gap"},
                          {"problem", "its server answered 403"}},
                         {{"user_id", "@a:x"},
                          {"destination", "x"},
                          {"since_ms", now - 3'600'000},
                          {"failures", 0},
                          {"next_attempt_ms", nullptr},
                          {"cause", "a gap"},
                          {"problem", nullptr}}};
  CHECK(sort_rows(rows, stale_user_columns(), "-since"));
  std::vector<const column*> columns;
  for (const auto& each : stale_user_columns())
    columns.push_back(&each);
  CHECK(table_text(rows, columns, now, true) ==
        "USER       DESTINATION  SINCE  REFUSED  NEXT TRY  CAUSE  PROBLEM\n"
        "@a:x       x            1h     0                  a gap\n"
        "@b:r.test  r.test       1m     2        in 2m     a gap  its server answered 403\n");
}

TEST_CASE("render: show of a failing destination") {
  CHECK(destination_text(dead(), now) ==
        "dead.example is CLOSED, failing since 3d 02h (14 failures in a row)\n"
        "  because      unreachable at tls: certificate expired 2 days ago\n"
        "  next try     in 5h (interval 10h)\n"
        "  lanes        devices open, pull closed, push closed\n"
        "  last ok      3d 02h ago\n"
        "  cursor       8326 of 10236 (device lists 8300, to-device 8326)\n"
        "  waiting      1910 pdus, 3 device updates, 1 to-device, oldest 3d 02h; catching up\n"
        "  in flight    nothing\n"
        "  shares       12 rooms\n");
}

TEST_CASE("render: show of a healthy destination") {
  CHECK(destination_text(healthy(), now) == "good.example is OPEN\n"
                                            "  lanes        devices open, pull open, push open\n"
                                            "  last ok      1m ago\n"
                                            "  heard from   5s ago\n"
                                            "  cursor       8326 of 10236 (device lists 8300, to-device 8326)\n"
                                            "  waiting      nothing\n"
                                            "  in flight    transaction abc, 2.0 KiB for 2s\n"
                                            "  shares       1 room\n"
                                            "  attempts\n"
                                            "    1m ago  PUT /send  ok  200  12ms  1 pdu, 2 edus\n");
}

TEST_CASE("render: show of a held one says why and until when") {
  auto d = healthy();
  d["gate"]["state"] = "held";
  d["hold"] = {{"reason", "moving house"}, {"until_ms", nullptr}};
  CHECK(destination_text(d, now).find("  held         moving house; until released\n") != std::string::npos);
  d["hold"]["until_ms"] = now + 2 * hour;
  CHECK(destination_text(d, now).find("  held         moving house; ends in 2h\n") != std::string::npos);
}

TEST_CASE("render: errors") {
  CHECK(error_text(nullptr, true).empty());
  CHECK(error_text({{"class", "none"}}, true).empty());
  json busy{{"class", "server_error"}, {"stage", "answer"}, {"status", 503}, {"message", "503 Service Unavailable"}};
  CHECK(error_text(busy, false) == "server_error: 503 Service Unavailable");
  CHECK(error_text(busy, true) == "server_error at answer: 503 Service Unavailable");
  busy["message"] = "busy";
  CHECK(error_text(busy, false) == "server_error (503): busy");
  busy["message"] = "\x1b[2J";
  CHECK(error_text(busy, false) == "server_error (503):  [2J");
}

TEST_CASE("render: status") {
  json stats{
      {"server_name", "example.org"},
      {"version", "0.3.0"},
      {"ready", true},
      {"started_ms", now - 6 * day - 4 * hour},
      {"database_bytes", 412LL << 20},
      {"actor_restarts", 2},
      {"last_restart", "resolver"},
      {"last_restart_ms", now - 3 * day},
      {"destinations",
       {{"open", 4549}, {"closed", 241}, {"probing", 4}, {"held", 2}, {"denied", 0}, {"in_memory", 312}}},
      {"waiting", {{"pdus", 18204}, {"device_lists", 611}, {"to_device", 42}, {"oldest_age_ms", 3 * day + 2 * hour}}},
      {"stale_users", 3},
      {"partial_joins", 0},
      {"quarantined", 1},
      {"rates", {{"transactions_ok", 812}, {"transactions_failed", 9}, {"half_ms", 140}, {"p99_ms", 4'100}}}};
  CHECK(status_text(stats, {dead(), dead()}, now) ==
        "ranvier 0.3.0 for example.org · ready · up 6d 04h · database 412 MiB · 2 actor restarts (last: resolver, 3d "
        "ago)\n"
        "destinations  4796    open 4549   closed 241   probing 4   held 2   (in memory 312)\n"
        "waiting       18204 pdus, 611 device updates, 42 to-device   oldest 3d 02h (dead.example)\n"
        "last minute   812 transactions ok   9 failed   half in 140ms, 99 % in 4s\n"
        "attention     2 destinations: certificate expired · 3 stale users · 1 item in quarantine\n");
}

TEST_CASE("render: status of an engine that isn't ready, and of one that says little") {
  json stats{{"server_name", "a.test"}, {"ready", false}, {"not_ready_because", "the disk is full"}};
  CHECK(status_text(stats, {}, now) == "ranvier for a.test · NOT READY: the disk is full\n"
                                       "destinations  0       open 0   closed 0   (in memory 0)\n"
                                       "waiting       nothing\n");
  CHECK(status_text(json::object(), {}, now).find("waiting       nothing") != std::string::npos);
}

TEST_CASE("render: nothing that an engine may answer makes it fail") {
  for (const auto& odd : {json(nullptr), json::array(), json("x"), json{{"gate", "x"}, {"attempts", 3}},
                          json{{"attempts", {1, nullptr}}}, json{{"gate", {{"lanes", {1}}}}}}) {
    CHECK_NOTHROW(destination_text(odd, now));
    CHECK_NOTHROW(status_text(odd, {odd}, now));
    CHECK_NOTHROW(listing({odd}, true));
  }
}
