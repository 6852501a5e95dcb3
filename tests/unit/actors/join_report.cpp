#include "actors/join_report.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace ranvier;
using nlohmann::json;

namespace {

join_try refusal(const std::string& server, int status, const std::string& errcode) {
  return read_refusal(server, "make_join", status, json{{"errcode", errcode}, {"error", "words"}}.dump());
}
join_try silent(const std::string& server) { return {server, 0, "", "couldn't be asked: it is down", ""}; }

} // namespace

TEST_CASE("an error answer in words") {
  const auto one = read_refusal("a", "send_join", 400, R"({"errcode":"M_X","error":"why\n not","room_version":"12"})");
  CHECK(one.errcode == "M_X");
  CHECK(one.room_version == "12");
  CHECK(one.words == "answered 400 to send_join (M_X): why  not");
  CHECK(read_refusal("a", "make_join", 502, "<html>").words == "answered 502 to make_join");
  const auto longer =
      read_refusal("a", "make_join", 400, json{{"error", std::string(199, 'x') + "\u00e9\u00e9"}}.dump());
  CHECK(longer.words == "answered 400 to make_join: " + std::string(199, 'x'));
}

TEST_CASE("the last meaningful answer gives status and errcode, all are told") {
  struct {
    const char* what;
    std::vector<join_try> tries;
    int status;
    const char* errcode;
  } table[] = {
      {"a refusal", {refusal("a", 403, "M_FORBIDDEN")}, 403, "M_FORBIDDEN"},
      {"before a failure",
       {refusal("a", 403, "M_FORBIDDEN"), refusal("b", 500, "M_UNKNOWN"), silent("c")},
       403,
       "M_FORBIDDEN"},
      {"before a 404", {refusal("a", 400, "M_TEST"), refusal("b", 404, "M_NOT_FOUND")}, 400, "M_TEST"},
      {"the last", {refusal("a", 400, "M_TEST"), refusal("b", 403, "M_FORBIDDEN")}, 403, "M_FORBIDDEN"},
      {"a 404 before silence", {refusal("a", 404, "M_NOT_FOUND"), silent("b")}, 404, "M_NOT_FOUND"},
      {"rate limits say nothing", {refusal("a", 429, "M_LIMIT_EXCEEDED")}, 502, "M_UNKNOWN"},
      {"failures only", {refusal("a", 500, "M_UNKNOWN"), silent("b")}, 502, "M_UNKNOWN"},
      {"silence only", {silent("a")}, 502, "M_RANVIER_UNREACHABLE"},
      {"a page", {read_refusal("a", "make_join", 403, "<html>")}, 502, "M_UNKNOWN"},
      {"nobody", {}, 502, "M_RANVIER_UNREACHABLE"},
  };
  for (const auto& row : table) {
    const std::string what = row.what;
    CAPTURE(what);
    const auto report = report_join(row.tries, "!r:x");
    CHECK(report.status == row.status);
    const auto body = json::parse(report.body);
    CHECK(body["errcode"] == row.errcode);
    for (const auto& one : row.tries)
      CHECK(body["error"].get<std::string>().find(one.server + " " + one.words) != std::string::npos);
    CHECK(body["error"].get<std::string>().find("!r:x") != std::string::npos);
  }
}

TEST_CASE("an unsupported version is passed on") {
  const auto one = read_refusal("a", "make_join", 400,
                                R"({"errcode":"M_INCOMPATIBLE_ROOM_VERSION","error":"e","room_version":"x"})");
  CHECK(json::parse(report_join({one}, "!r:x").body)["room_version"] == "x");
}
