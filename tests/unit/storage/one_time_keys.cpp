#include "storage/one_time_keys.hpp"

#include "own_lists_bench.hpp"

using namespace ranvier;
using namespace ranvier::storage;

namespace {
const std::string alice = "@a:us.test";
using keys_of = std::map<std::string, std::string>;

struct fixture : list_bench {
  static one_time_keys_record upload(const keys_of& keys) {
    one_time_keys_record one;
    one.user_id = alice;
    one.device_id = "D1";
    one.one_time_keys = keys;
    return one;
  }
  static one_time_keys_record fallback(const keys_of& keys) {
    auto one = upload({});
    one.fallback_keys = {change<keys_of>::what::given, keys};
    return one;
  }
  static keys_of numbered(int from, int to) {
    keys_of out;
    for (int i = from; i < to; ++i)
      out["s:" + std::to_string(1'000 + i)] = "\"k" + std::to_string(i) + "\"";
    return out;
  }
  claimed_own_keys claim(const std::string& device = "D1", const std::string& algorithm = "s") {
    claimed_own_keys out;
    write([&](writer& to, auto&) { out = to.devices.claim({{{alice, {{device, algorithm}}}}}, now_ms); });
    return out;
  }
  /// "id=key" of the one that was claimed; empty: none.
  std::string claimed() {
    auto out = claim();
    if (out.keys.empty()) return {};
    const auto& [id, key] = *out.keys.at(alice).at("D1").begin();
    return id + "=" + key;
  }
  std::string told() {
    std::string out;
    for (const auto& item : read_stream(*reader, 0, 1'000'000'000, 1'000))
      if (item.kind == "one_time_keys_low") out += item.json + "\n";
    return out;
  }
};
} // namespace

TEST_CASE_FIXTURE(fixture, "keys are claimed in the order of their uploads, each once, then the fallback key") {
  feed(line_of(upload({{"s:Z", "\"z\""}})));
  feed(line_of(upload({{"s:A", R"({"key":"a","signatures":{}})"}, {"other:A", "\"o\""}})));
  feed(line_of(fallback({{"s:F", R"({"fallback":true,"key":"f"})"}})));
  CHECK(lists().counts(alice, "D1").left == std::map<std::string, std::int64_t>{{"other", 1}, {"s", 2}});
  CHECK(lists().counts(alice, "D1").unused_fallback_types == std::vector<std::string>{"s"});
  CHECK(claimed() == "s:Z=\"z\"");
  CHECK(claimed() == R"(s:A={"key":"a","signatures":{}})");
  CHECK(lists().counts(alice, "D1").unused_fallback_types == std::vector<std::string>{"s"});
  CHECK(claimed() == R"(s:F={"fallback":true,"key":"f"})");
  CHECK(claimed() == R"(s:F={"fallback":true,"key":"f"})");
  CHECK(lists().counts(alice, "D1").left == std::map<std::string, std::int64_t>{{"other", 1}, {"s", 0}});
  CHECK(lists().counts(alice, "D1").unused_fallback_types.empty());
}

TEST_CASE_FIXTURE(fixture, "who or what isn't there is left out of a claim") {
  feed(line_of(upload({{"s:A", "\"a\""}})));
  CHECK(claim("D2").keys.empty());
  CHECK(claim("D1", "unknown").keys.empty());
  CHECK(claim("D1", "").keys.empty());
  CHECK(claimed() == "s:A=\"a\"");
  CHECK(claimed().empty());
}

TEST_CASE_FIXTURE(fixture, "B79: a key that was handed out isn't taken in again") {
  feed(line_of(upload({{"s:AAA", "\"a\""}})));
  CHECK(claimed() == "s:AAA=\"a\"");
  auto again = feed(line_of(upload({{"s:AAA", "\"a\""}, {"s:BBB", "\"b\""}})));
  CHECK(again.accepted == 1);
  reopen();
  CHECK(claimed() == "s:BBB=\"b\"");
  CHECK(claimed().empty());
  CHECK(feed(line_of(upload({{"s:AAA", "\"a\""}}))).accepted == 1);
  CHECK(claimed().empty());
}

TEST_CASE_FIXTURE(fixture, "B79: a known key id with other bytes rejects its line, and nothing of it is kept") {
  feed(line_of(upload({{"s:A", "\"a\""}, {"s:B", "\"b\""}})));
  CHECK(claimed() == "s:A=\"a\"");
  for (const std::string id : {"s:A", "s:B"}) {
    auto refused = feed({line_of(upload({{"s:0", "\"new\""}, {id, "\"other\""}}))});
    REQUIRE(refused.rejected.size() == 1);
    CHECK(refused.rejected[0].errcode == "M_INVALID_PARAM");
    CHECK(refused.rejected[0].error.find(id) != std::string::npos);
    CHECK(refused.rejected[0].error.find("other\"") == std::string::npos);
  }
  CHECK(lists().counts(alice, "D1").left.at("s") == 1);
}

TEST_CASE_FIXTURE(fixture, "B79: 64 claims for 32 keys give each key once, over a restart too") {
  feed(line_of(upload(numbered(0, 32))));
  std::set<std::string> given;
  int none = 0;
  for (int i = 0; i < 64; ++i) {
    if (i % 10 == 9) reopen();
    auto one = claimed();
    if (one.empty()) ++none;
    else CHECK(given.insert(one).second);
  }
  CHECK(given.size() == 32);
  CHECK(none == 32);
}

TEST_CASE_FIXTURE(fixture, "a claim that wasn't committed gives nothing away") {
  feed(line_of(upload(numbered(0, 1))));
  auto undone = stores->commit({[&](writer& to, auto&) {
    CHECK_FALSE(to.devices.claim({{{alice, {{"D1", "s"}}}}}, now_ms).keys.empty());
    throw std::runtime_error("undone");
  }});
  CHECK(undone.problems == std::vector<std::string>{"undone"});
  CHECK(claimed() == "s:1000=\"k0\"");
}

TEST_CASE_FIXTURE(fixture, "the host is told at half, at each further halving, and that there is none") {
  feed(line_of(upload(numbered(0, 50))));
  std::string expected;
  auto is = [&](int left) {
    expected += R"({"counts":{"s":)" + std::to_string(left) + R"(},"device_id":"D1","user_id":"@a:us.test"})" + "\n";
  };
  for (int left = 49; left >= 0; --left) {
    CHECK_FALSE(claimed().empty());
    if (left == 24 || left == 11 || left == 5 || left == 2 || left == 0) is(left);
    CHECK(told() == expected);
  }
  // An upload begins anew; the first use of a fallback key is told, the next isn't.
  feed(line_of(upload(numbered(50, 52))));
  claimed();
  CHECK(told() == expected);
  claimed();
  is(0);
  feed(line_of(fallback({{"s:F", "\"f\""}})));
  claimed();
  is(0);
  claimed();
  CHECK(told() == expected);
}

TEST_CASE_FIXTURE(fixture, "a fallback key that is fed again stays used, a new one isn't") {
  feed(line_of(fallback({{"s:F", "\"f\""}})));
  CHECK(claimed() == "s:F=\"f\"");
  feed(line_of(fallback({{"s:F", "\"f\""}})));
  CHECK(lists().counts(alice, "D1").unused_fallback_types.empty());
  feed(line_of(fallback({{"s:G", "\"g\""}})));
  CHECK(lists().counts(alice, "D1").unused_fallback_types == std::vector<std::string>{"s"});
  CHECK(claimed() == "s:G=\"g\"");
  auto gone = upload({});
  gone.fallback_keys.is = change<keys_of>::what::removed;
  feed(line_of(gone));
  CHECK(claimed().empty());
}

TEST_CASE_FIXTURE(fixture, "keys go with their device") {
  feed(
      {line_of(device_line(alice, "D1", "k")), line_of(upload(numbered(0, 3))), line_of(fallback({{"s:F", "\"f\""}}))});
  CHECK_FALSE(claimed().empty());
  feed(line_of(deletion_line(alice, "D1")));
  CHECK(claimed().empty());
  CHECK(lists().counts(alice, "D1").left.empty());
  CHECK(rows("one_time_key") == 0);
}

TEST_CASE_FIXTURE(fixture, "a key that was handed out doesn't come back with its device made anew; a new one may") {
  feed({line_of(device_line(alice, "D1", "k")), line_of(upload({{"s:A", "\"a\""}, {"s:B", "\"b\""}}))});
  CHECK(claimed() == "s:A=\"a\"");
  for (int i = 0; i < 2; ++i) {
    feed(line_of(deletion_line(alice, "D1")));
    feed({line_of(device_line(alice, "D1", "k")), line_of(upload({{"s:A", "\"a\""}}))});
    CHECK(claimed().empty());
  }
  // Nor under another id; the id itself may be used by a new key, and what nobody has got is still good.
  feed(line_of(upload({{"s:C", "\"a\""}, {"s:A", "\"new\""}, {"s:B", "\"b\""}})));
  CHECK(claimed() == "s:A=\"new\"");
  CHECK(claimed() == "s:B=\"b\"");
  CHECK(claimed().empty());
}

TEST_CASE_FIXTURE(fixture, "a fallback key replaces that of its own algorithm only, an empty object none, null all") {
  feed(line_of(fallback({{"s:F", "\"f\""}, {"other:F", "\"o\""}})));
  feed(line_of(fallback({{"other:G", "\"p\""}})));
  feed(line_of(fallback({})));
  CHECK(claimed() == "s:F=\"f\"");
  auto others = claim("D1", "other");
  CHECK(others.keys[alice]["D1"] == keys_of{{"other:G", "\"p\""}});
  auto gone = upload({});
  gone.fallback_keys.is = change<keys_of>::what::removed;
  feed(line_of(gone));
  CHECK(claimed().empty());
  CHECK(claim("D1", "other").keys.empty());
}
