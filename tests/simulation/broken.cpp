#include "storage/database.hpp"
#include "tests/simulation/run.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>

using namespace ranvier;
using namespace ranvier::sim;

// Engines that are broken on purpose: a run must notice each of them, and say what is wrong.

namespace {

constexpr std::string_view send_path = "/_matrix/federation/v1/send/";

scenario_plan small() {
  scenario_plan plan;
  plan.seed = 41;
  plan.peers = 20;
  plan.rooms = 12;
  plan.length_ms = 2 * day;
  plan.records = 1'500;
  plan.kills = 2;
  return plan;
}

/// The first breach that speaks of it, or all of them.
std::string noticed(run& broken, const std::string& what) {
  spdlog::set_level(spdlog::level::off);
  broken.go();
  std::string all;
  for (const auto& one : broken.breaches()) {
    if (one.sentence.find(what) != std::string::npos) return what;
    all += one.sentence + "\n";
  }
  return all.empty() ? "nothing was noticed" : all;
}

/// Changes what a transaction carries; every so many of them.
template <class Change> std::function<void(http_call&)> every(int nth, Change change) {
  return [nth, change, count = std::make_shared<int>(0)](http_call& call) {
    auto body = nlohmann::json::parse(call.body.view());
    if (body["pdus"].empty() || ++*count % nth != 0) return;
    change(call, body);
    call.body = shared_text(body.dump());
  };
}

void rename_transaction(http_call& call) { call.uri += "x"; }

} // namespace

TEST_CASE("simulation's judges: the small plan is clean by itself") {
  run whole(small(), {});
  CHECK(noticed(whole, "?") == "nothing was noticed");
}

TEST_CASE("simulation's judges: an engine that loses an event is noticed") {
  run broken(small(), {});
  broken.tamper(every(50, [](http_call& call, auto& body) {
    body["pdus"].erase(body["pdus"].size() - 1);
    rename_transaction(call);
  }));
  CHECK(noticed(broken, " lacks $event") == " lacks $event");
}

TEST_CASE("simulation's judges: an engine that sends something twice is noticed") {
  run broken(small(), {});
  auto before = std::make_shared<std::map<std::string, nlohmann::json>>();
  broken.tamper([before](http_call& call) {
    auto body = nlohmann::json::parse(call.body.view());
    if (body["pdus"].empty()) return;
    auto& last = (*before)[call.destination];
    if (!last.is_null() && body["pdus"].size() < 50 && last != body["pdus"][0]) {
      body["pdus"].push_back(last);
      call.body = shared_text(body.dump());
      rename_transaction(call);
    }
    last = body["pdus"][0];
  });
  CHECK(noticed(broken, "twice in one life") == "twice in one life");
}

TEST_CASE("simulation's judges: an engine that changes a transaction under its id is noticed") {
  run broken(small(), {});
  broken.tamper([](http_call& call) {
    const auto id = call.uri.find(send_path) == 0 ? send_path.size() : 0;
    if (id > 0 && call.probe) call.uri = std::string(send_path) + "always-the-same";
  });
  CHECK(noticed(broken, "with other content") == "with other content");
}

TEST_CASE("simulation's judges: an engine that tells a room's events to a stranger is noticed") {
  run broken(small(), {});
  auto other = std::make_shared<nlohmann::json>();
  broken.tamper(every(20, [other](http_call& call, auto& body) {
    if (other->is_object() && call.destination != "r1.example.org") {
      body["pdus"].push_back(*other);
      rename_transaction(call);
    }
    if (call.destination == "r1.example.org" || other->is_null()) *other = body["pdus"][0];
  }));
  CHECK(noticed(broken, "which isn't meant for it") == "which isn't meant for it");
}

TEST_CASE("simulation's judges: an engine that mixes up the order of a room is noticed") {
  run broken(small(), {});
  broken.tamper(every(1, [](http_call& call, auto& body) {
    if (body["pdus"].size() < 2) return;
    std::reverse(body["pdus"].begin(), body["pdus"].end());
    rename_transaction(call);
  }));
  CHECK(noticed(broken, "after a newer one of its room") == "after a newer one of its room");
}

TEST_CASE("simulation's judges: an engine whose cursors jump is noticed") {
  run broken(small(), {});
  broken.sabotage = [](const std::string& path) {
    storage::database db(path, storage::database::mode::write);
    db.run("UPDATE cursor SET pdu = (SELECT max(position) FROM pdu)");
  };
  CHECK(noticed(broken, " lacks $event") == " lacks $event");
}

