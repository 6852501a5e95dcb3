// The scenes of `ranvier demo`, in the order in which they are played.
#include "bin/cli_verbs.hpp"
#include "bin/demo_play.hpp"
#include "bin/table.hpp"
#include "bin/words.hpp"
#include "messages/ids.hpp"

#include <chrono>
#include <thread>

namespace ranvier {

namespace {

using nlohmann::json;
constexpr int crowd_size = 60;
constexpr std::int64_t state_takes_ms = 1'500;

json roster(const demo_room& room, const json& members) {
  return {{"kind", "roster"}, {"room_id", room.room_id()}, {"room_version", "10"}, {"members", members}};
}

} // namespace

void demo_play::introduce() {
  stage_.show("An engine for demo.test, six homeservers and a host, all on this machine over TLS; nothing leaves it.\n"
              "north.test is well, slow.test answers late, dead.test is down, back.test goes away and comes back,\n"
              "picky.test refuses an event, crowd.test has a large room.");
  bob_.add("LAPTOP");
  north_.answer_with([this](const sink_question& asked) { return bob_.answer(asked); });
  for (int i = 0; i < crowd_size; ++i) {
    auto& home = i % 3 == 0 ? north_ : i % 3 == 1 ? slow_ : crowd_;
    crowd_room_.join(home.user("member" + std::to_string(i)), home.key());
  }
  crowd_room_.message(crowd_room_.creator(), "welcome", crowd_.key());
  crowd_.answer_with([this](const sink_question& asked) -> std::optional<sink_reply> {
    if (asked.path.find("/state") != std::string::npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(state_takes_ms));
    return crowd_room_.answer(asked, {crowd_.name(), north_.name(), slow_.name()});
  });
  for (const auto& server : stage_.servers())
    if (server.get() != &dead_) server->up();
  stage_.start_engine();
  stage_.say("engine", "is ready", tone::good);
}

void demo_play::delivery() {
  stage_.scene("1. Delivery");
  json members{{stage_.user("alice"), "join"}, {north_.user("bob"), "join"}};
  for (const auto& server : stage_.servers())
    members[server->user("guest")] = "join";
  stage_.feed({roster(tea_, members)});
  servers all;
  for (const auto& server : stage_.servers())
    all.push_back(server.get());
  feed_messages(tea_, 3, all);
  await_all(north_);
  await_all(back_);
  await_all(slow_, ": each of its answers takes 700 ms, and nobody waited for it");
  stage_.wait("dead.test is found to be down",
              [&] { return text_in(object_in(destination(dead_), "gate"), "state") == "closed"; });
  stage_.say("engine", "keeps " + counted(waiting_for(dead_), "event", "events") + " for dead.test", tone::warn);
}

void demo_play::outage() {
  stage_.scene("2. Outage");
  back_.down();
  stage_.say("back.test", "goes away", tone::bad);
  servers all;
  for (const auto& server : stage_.servers())
    all.push_back(server.get());
  feed_messages(tea_, 20, all);
  feed_to_device();
  feed_device("PHONE");
  await_all(north_);
  stage_.wait("back.test is found to be away",
              [&] { return text_in(object_in(destination(back_), "gate"), "state") != "open"; });
  typed("ls", [](const admin_client& engine) { list_destinations(engine, {}, {}); });
  typed("why dead.test", [](const admin_client& engine) { show_why(engine, "dead.test", "text"); });
}

void demo_play::refusal() {
  stage_.scene("3. One event refused");
  servers all;
  for (const auto& server : stage_.servers())
    all.push_back(server.get());
  const auto bad = message(tea_, all);
  refused_ = bad.event_id;
  picky_.refuse(refused_);
  const auto good = message(tea_, all);
  feed("2 messages; picky.test will refuse the first with an error of its own, in an answer of 200",
       {demo_room::line(bad), demo_room::line(good)});
  await_all(picky_);
  std::string said;
  stage_.wait("the refusal is in the attempts of picky.test", [&] {
    for (const auto& attempt : destination(picky_).value("attempts", json::array()))
      if (said.empty()) said = text_in(object_in(attempt, "refused"), refused_.c_str());
    return !said.empty();
  });
  stage_.say("engine", "wrote down that picky.test said \"" + printable(said) + "\", and went on; its gate is " +
                           text_in(object_in(destination(picky_), "gate"), "state"));
}

void demo_play::catch_up() {
  stage_.scene("4. Catch-up");
  stage_.say("engine", "has " + counted(waiting_for(back_), "event", "events") + " waiting for back.test", tone::warn);
  back_.up();
  stage_.say("back.test", "is there again, and says something");
  const json presence{{"edu_type", "m.presence"},
                      {"content", {{"push", {{{"user_id", back_.user("guest")}, {"presence", "online"}}}}}}};
  if (const int status = back_.send(stage_.engine_name(), stage_.federation_address(), {presence}); status != 200)
    throw demo_fell_short("the engine answered " + std::to_string(status) + " to back.test");
  await_all(back_, ": whoever speaks to us is tried at once");
}

void demo_play::stale_list() {
  stage_.scene("5. A stale device list healed");
  const auto bob = north_.user("bob");
  const auto devices = [&] {
    const auto answer = stage_.host("POST", "/keys/query", {{"device_keys", {{bob, json::array()}}}, {"timeout", 500}});
    const auto& all = object_in(answer, "device_keys");
    return all.contains(bob) && all[bob].is_object() ? all[bob].size() : 0;
  };
  stage_.wait("bob's device list is fetched", [&] { return devices() == 1; });
  stage_.say("host", "asks for bob's devices: 1");
  bob_.out_of_order(true);
  bob_.add("PHONE"); // this update is lost
  const auto tablet = bob_.add("TABLET");
  stage_.say("bob", "logs in twice; the first update is lost, and north.test's lists are out of order");
  if (const int status = north_.send(stage_.engine_name(), stage_.federation_address(), {tablet}); status != 200)
    throw demo_fell_short("the engine answered " + std::to_string(status) + " to north.test");
  const auto stale = [&] { return stage_.admin().get("/stale_users").value("stale_users", json::array()); };
  stage_.wait("the engine sees the gap", [&] {
    const auto list = stale();
    return !list.empty() && number_in(list[0], "next_attempt_ms") > 0;
  });
  typed("stale-users", [](const admin_client& engine) { list_stale_users(engine, {}); });
  bob_.out_of_order(false);
  const auto began = stage_.elapsed();
  stage_.say("north.test", "has its lists in order again");
  stage_.wait("bob's list is healed", [&] { return stale().empty() && devices() == 3; });
  stage_.say("engine",
             "fetched the list by itself, " + span_text(stage_.elapsed() - began) + " later; bob's devices: 3",
             tone::good);
}

void demo_play::partial_join() {
  stage_.scene("6. A partial join");
  const auto path = "/rooms/" + percent_encode(crowd_room_.room_id());
  const auto began = stage_.elapsed();
  const auto joined = stage_.host("POST", path + "/join",
                                  {{"user_id", stage_.user("alice")}, {"via", {crowd_.name()}}, {"partial", true}});
  if (!joined.value("partial", false)) throw demo_fell_short("the join isn't partial: " + joined.dump().substr(0, 200));
  stage_.say("alice", "joined a room of " + std::to_string(crowd_room_.members() - 1) + " through crowd.test in " +
                          span_text(stage_.elapsed() - began) + "; its members aren't known yet");
  feed_messages(crowd_room_, 2, {&north_, &slow_, &crowd_});
  await_all(crowd_);
  await_all(north_, ": who is in the room isn't known, but which servers are");
  json room;
  stage_.wait("the room is whole", [&] {
    room = stage_.host("GET", path);
    return !room.value("partial", true);
  });
  const auto& members = object_in(room, "members");
  if (members.size() != crowd_room_.members())
    throw demo_fell_short("of " + std::to_string(crowd_room_.members()) + " members the engine knows " +
                          std::to_string(members.size()));
  stage_.say("engine",
             "has the whole state, checked event by event; the room has " + std::to_string(members.size()) +
                 " members, " + span_text(stage_.elapsed() - began) + " after the join",
             tone::good);
}

void demo_play::the_dead_one() {
  stage_.scene("7. Even the dead one");
  stage_.say("engine", "has " + counted(waiting_for(dead_), "event", "events") + " waiting for dead.test", tone::warn);
  dead_.up();
  stage_.say("dead.test", "is there for the first time, and says nothing");
  stage_.say("operator", "types: ranvier wake dead.test");
  stage_.admin().post("/destinations/" + percent_encode(dead_.name()) + "/wake", json::object());
  await_all(dead_);
}

void demo_play::reckoning() {
  stage_.scene("The reckoning");
  for (const auto& server : stage_.servers())
    stage_.wait(server->name() + " has what it is owed", [&] { return lacks(*server).empty(); });
  stage_.wait("nothing is left to do", [&] {
    const auto stats = stage_.admin().get("/stats");
    const auto& waiting = object_in(stats, "waiting");
    return number_in(waiting, "pdus") + number_in(waiting, "to_device") + number_in(waiting, "device_lists") +
               number_in(stats, "stale_users") + number_in(stats, "partial_joins") ==
           0;
  });
  for (const auto& server : stage_.servers()) {
    const auto got = server->received();
    const auto& due = owed_[server.get()];
    const auto of = [](std::size_t have, std::size_t wanted) {
      return std::to_string(have) + " of " + std::to_string(wanted) + ' ';
    };
    stage_.say(server->name(), of(got.events.size(), due.events.size()) + "events, " +
                                   of(got.to_device.size(), due.to_device.size()) + "to-device, " +
                                   of(got.own_lists.size(), due.devices.size()) + "device updates, in " +
                                   counted(got.transactions, "transaction", "transactions") +
                                   (got.refused.empty() ? "" : "; 1 event refused, by its own word"));
  }
}

} // namespace ranvier
