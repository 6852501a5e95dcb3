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