TEST_CASE("simulation's judges: an engine whose cursors fall back is noticed") {
  run broken(small(), {});
  broken.sabotage = [](const std::string& path) {
    storage::database db(path, storage::database::mode::write);
    db.run("UPDATE cursor SET pdu = 0");
  };
  CHECK(noticed(broken, "which it had acked") == "which it had acked");
}

TEST_CASE("simulation's judges: an engine that forgets its gates at a restart is noticed") {
  run broken(small(), {});
  broken.sabotage = [](const std::string& path) {
    storage::database db(path, storage::database::mode::write);
    db.run("DELETE FROM gate");
  };
  CHECK(noticed(broken, " ms were due") == " ms were due");
}

TEST_CASE("simulation's judges: an engine that lets more go than it may is noticed") {
  auto plan = small();
  plan.records = 4'000;
  run broken(plan, {});
  broken.misconfigure = [](config& settings) { settings.delivery.catch_up_events_per_room = 5; };
  CHECK(noticed(broken, "newer ones were logged before its gate opened") ==
        "newer ones were logged before its gate opened");
}

TEST_CASE("simulation's judges: an engine that hammers is noticed") {
  run broken(small(), {});
  broken.misconfigure = [](config& settings) { settings.backoff.first_ms = 1'000; };
  CHECK(noticed(broken, " ms were due") == " ms were due");
}

TEST_CASE("simulation's judges: an engine that waits too long is noticed") {
  run broken(small(), {});
  broken.misconfigure = [](config& settings) { settings.backoff.factor = 20; };
  CHECK(noticed(broken, " failures allow") == " failures allow");
}

TEST_CASE("simulation's judges: an engine whose transactions are too big is noticed") {
  run broken(small(), {});
  broken.misconfigure = [](config& settings) { settings.limits.transaction_pdus = 60; };
  CHECK(noticed(broken, "over the protocol's caps") == "over the protocol's caps");
}

TEST_CASE("simulation's judges: an engine in which the slow hold up the well is noticed") {
  auto plan = small();
  plan.max_in_flight = 1;
  run broken(plan, {});
  CHECK(noticed(broken, "which is always well, got") == "which is always well, got");
}

/// Changes the device-list updates of every so many transactions that have some.
template <class Change> std::function<void(http_call&)> every_update(int nth, Change change) {
  return [nth, change, count = std::make_shared<int>(0)](http_call& call) {
    auto body = nlohmann::json::parse(call.body.view());
    auto& edus = body["edus"];
    const auto is_update = [](const auto& edu) { return edu.value("edu_type", "") == "m.device_list_update"; };
    if (std::none_of(edus.begin(), edus.end(), is_update) || ++*count % nth != 0) return;
    for (auto one = edus.begin(); one != edus.end();)
      if (is_update(*one) && !change((*one)["content"])) one = edus.erase(one);
      else ++one;
    call.body = shared_text(body.dump());
    rename_transaction(call);
  };
}

TEST_CASE("simulation's judges: an engine that loses an update of a device list is noticed") {
  run broken(small(), {});
  broken.tamper(every_update(3, [](auto&) { return false; }));
  CHECK(noticed(broken, " believes that the devices of ") == " believes that the devices of ");
}

TEST_CASE("simulation's judges: an engine whose updates make everybody fetch whole lists is noticed") {
  run broken(small(), {});
  broken.tamper(every_update(1, [](auto& content) {
    content["prev_id"] = {7};
    return true;
  }));
  CHECK(noticed(broken, " of our lists, at most ") == " of our lists, at most ");
}

TEST_CASE("simulation's judges: an engine that holds a wrong list of somebody is noticed") {
  run broken(small(), {});
  broken.sabotage = [](const std::string& path) {
    storage::database db(path, storage::database::mode::write);
    db.run("UPDATE remote_device SET display_name = 'another'");
  };
  CHECK(noticed(broken, "we believe that the devices of ") == "we believe that the devices of ");
}

TEST_CASE("simulation's judges: a breach comes with the last things that happened to its server") {
  run broken(small(), {});
  broken.misconfigure = [](config& settings) { settings.backoff.first_ms = 1'000; };
  broken.trace({"r5.example.org", "r6.example.org"});
  broken.go();
  const auto& all = broken.breaches();
  const auto one = std::find_if(all.begin(), all.end(), [](const auto& b) {
    return b.server == "r5.example.org" || b.server == "r6.example.org";
  });
  REQUIRE(one != all.end());
  const auto text = broken.trace_of(*one);
  CHECK(text.find("PUT /_matrix/federation/v1/send/") != std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '\n') <= 30);
}
