#include "actors/host_api.hpp"

#include "tests/unit/actors/ingress_bench.hpp"

using namespace ranvier;
using namespace ranvier::testing;

TEST_CASE("the host needs its token, but not for health") {
  ingress_bench f;
  for (const auto* headers : {"", "Authorization: Bearer wrong\r\n", "Authorization: Basic secret\r\n"}) {
    const auto answer = f.host("GET", "/_ranvier/v1/stream?timeout_ms=0", "", headers);
    CHECK(answer.status == 401);
    CHECK(code_of(answer) ==
          (std::string(headers).find("wrong") == std::string::npos ? "M_MISSING_TOKEN" : "M_UNKNOWN_TOKEN"));
  }
  CHECK(f.host("GET", "/healthz", "", "").status == 200);
  CHECK(f.host("GET", "/metrics", "", "").body == "ranvier_up 1\n");
  CHECK(f.host("GET", "/readyz", "", "").status == 503);
  f.ready->set(true);
  CHECK(f.host("GET", "/readyz", "", "").status == 200);
  CHECK(f.host("GET", "/_ranvier/v1/nothing").status == 404);
}

TEST_CASE("a feed goes to the ledger in batches and is answered as a whole") {
  ingress_bench f;
  std::string body;
  for (int i = 0; i < 1200; ++i)
    body += R"({"kind":"membership","room_id":"!r:a","user_id":"@u:a","membership":"join"})"
            "\n";
  const auto answer = f.host("POST", "/_ranvier/v1/feed", body);
  CHECK(answer.status == 200);
  CHECK(json::parse(answer.body)["accepted"] == 1200);
  std::size_t lines = 0;
  for (const auto n : f.says->batches) {
    lines += n;
    CHECK(n < 800); // 500, and what the last piece brought
  }
  CHECK(lines == 1200);
  CHECK(f.says->batches.size() >= 2);
  CHECK(json::parse(answer.body)["position"] == f.says->batches.size());
  const auto nothing = f.host("POST", "/_ranvier/v1/feed", "\n");
  CHECK(json::parse(nothing.body)["accepted"] == 0);
  CHECK(json::parse(nothing.body)["position"] == f.says->batches.size());
}

