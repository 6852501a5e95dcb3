#include "storage/quarantine.hpp"

#include "store_bench.hpp"

using namespace ranvier;
using namespace ranvier::storage;

namespace {
const std::string server = "one.test", other = "two.test";

set_aside_item item(const std::string& name, item_kind kind = item_kind::pdu, std::int64_t row = 0) {
  return {{kind, 7, name, std::string("{\"of\":\"") + name + "\"}", row}, 400, "no " + name};
}

struct quarantine_bench : store_bench {
  std::int64_t take(const std::string& name, const set_aside_item& what, std::int64_t at_ms = 1'000) {
    std::int64_t went = 0;
    write([&](writer& all, auto&) { went = quarantine(all.db).take(all.names.server(name), what, at_ms); });
    return went;
  }
  std::string listed() {
    std::string out;
    for (const auto& one : quarantine(*reader).list())
      out += (out.empty() ? "" : " ") + one.destination + "/" + one.name + "/" + to_string(one.kind);
    return out;
  }
  row_id id(const std::string& name) {
    row_id out = 0;
    write([&](writer& all, auto&) { out = all.names.server(name); });
    return out;
  }
  std::int64_t row(const std::string& name) {
    for (const auto& one : quarantine(*reader).list())
      if (one.name == name) return one.row;
    return 0;
  }
  std::string retried(const std::string& name) {
    std::string out;
    for (const auto& one : quarantine(*reader).retried(id(name), 10))
      out += (out.empty() ? "" : " ") + one.item.name + "=" + one.item.body.str();
    return out;
  }
  bool retry(std::int64_t which) {
    bool known = false;
    write([&](writer& all, auto&) { known = quarantine(all.db).retry(which).has_value(); });
    return known;
  }
  bool drop(std::int64_t which) {
    bool known = false;
    write([&](writer& all, auto&) { known = quarantine(all.db).drop(which).has_value(); });
    return known;
  }
};
} // namespace

TEST_CASE("quarantine: rows by age, each with the item's bytes and the server's words") {
  quarantine_bench bench;
  bench.take(server, item("$a"), 5'000);
  bench.take(other, item("m1", item_kind::to_device));
  CHECK(bench.listed() == "one.test/$a/pdu two.test/m1/to_device");
  const auto rows = quarantine(*bench.reader).list();
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].since_ms == 5'000);
  CHECK(rows[0].status == 400);
  CHECK(rows[0].message == "no $a");
}

TEST_CASE("quarantine: what is retried goes again with its bytes, and comes back to its row if it is refused again") {
  quarantine_bench bench;
  bench.take(server, item("$a"));
  bench.take(server, item("$b"));
  const auto first = bench.row("$a");
  CHECK(bench.retry(first));
  CHECK(bench.listed() == "one.test/$b/pdu");
  CHECK(bench.retried(server) == "$a={\"of\":\"$a\"}");
  CHECK(bench.retried(other).empty());
  CHECK_FALSE(bench.retry(first)); // it is under way
  CHECK_FALSE(bench.drop(first));
  CHECK(owed_reader(*bench.reader, 50).list("", 10) == std::vector<std::string>{server});
  CHECK(owed_reader(*bench.reader, 50).count(server, {}).pdus == 1);
  bench.take(server, item("$a", item_kind::pdu, first));
  CHECK(bench.row("$a") == first);
  CHECK(bench.retried(server).empty());
  CHECK(bench.retry(first));
  bench.write([&](writer& all, auto&) { quarantine(all.db).taken(all.names.server(server), {first}); });
  CHECK(bench.listed() == "one.test/$b/pdu");
  CHECK(bench.retried(server).empty());
  CHECK(bench.drop(bench.row("$b")));
  CHECK(bench.listed().empty());
}

TEST_CASE("quarantine: whether anything passed since the last was set aside") {
  quarantine_bench bench;
  CHECK_FALSE(quarantine(*bench.reader).nothing_passed(bench.id(server), 0));
  bench.take(server, item("$a"), 5'000);
  CHECK(quarantine(*bench.reader).nothing_passed(bench.id(server), 4'999));
  CHECK_FALSE(quarantine(*bench.reader).nothing_passed(bench.id(server), 5'000));
  CHECK_FALSE(quarantine(*bench.reader).nothing_passed(bench.id(other), 0));
}

TEST_CASE("quarantine: a server has a bound, beyond it the oldest are let go and counted") {
  quarantine_bench bench;
  bench.take(other, item("$theirs"));
  bench.write([&](writer& all, auto&) {
    for (int i = 0; i < quarantine::most_of_a_server; ++i)
      quarantine(all.db).take(all.names.server(server), item("$" + std::to_string(i)), i);
  });
  CHECK(bench.take(server, item("$new")) == 1);
  CHECK(bench.row("$0") == 0);
  CHECK(bench.row("$1") != 0);
  CHECK(bench.row("$new") != 0);
  CHECK(bench.row("$theirs") != 0);
}
