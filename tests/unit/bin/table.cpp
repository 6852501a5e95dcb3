#include "bin/table.hpp"

#include <doctest/doctest.h>

using namespace ranvier;
using nlohmann::json;

namespace {

const std::vector<column>& columns() {
  static const std::vector<column> all{
      {"NAME", [](const json& r, std::int64_t) { return text_in(r, "name"); }, [](const json& r) { return r["name"]; }},
      {"IN FLIGHT", [](const json& r, std::int64_t) { return std::to_string(number_in(r, "n")); },
       [](const json& r) { return json(number_in(r, "n")); }},
  };
  return all;
}
std::vector<const column*> shown() { return {&columns()[0], &columns()[1]}; }

std::string names(const std::vector<json>& rows) {
  std::string out;
  for (const auto& row : rows)
    out += text_in(row, "name");
  return out;
}

} // namespace

TEST_CASE("table: spans of time") {
  constexpr std::int64_t s = 1'000, m = 60 * s, h = 60 * m, d = 24 * h;
  const std::vector<std::pair<std::int64_t, std::string>> rows{
      {-5, "0s"},     {0, "0s"},          {140, "140ms"},
      {999, "999ms"}, {s, "1s"},          {59 * s, "59s"},
      {m, "1m"},      {12 * m, "12m"},    {h - 1, "59m"},
      {h, "1h"},      {5 * h, "5h"},      {h + 5 * m, "1h 05m"},
      {d, "1d"},      {d - 1, "23h 59m"}, {3 * d + 2 * h, "3d 02h"},
      {30 * d, "30d"}};
  for (const auto& [ms, text] : rows)
    CHECK(span_text(ms) == text);
}

TEST_CASE("table: bytes") {
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(1'023) == "1023 B");
  CHECK(bytes_text(1'536) == "1.5 KiB");
  CHECK(bytes_text(412LL << 20) == "412 MiB");
  CHECK(bytes_text(3LL << 50) == "3072 TiB");
}

TEST_CASE("table: moments") {
  CHECK(due_text(0, 5'000).empty());
  CHECK(due_text(13'000, 5'000) == "in 8s");
  CHECK(due_text(5'000, 5'000) == "now");
  CHECK(due_text(1, 5'000) == "now");
  CHECK(ago_text(0, 5'000).empty());
  CHECK(ago_text(1'000, 5'000) == "4s ago");
}

TEST_CASE("table: columns are as wide as their longest text, counted in characters") {
  const std::vector<json> rows{{{"name", "häuser.example"}, {"n", 7}}, {{"name", "b"}, {"n", 12345}}};
  CHECK(table_text(rows, shown(), 0, true) == "NAME            IN FLIGHT\n"
                                              "häuser.example  7\n"
                                              "b               12345\n");
  CHECK(table_text(rows, shown(), 0, false) == "häuser.example  7\n"
                                               "b               12345\n");
  CHECK(table_text({}, shown(), 0, true) == "NAME  IN FLIGHT\n");
  CHECK(table_text({}, shown(), 0, false).empty());
}

TEST_CASE("table: sorting by a column, both ways, equal rows keep their order") {
  std::vector<json> rows{{{"name", "b"}, {"n", 2}}, {{"name", "c"}, {"n", 10}}, {{"name", "a"}, {"n", 2}}};
  CHECK(sort_rows(rows, columns(), "in-flight"));
  CHECK(names(rows) == "bac");
  CHECK(sort_rows(rows, columns(), "-in-flight"));
  CHECK(names(rows) == "cba");
  CHECK(sort_rows(rows, columns(), "name"));
  CHECK(names(rows) == "abc");
  CHECK_FALSE(sort_rows(rows, columns(), "nothing"));
  CHECK(names(rows) == "abc");
}

TEST_CASE("table: what others wrote can't drive the terminal") {
  CHECK(printable("a\x1b[31mb\nc\x7f") == "a [31mb c ");
  CHECK(printable("\xc2\x9b"
                  "31m é") == " 31m é");
}

TEST_CASE("table: members of another kind are passed over") {
  const json odd{{"text", 1}, {"number", "1"}, {"object", json::array()}, {"null", nullptr}};
  CHECK(text_in(odd, "text").empty());
  CHECK(number_in(odd, "number") == 0);
  CHECK(object_in(odd, "object").empty());
  CHECK(number_in(odd, "null") == 0);
  CHECK(text_in(odd, "absent").empty());
  CHECK(text_in(json::array(), "x").empty());
  CHECK(number_in(json("x"), "x") == 0);
  CHECK(object_in(json(nullptr), "x").empty());
}