TEST_CASE("a feed that can't be stored is 503, also in the middle of a long body") {
  ingress_bench f;
  f.says->fed.ok = false;
  f.says->fed.problem = "disk full";
  std::string body;
  for (int i = 0; i < 20'000; ++i)
    body += R"({"kind":"membership","room_id":"!r:a","user_id":"@u:a","membership":"join"})"
            "\n";
  for (const auto& text : {body, std::string("{}\n")}) {
    const auto answer = f.host("POST", "/_ranvier/v1/feed", text);
    CHECK(answer.status == 503);
    CHECK(answer.head.find("Retry-After: 5") != std::string::npos);
    CHECK(answer.body.find("disk full") != std::string::npos);
  }
}

TEST_CASE("the stream: pages, bounds, consumers and bad parameters") {
  ingress_bench f;
  f.says->page = {
      "inst", {{5, {"pdu", R"({"origin":"x"})"}}, {6, {"edu", "{}"}}, {8, {"pdu", R"({"a":1})"}}}, 5, 8, 100};
  const auto at = [&](const std::string& query) { return f.host("GET", "/_ranvier/v1/stream?timeout_ms=0" + query); };
  const auto all = json::parse(at("").body);
  CHECK(all["instance"] == "inst");
  CHECK(all["next"] == 8);
  CHECK(all["items"].size() == 3);
  CHECK(all["items"][0] == json{{"position", 5}, {"kind", "pdu"}, {"origin", "x"}});
  CHECK(all["items"][1] == json{{"position", 6}, {"kind", "edu"}});
  CHECK(f.says->acknowledged.empty());
  CHECK(json::parse(at("&limit=2").body)["next"] == 6);
  CHECK(json::parse(at("&after=6").body)["items"].size() == 1);
  CHECK(json::parse(at("&after=100").body)["next"] == 100);
  CHECK(f.says->acknowledged == std::vector<position>{6, 100});
  for (const auto* after : {"3", "101"}) {
    const auto wrong = at("&after=" + std::string(after));
    CHECK(wrong.status == 409);
    const auto body = json::parse(wrong.body);
    CHECK(body["errcode"] == "M_RANVIER_POSITION");
    CHECK(body["first_valid"] == 4);
    CHECK(body["last_valid"] == 100);
  }
  for (const auto* bad : {"&after=-1", "&after=x", "&limit=0", "&limit=x", "&consumer=else", "&timeout_ms=0"})
    CHECK(at(bad).status == (std::string(bad) == "&timeout_ms=0" ? 200 : 400));
  f.says->page = {"inst", {}, 9, 8, 100};
  CHECK(json::parse(at("").body)["next"] == 8);
}

TEST_CASE("a long poll is answered when something comes, or at its time") {
  ingress_bench f;
  f.says->page = {"inst", {}, 1, 0, 10};
  CHECK(json::parse(f.host("GET", "/_ranvier/v1/stream?after=0&timeout_ms=30").body)["items"].empty());
  raw_client client(f.listeners->host_port());
  client.send(request("GET", "/_ranvier/v1/stream?after=0&timeout_ms=60000", "", "Authorization: Bearer secret\r\n"));
  {
    std::lock_guard lock(f.says->mutex);
    f.says->page = {"inst", {{1, {"to_device", "{}"}}}, 1, 1, 10};
  }
  // Whether it waits already or not: it must not sleep over this.
  CHECK(f.federation(f.send_text("1", with_message("m1"))).status == 200);
  CHECK(json::parse(client.read().body)["items"].size() == 1);
}

TEST_CASE("the stream as server-sent events, from Last-Event-ID") {
  ingress_bench f;
  f.says->page = {"inst", {{1, {"pdu", "{}"}}, {2, {"edu", R"({"x":1})"}}}, 1, 2, 10};
  raw_client client(f.listeners->host_port());
  client.send(request("GET", "/_ranvier/v1/stream", "",
                      "Authorization: Bearer secret\r\nAccept: text/event-stream\r\nLast-Event-ID: 1\r\n"));
  const auto head = client.until("\r\n\r\n");
  CHECK(head.find("200 OK") != std::string::npos);
  CHECK(head.find("Content-Type: text/event-stream") != std::string::npos);
  CHECK(client.until("\n\n").find("id: 2\nevent: edu\ndata: {\"position\":2,\"kind\":\"edu\",\"x\":1}\n\n") !=
        std::string::npos);
  CHECK(f.says->acknowledged == std::vector<position>{1});
  {
    std::lock_guard lock(f.says->mutex);
    f.says->page.items.push_back({3, {"pdu", "{}"}});
    f.says->page.head = 3;
  }
  caf::anon_send(f.actor, stream_advanced{});
  CHECK(client.until("\n\n").find("id: 3\n") != std::string::npos);
  CHECK(f.says->acknowledged == std::vector<position>{1}); // what was only sent isn't acknowledged
}

TEST_CASE("waiting calls are bounded, and one that ended makes room") {
  ingress_bench f(ingress_bench::with([](config& c) { c.limits.waiting_calls = 1; }));
  f.says->page = {"inst", {}, 1, 0, 10};
  raw_client client(f.listeners->host_port());
  client.send(request("GET", "/_ranvier/v1/stream?after=0&timeout_ms=60000", "", "Authorization: Bearer secret\r\n"));
  f.says->wait([&] { return f.says->reads > 0; });
  const auto refused = f.host("GET", "/_ranvier/v1/stream?timeout_ms=0");
  CHECK(refused.status == 503);
  CHECK(refused.head.find("Retry-After") != std::string::npos);
  {
    std::lock_guard lock(f.says->mutex);
    f.says->page = {"inst", {{1, {"pdu", "{}"}}}, 1, 1, 10};
  }
  caf::anon_send(f.actor, stream_advanced{});
  CHECK(client.read().status == 200);
  CHECK(f.host("GET", "/_ranvier/v1/stream?timeout_ms=0").status == 200);
}

TEST_CASE("the host's small calls") {
  ingress_bench f;
  CHECK(json::parse(f.host("GET", "/_ranvier/v1/feed/position?source=known").body) ==
        json{{"source", "known"}, {"seq", 7}});
  CHECK(json::parse(f.host("GET", "/_ranvier/v1/feed/position?source=x").body)["seq"].is_null());
  CHECK(f.host("GET", "/_ranvier/v1/feed/position").status == 400);
  const auto room = json::parse(f.host("GET", "/_ranvier/v1/rooms/%21r%3Aa%2Fb").body);
  CHECK(room["room_id"] == "!r:a/b");
  CHECK(room["partial"] == false);
  CHECK(room["members"] == json{{"@u:remote.test", "join"}});
  CHECK(room["servers"] == json{"remote.test"});
  CHECK(f.host("GET", "/_ranvier/v1/rooms/%21unknown").status == 404);

  f.says->answer = {418, shared_text(std::string(R"({"a":1})")), "", 12};
  const json order = {{"destination", "remote.test"}, {"method", "PUT"}, {"uri", "/_matrix/x?y=1"}};
  CHECK(json::parse(f.host("POST", "/_ranvier/v1/requests", order.dump()).body) ==
        json{{"status", 418}, {"content", {{"a", 1}}}, {"took_ms", 12}});
  CHECK(f.says->pulls == std::vector<std::string>{"PUT remote.test/_matrix/x?y=1 {}"});
  f.says->answer = {0, {}, "the gate is closed", 0};
  const auto closed = f.host("POST", "/_ranvier/v1/requests", order.dump());
  CHECK(closed.status == 502);
  CHECK(closed.body.find("the gate is closed") != std::string::npos);
  for (const auto& [member, value] : std::vector<std::pair<std::string, json>>{{"destination", "no server"},
                                                                               {"method", "BREW"},
                                                                               {"uri", "/elsewhere"},
                                                                               {"uri", "/_matrix/ x"},
                                                                               {"content", 7},
                                                                               {"timeout_ms", 0}}) {
    auto bad = order;
    bad[member] = value;
    CHECK(f.host("POST", "/_ranvier/v1/requests", bad.dump()).status == 400);
  }
}

TEST_CASE("events/sign signs what can be sent and refuses what can't") {
  ingress_bench f;
  const json event = {{"room_id", "!r:x"},
                      {"sender", "@a:ours.test"},
                      {"type", "m.x"},
                      {"content", json::object()},
                      {"origin_server_ts", 1},
                      {"depth", 1},
                      {"prev_events", json::array()},
                      {"auth_events", json::array()}};
  const auto sign = [&](const json& body) { return f.host("POST", "/_ranvier/v1/events/sign", body.dump()); };
  const auto done = json::parse(sign({{"room_version", "10"}, {"event", event}}).body);
  const json_document document(done["event"].dump());
  const auto shape = look_at_pdu(document.root(), rules_of("10"));
  CHECK(shape.ok);
  CHECK(shape.hash_ok);
  CHECK(shape.event_id == done["event_id"]);
  CHECK(verify_signature(key_named('o').public_key(), shape.signatures.at(us).at("ed25519:o"), shape.signed_bytes));
  CHECK(code_of(sign({{"room_version", "99"}, {"event", event}})) == "M_UNSUPPORTED_ROOM_VERSION");
  CHECK(sign({{"event", event}}).status == 400);
  auto bad = event;
  bad["content"]["n"] = 1.5;
  CHECK(sign({{"room_version", "10"}, {"event", bad}}).status == 400);
  bad = event;
  bad.erase("content");
  CHECK(sign({{"room_version", "10"}, {"event", bad}}).status == 400);
  bad = event;
  bad["content"]["x"] = std::string(70'000, 'x');
  CHECK(sign({{"room_version", "10"}, {"event", bad}}).status == 413);
}
