// POST /drain: before a stop. Nothing new is taken from the host, what is owed to servers that can be reached gets a
// bounded time to go, then no new request begins; what is left is told.
#include "actors/admin_api.hpp"
#include "actors/admin_ask.hpp"
#include "actors/log.hpp"
#include "actors/net/stopwatch.hpp"
#include "actors/whole_totals.hpp"

#include <algorithm>

namespace ranvier {
namespace {

using namespace admin;
using namespace std::chrono_literals;
using nlohmann::json;
constexpr std::int64_t default_within_ms = 60'000, most_within_ms = 600'000;
constexpr auto look_every = 200ms;
constexpr std::int64_t last_answers_ms = 5'000; ///< for what is in flight when the loop has ended
constexpr std::size_t most_looked_at = 1'000, most_named = 20;

/// What waits for servers with an open gate. The 1,000 for whom most waits are looked at.
struct backlog {
  bool known = false;
  std::int64_t pdus = 0, device_lists = 0, to_device = 0, in_flight = 0;
  json destinations = json::array();
  bool empty() const { return known && pdus + device_lists + to_device + in_flight == 0; }
  json counts() const { return {{"pdus", pdus}, {"device_lists", device_lists}, {"to_device", to_device}}; }
};

backlog backlog_of(const json& answer) {
  backlog out;
  out.known = answer.is_object() && answer.contains("destinations");
  if (!out.known) return out;
  for (const auto& d : answer["destinations"]) {
    const auto pending = d.value("pending", json::object());
    const auto flying = d.contains("in_flight") && d["in_flight"].is_object();
    const auto pdus = pending.value("pdus", 0LL), lists = pending.value("device_lists", 0LL),
               messages = pending.value("to_device", 0LL);
    out.pdus += pdus;
    out.device_lists += lists;
    out.to_device += messages;
    out.in_flight += flying;
    if (pdus + lists + messages > 0 && out.destinations.size() < most_named)
      out.destinations.push_back({{"destination", d.value("destination", "")},
                                  {"pdus", pdus},
                                  {"device_lists", lists},
                                  {"to_device", messages}});
  }
  return out;
}

} // namespace

admin_answer admin_desk::drain(const call& in) {
  auto within_ms = default_within_ms;
  if (in.body.is_object() && in.body.contains("within_ms") && !in.body["within_ms"].is_null()) {
    const auto& given = in.body["within_ms"];
    if (!given.is_number_integer() || given.get<std::int64_t>() < 0 || given.get<std::int64_t>() > most_within_ms)
      return refuse(400, "M_INVALID_PARAM", "'within_ms' must be a duration in ms, at most ten minutes");
    within_ms = given.get<std::int64_t>();
  }
  if (!parts_.common.ready) return busy();
  const stopwatch time;
  parts_.common.ready->drain();
  log_info("draining", {{"who", in.who}, {"within_ms", std::to_string(within_ms)}});
  const auto look = [this] {
    list_view open;
    open.state = "open";
    open.order_by = "waiting";
    open.direction = "desc";
    open.limit = most_looked_at;
    const auto got = ask<description>(system_, parts_.common.supervisor, make_local(std::move(open)));
    return got ? backlog_of(json::parse(got->json, nullptr, false)) : backlog{};
  };
  auto left = look();
  caf::scoped_actor self{system_};
  while (!left.empty() && time.ms() < within_ms && !parts_.common.ready->stopping()) {
    self->receive([](tick) {}, caf::after(look_every) >> [] {});
    left = look();
  }
  // From here on nothing begins; what is in flight gets its answer, or not.
  const auto rest = std::chrono::milliseconds(parts_.common.ready->stopping() ? 100 : last_answers_ms);
  const bool ended =
      ask<done>(system_, parts_.common.supervisor, wind_down{rest.count()}, std::chrono::milliseconds(rest + 1s))
          .has_value();
  left = look();
  const auto all =
      whole_totals(system_, parts_.common.supervisor, parts_.introspector, parts_.common.wall_ms(), patience);
  json waiting = all ? all->value("waiting", json::object()) : json::object();
  const bool drained = ended && left.empty();
  log_info("drained", {{"whole", drained ? "yes" : "no"}, {"left", left.counts().dump()}});
  return answer_with({{"ok", true},
                      {"done", "drain"},
                      {"drained", drained},
                      {"took_ms", time.ms()},
                      {"left", left.counts()},
                      {"in_flight", left.in_flight},
                      {"destinations", left.destinations},
                      {"waiting", waiting}});
}

} // namespace ranvier
