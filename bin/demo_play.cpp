#include "bin/demo_play.hpp"

#include "bin/table.hpp"
#include "bin/words.hpp"
#include "messages/ids.hpp"

#include <algorithm>

namespace ranvier {

namespace {

using nlohmann::json;
constexpr std::int64_t slow_answer_ms = 700;

bool holds_all(const std::vector<std::string>& have, const std::vector<std::string>& wanted) {
  return std::all_of(wanted.begin(), wanted.end(),
                     [&](const auto& one) { return std::find(have.begin(), have.end(), one) != have.end(); });
}

} // namespace

std::vector<std::string> demo_play::cast() {
  return {"north.test", "slow.test", "dead.test", "back.test", "picky.test", "crowd.test"};
}

demo_play::demo_play()
    : stage_("demo.test", cast())
    , north_(stage_.add("north.test"))
    , slow_(stage_.add("slow.test", {.delay_ms = slow_answer_ms}))
    , dead_(stage_.add("dead.test"))
    , back_(stage_.add("back.test"))
    , picky_(stage_.add("picky.test"))
    , crowd_(stage_.add("crowd.test"))
    , tea_("!tea:demo.test", stage_.user("alice"), stage_.engine_key())
    , crowd_room_("!crowd:crowd.test", crowd_.user("founder"), crowd_.key())
    , bob_(north_.user("bob")) {}

demo_room::made demo_play::message(demo_room& room, const servers& whose) {
  auto event = room.message(stage_.user("alice"), "message " + std::to_string(++said_), stage_.engine_key());
  for (const auto* server : whose)
    owed_[server].events.push_back(event.event_id);
  return event;
}

void demo_play::feed(const std::string& what, const std::vector<json>& lines) {
  stage_.feed(lines);
  stage_.say("host", "feeds " + what);
}

void demo_play::feed_messages(demo_room& room, int count, const servers& whose) {
  std::vector<json> lines;
  for (int i = 0; i < count; ++i)
    lines.push_back(demo_room::line(message(room, whose)));
  feed(counted(count, "message", "messages") + " for " + counted(std::int64_t(whose.size()), "server", "servers"),
       lines);
}

void demo_play::feed_to_device() {
  const std::string id = "key-" + std::to_string(++said_);
  json messages = json::object();
  for (const auto& server : stage_.servers()) {
    messages[server->user("guest")] = {{"*", {{"hello", "there"}}}};
    owed_[server.get()].to_device.push_back(id);
  }
  feed("a to-device message for a user of each server", {{{"kind", "to_device"},
                                                          {"sender", stage_.user("alice")},
                                                          {"type", "m.room_key_request"},
                                                          {"message_id", id},
                                                          {"messages", messages}}});
}

void demo_play::feed_device(const std::string& device) {
  for (const auto& server : stage_.servers())
    owed_[server.get()].devices.push_back(device);
  feed("a new login of alice, of which all servers must hear",
       {{{"kind", "device"},
         {"user_id", stage_.user("alice")},
         {"device_id", device},
         {"keys", demo_device_keys(stage_.user("alice"), device)}}});
}

std::string demo_play::lacks(const demo_server& server) const {
  const auto at = owed_.find(&server);
  if (at == owed_.end()) return {};
  const auto got = server.received();
  if (got.events != at->second.events)
    return "of " + std::to_string(at->second.events.size()) + " events it has " + std::to_string(got.events.size()) +
           (got.events.size() < at->second.events.size() ? "" : ", not in their order");
  if (!holds_all(got.to_device, at->second.to_device)) return "a to-device message is missing";
  return holds_all(got.own_lists, at->second.devices) ? "" : "it hasn't heard of alice's new device";
}

void demo_play::await_all(demo_server& server, const std::string& note) {
  const auto began = stage_.elapsed();
  std::string missing;
  try {
    stage_.wait(server.name() + " has all", [&] { return (missing = lacks(server)).empty(); });
  } catch (const demo_fell_short& problem) {
    throw demo_fell_short(problem.what() + std::string(": ") + missing);
  }
  stage_.say(server.name(), "has all, in order, " + span_text(stage_.elapsed() - began) + " later" + note, tone::good);
}

json demo_play::destination(const demo_server& server) const {
  return stage_.admin().get("/destinations/" + percent_encode(server.name()));
}

std::int64_t demo_play::waiting_for(const demo_server& server) const {
  return number_in(object_in(destination(server), "pending"), "pdus");
}

void demo_play::typed(const std::string& command, const std::function<void(const admin_client&)>& run) {
  stage_.say("operator", "types: ranvier " + command);
  stage_.show("");
  run(stage_.admin());
  stage_.show("");
}

} // namespace ranvier
