#include "storage/device_store.hpp"

#include "own_lists_bench.hpp"

using namespace ranvier;
using namespace ranvier::storage;

namespace {
const std::string room = "!r:us.test", alice = "@a:us.test";
using what = change<std::string>::what;

struct fixture : list_bench {
  fixture() {
    feed(line_of(roster_line(room, {alice, "@x:one.test"})));
    skipped_ = rows("device_list_item"); // of the roster
  }
  std::int64_t version() { return query_number("SELECT version FROM local_user WHERE user = '@a:us.test'"); }
  /// Texts of the device_lists items since the start, with blanks between them.
  std::string announced() {
    std::string out;
    auto skip = skipped_;
    for (const auto& item : read_stream(*reader, 0, 1'000'000'000, 1'000))
      if (item.kind == "device_lists" && skip-- <= 0) out += (out.empty() ? "" : " ") + item.json;
    return out;
  }
  std::int64_t items() { return rows("device_list_item") - skipped_; }

private:
  std::int64_t skipped_ = 0;
};
} // namespace

TEST_CASE_FIXTURE(fixture, "what changes nothing makes no version, no entry and no announcement") {
  auto line = device_line(alice, "D1", "k");
  line.display_name = {what::given, "phone"};
  feed(line_of(line));
  feed(line_of(signing_line(alice, "M")));
  const auto head_before = head();
  const auto version_before = version();
  const auto told = announced();
  feed({line_of(line), line_of(device_line(alice, "D1")), line_of(device_line(alice, "D1", "k")),
        line_of(rename_line(alice, "D1", "phone")), line_of(signing_line(alice, "M")),
        line_of(deletion_line(alice, "unknown"))});
  CHECK(last.entries.empty());
  CHECK(head() == head_before);
  CHECK(version() == version_before);
  CHECK(announced() == told);
}

TEST_CASE_FIXTURE(fixture, "a counter begins at the wall clock and goes up by one") {
  feed(line_of(device_line(alice, "D1")));
  CHECK(version() == now_ms);
  now_ms += 1'000'000;
  feed(line_of(device_line(alice, "D1", "k")));
  feed(line_of(rename_line(alice, "D1", "phone")));
  feed(line_of(signing_line(alice, "M")));
  CHECK(version() == now_ms - 1'000'000 + 2);
  auto gone = device_line(alice, "D1");
  gone.keys.is = gone.display_name.is = what::removed;
  feed(line_of(gone));
  CHECK(version() == now_ms - 1'000'000 + 3);
}

TEST_CASE_FIXTURE(fixture, "cross-signing keys alone make no version; the first device begins it") {
  feed(line_of(signing_line(alice, "M")));
  CHECK(version() == 0);
  CHECK(deliver("one.test") == "signing");
  feed(line_of(device_line(alice, "D1", "k")));
  CHECK(version() == now_ms);
  CHECK(deliver("one.test") == "D1:1<");
}

TEST_CASE_FIXTURE(fixture, "a user-signing key is for its owner only: announced, owed to nobody") {
  cross_signing_record keys;
  keys.user_id = alice;
  keys.user_signing_key = {what::given, signing_key(alice, "user_signing", "U")};
  feed(line_of(keys));
  CHECK(last.entries.empty());
  CHECK(page("one.test").list.empty());
  CHECK(announced() == R"({"changed":["@a:us.test"],"left":[]})");
  CHECK(lists().keys(alice, {}, true, false).user_signing_key == keys.user_signing_key.value);
  CHECK(lists().keys(alice, {}, false, false).user_signing_key.empty());
  CHECK(lists().keys(alice, {}, true, true).user_signing_key.empty());
}

