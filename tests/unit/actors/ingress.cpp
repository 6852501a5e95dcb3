#include "actors/ingress.hpp"

#include "tests/unit/actors/ingress_bench.hpp"

using namespace ranvier;
using namespace ranvier::testing;

TEST_CASE("the ingress tells what it does") {
  ingress_bench f;
  CHECK(f.federation(f.send_text("1", with_message("m1"))).status == 200);
  caf::scoped_actor self{f.system};
  json seen;
  self->request(f.actor, 5s, describe{})
      .receive([&](const description& d) { seen = json::parse(d.json); }, [](const caf::error&) { FAIL("no answer"); });
  CHECK(seen["kind"] == "ingress");
  CHECK(seen["inbound"]["transactions"] == 1);
  CHECK(seen["inbound"]["edus"] == 1);
  CHECK(seen["transactions_in_work"] == 0);
}

TEST_CASE("an ingress that crashes is made again, and the listeners go on with the new one") {
  ingress_bench f;
  f.says->page = {"inst", {}, 1, 0, 10};
  raw_client client(f.listeners->host_port());
  client.send(request("GET", "/_ranvier/v1/stream?after=0&timeout_ms=60000", "", "Authorization: Bearer secret\r\n"));
  f.says->wait([&] { return f.says->reads > 0; });
  caf::scoped_actor self{f.system};
  const auto describe_it = [&] {
    json seen;
    self->request(f.actor, 10s, describe{})
        .receive([&](const description& d) { seen = json::parse(d.json); }, [](const caf::error&) {});
    return seen;
  };
  for (int i = 0; i < 1000 && describe_it().value("stream_waiters", 0) == 0; ++i)
    continue;
  f.crashing = true;
  caf::anon_send(f.actor, stream_advanced{});
  CHECK(client.read().status == 500);
  f.crashing = false;
  int status = 0;
  for (int i = 0; i < 1000 && status != 200; ++i)
    status = f.host("GET", "/_ranvier/v1/stream?timeout_ms=0").status;
  CHECK(status == 200);
  CHECK(describe_it()["restarts"] == 1);
}