TEST_CASE_FIXTURE(fixture, "each batch announces whose lists changed, once, whether servers share or not") {
  feed({line_of(device_line(alice, "D1", "k")), line_of(device_line(alice, "D2", "k")),
        line_of(device_line("@c:us.test", "F1", "k")), line_of(device_line("@c:us.test", "F1", "k"))});
  CHECK(announced() == R"({"changed":["@a:us.test","@c:us.test"],"left":[]})");
  CHECK(items() == 1);
  // An entry goes out only where somebody shares.
  REQUIRE(last.entries.size() == 2);
  CHECK(last.entries[1].subject == alice);
  auto loaded = device_line(alice, "D3", "k");
  loaded.initial = true;
  feed(line_of(loaded));
  CHECK(items() == 1);
}

TEST_CASE_FIXTURE(fixture, "a deleted device that is fed again begins anew") {
  auto line = device_line(alice, "D1", "k");
  line.display_name = {what::given, "phone"};
  feed(line_of(line));
  feed(line_of(deletion_line(alice, "D1")));
  feed(line_of(device_line(alice, "D1")));
  auto told = read_update(page("one.test").list.at(0).edu);
  CHECK_FALSE(told.deleted);
  CHECK(told.keys.empty());
  CHECK(told.name.empty());
}

TEST_CASE("where names are hidden a rename is our own users' affair") {
  list_bench bench(false);
  bench.stores = std::make_unique<writer>(writer_settings{bench.folder.file("db"), 1'000'000, {"host"}, 10'000, false});
  bench.feed(line_of(roster_line(room, {alice, "@x:one.test"})));
  bench.feed(line_of(device_line(alice, "D1", "k")));
  const auto head = bench.head();
  const auto items = bench.rows("device_list_item");
  bench.feed(line_of(rename_line(alice, "D1", "phone")));
  CHECK(bench.head() == head);
  CHECK(bench.last.entries.empty());
  CHECK(bench.rows("device_list_item") == items + 1);
  CHECK(bench.deliver("one.test") == "D1:1<");
  bench.feed(line_of(device_line(alice, "D1", "k2")));
  CHECK(bench.deliver("one.test") == "D1:2<1");
  CHECK(bench.lists().list(alice).json.find("phone") == std::string::npos);
  CHECK(bench.lists().keys(alice, {}, false, true).devices.at("D1").find("phone") == std::string::npos);
  CHECK(bench.lists().keys(alice, {}, false, false).devices.at("D1").find("phone") != std::string::npos);
}

TEST_CASE_FIXTURE(fixture, "a batch that fails leaves nothing, and the next versions are right") {
  feed(line_of(device_line(alice, "D1", "k")));
  auto undone = stores->commit({[&](writer& to, std::vector<log_entry>& entries) {
    to.feed.apply({line_of(device_line(alice, "D2", "k"))}, now_ms, entries);
    throw std::runtime_error("undone");
  }});
  CHECK(undone.entries.empty());
  CHECK(announced() == R"({"changed":["@a:us.test"],"left":[]})");
  feed(line_of(device_line(alice, "D3", "k")));
  CHECK(brief("one.test") == "D1:1< D3:2<1");
}

TEST_CASE_FIXTURE(fixture, "L16: no device has the name of a cross-signing key of its user") {
  feed(line_of(device_line(alice, "D1", "k")));
  auto refused = feed(line_of(signing_line(alice, "D1")));
  REQUIRE(refused.rejected.size() == 1);
  CHECK(refused.rejected[0].errcode == "M_INVALID_PARAM");
  CHECK(rows("cross_signing") == 0);
  CHECK(feed(line_of(signing_line(alice, "M"))).accepted == 1);
  refused = feed(line_of(device_line(alice, "M", "k")));
  REQUIRE(refused.rejected.size() == 1);
  CHECK(refused.rejected[0].errcode == "M_INVALID_PARAM");
  CHECK(rows("local_device") == 1);
  CHECK(feed(line_of(device_line("@b:us.test", "M", "k"))).accepted == 1);
  CHECK(feed({line_of(deletion_line(alice, "D1")), line_of(signing_line(alice, "D1"))}).accepted == 2);
}
