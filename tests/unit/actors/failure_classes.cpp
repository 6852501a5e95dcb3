#include "actors/failure_classes.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace ranvier;

namespace {

constexpr std::int64_t day_ms = 86'400'000;
constexpr std::int64_t wall = 784'111'777'000; // Sun, 06 Nov 1994 08:49:37 GMT

judge_context sending() { return {"PUT /send", 60'000, wall, day_ms}; }
judge_context fetching() { return {"GET /user/devices", 30'000, wall, day_ms}; }

http_answer status(int code, std::string type = "application/json", std::string body = "{}") {
  http_answer out;
  out.status = code;
  out.content_type = std::move(type);
  out.body = shared_text(std::move(body));
  out.request_sent = true;
  return out;
}

http_answer none(failure_stage stage, bool sent, std::string problem = {}) {
  http_answer out;
  out.stage = stage;
  out.request_sent = sent;
  out.problem = std::move(problem);
  return out;
}

} // namespace

TEST_CASE("failure classes: each status of /send has one class (B20)") {
  struct row {
    int status;
    failure_class wanted;
  };
  const std::vector<row> table{
    {201, failure_class::refused},         {204, failure_class::refused},       {301, failure_class::refused},
    {302, failure_class::refused},         {304, failure_class::refused},       {308, failure_class::refused},
    {400, failure_class::content_refused}, {401, failure_class::refused},       {402, failure_class::content_refused},
    {403, failure_class::refused},         {404, failure_class::refused},       {405, failure_class::refused},
    {409, failure_class::content_refused}, {410, failure_class::gone},          {413, failure_class::content_refused},
    {422, failure_class::content_refused}, {429, failure_class::rate_limited},  {500, failure_class::server_error},
    {502, failure_class::server_error},    {503, failure_class::server_error},  {504, failure_class::server_error},
    {520, failure_class::server_error},    {599, failure_class::server_error},  {600, failure_class::refused},
    {101, failure_class::refused},
  };
  for (const auto& r : table) {
    CAPTURE(r.status);
    const auto why = classify_push(status(r.status), sending());
    REQUIRE(why.has_value());
    CHECK(to_string(why->cls) == to_string(r.wanted));
    CHECK(why->stage == failure_stage::answer);
    CHECK(why->status == r.status);
    CHECK(why->message.find(std::to_string(r.status)) == 0);
    CHECK(why->message.find("(PUT /send)") != std::string::npos);
  }
}

TEST_CASE("failure classes: a 200 to /send is a success whatever its body, but for a page (T5)") {
  for (const char* body : {"", "{}", "null", "[]", "not json", "{\"pdus\":7}"}) {
    CAPTURE(std::string(body));
    CHECK_FALSE(classify_push(status(200, "application/json", body), sending()).has_value());
    CHECK_FALSE(classify_push(status(200, "", body), sending()).has_value());
  }
  const std::vector<std::pair<std::string, std::string>> pages{{"text/html", ""},
                                                               {"Text/HTML; charset=utf-8", "{}"},
                                                               {"application/json", "<html>"},
                                                               {"", " \r\n<!doctype html>"},
                                                               {"", "\xEF\xBB\xBF<html>"}};
  for (const auto& [type, body] : pages) {
    CAPTURE(type);
    CAPTURE(body);
    const auto why = classify_push(status(200, type, body), sending());
    REQUIRE(why.has_value());
    CHECK(to_string(why->cls) == "refused");
    CHECK(why->status == 200);
    CHECK(why->message == "200 with an HTML page instead of a Matrix answer (PUT /send)");
  }
}

TEST_CASE("failure classes: no answer is unreachable where it broke, or at answer if it broke once it was sent") {
  struct row {
    failure_stage at;
    bool sent;
    failure_stage wanted;
  };
  const std::vector<row> table{{failure_stage::resolve, false, failure_stage::resolve},
                               {failure_stage::connect, false, failure_stage::connect},
                               {failure_stage::tls, false, failure_stage::tls},
                               {failure_stage::resolve, true, failure_stage::resolve}, // after a cut
                               {failure_stage::connect, true, failure_stage::connect},
                               {failure_stage::tls, true, failure_stage::tls},
                               {failure_stage::request, false, failure_stage::request},
                               {failure_stage::request, true, failure_stage::answer},
                               {failure_stage::answer, true, failure_stage::answer}};
  for (const auto& r : table) {
    const auto why = classify_push(none(r.at, r.sent), sending());
    REQUIRE(why.has_value());
    CHECK(to_string(why->cls) == "unreachable");
    CHECK(to_string(why->stage) == to_string(r.wanted));
    CHECK(why->status == 0);
    CHECK_FALSE(why->message.empty());
    const auto pull = classify_pull(none(r.at, r.sent), fetching());
    CHECK(pull.is == verdict::failure);
    CHECK(to_string(pull.why.stage) == to_string(r.wanted));
  }
}

TEST_CASE("failure classes: messages are sentences for people") {
  auto silent = none(failure_stage::answer, true);
  silent.took_ms = 60'000;
  CHECK(classify_push(silent, sending())->message == "no answer within 60 s (PUT /send)");
  silent.took_ms = 1'500;
  CHECK(classify_push(silent, sending())->message
        == "the connection broke before a whole answer came (PUT /send)");
  CHECK(classify_push(none(failure_stage::tls, false, "certificate expired"), sending())->message
        == "certificate expired (PUT /send)");
  CHECK(classify_push(status(503, "", R"({"errcode":"M_UNKNOWN","error":"busy"})"), sending())->message
        == "503 Service Unavailable: M_UNKNOWN: busy (PUT /send)");
  CHECK(classify_push(status(520, "", "<html>"), sending())->message == "520 (PUT /send)");
  CHECK(classify_push(status(500, "", R"({"error":["no text"]})"), sending())->message
        == "500 Internal Server Error (PUT /send)");
}

TEST_CASE("failure classes: a peer's words are cut short and carry no control characters") {
  const auto why = classify_push(status(500, "", "{\"error\":\"" + std::string(400, 'x') + "\"}"), sending());
  CHECK(why->message.size() < 200);
  CHECK(why->message.find("...") != std::string::npos);
  const auto bell = classify_push(status(500, "", R"({"error":"a\u0007\u001b[31mb\nc"})"), sending());
  CHECK(bell->message == "500 Internal Server Error: a  [31mb c (PUT /send)");
  std::string umlauts;
  for (int i = 0; i < 80; ++i)
    umlauts += "x\xC3\xA4\xC3\xB6";
  const auto cut = classify_push(status(500, "", "{\"error\":\"" + umlauts + "\"}"), sending())->message;
  const auto end = cut.find("...");
  REQUIRE(end != std::string::npos);
  CHECK((static_cast<unsigned char>(cut[end - 1]) & 0xC0) != 0xC0); // no lead byte without what follows it
  const auto deep = classify_push(status(500, "", std::string(60'000, '[')), sending());
  CHECK(deep->message == "500 Internal Server Error (PUT /send)");
}

TEST_CASE("failure classes: to a pull only silence, 5xx and 429 are failures, and only a 200 a success (B19)") {
  for (const int code : {201, 204, 301, 302, 307, 400, 401, 403, 404, 405, 410, 413, 422}) {
    CAPTURE(code);
    CHECK(classify_pull(status(code), fetching()).is == verdict::proves_nothing);
  }
  for (const int code : {429, 500, 502, 503, 520}) {
    CAPTURE(code);
    const auto out = classify_pull(status(code), fetching());
    CHECK(out.is == verdict::failure);
    CHECK(to_string(out.why.cls) == (code == 429 ? "rate_limited" : "server_error"));
    CHECK(out.why.message.find("(GET /user/devices)") != std::string::npos);
  }
  CHECK(classify_pull(status(200), fetching()).is == verdict::success);
  CHECK(classify_pull(status(200, "text/html", "x"), fetching()).is == verdict::proves_nothing);
  auto ended = none(failure_stage::answer, true);
  ended.cancelled = true;
  CHECK(classify_pull(ended, fetching()).is == verdict::proves_nothing);
}

TEST_CASE("B89: a 429 is obeyed within limits, whatever it says") {
  struct row {
    std::string header, body;
    std::int64_t wanted;
  };
  const std::vector<row> table{
    {"", R"({"errcode":"M_LIMIT_EXCEEDED","retry_after_ms":5000})", 5'000},
    {"7", "{}", 7'000},
    {" 7 ", "", 7'000},
    {"7", R"({"retry_after_ms":5000})", 7'000},
    {"3", R"({"retry_after_ms":5000})", 3'000},
    {"abc", R"({"retry_after_ms":5000})", 5'000},
    {"", R"({"retry_after_ms":1000000000000})", day_ms},
    {"", R"({"retry_after_ms":1e300})", day_ms},
    {"1000000000000", "", day_ms},
    {std::string(400, '9'), "", day_ms},
    {"0", "", 1'000},
    {"", R"({"retry_after_ms":0})", 1'000},
    {"", R"({"retry_after_ms":12.7})", 1'000},
    {"", R"({"retry_after_ms":-1})", -1},
    {"-1", "", -1},
    {"abc", "", -1},
    {"7.5", "", -1},
    {"", R"({"retry_after_ms":"abc"})", -1},
    {"", R"({"retry_after_ms":null})", -1},
    {"", "not json", -1},
    {"", "", -1},
    {"Sun, 06 Nov 1994 08:50:37 GMT", "", 60'000},
    {"Sunday, 06-Nov-94 08:50:37 GMT", "", 60'000},
    {"Sun Nov  6 08:50:37 1994", "", 60'000},
    {"Sun, 06 Nov 1994 08:00:00 GMT", "", 1'000},  // past: at once, that is after 1 s
    {"Sun, 06 Nov 2094 08:00:00 GMT", "", day_ms}, // never
  };
  for (const auto& r : table) {
    CAPTURE(r.header.substr(0, 40));
    CAPTURE(r.body);
    CHECK(retry_after_of(r.header, r.body, wall, day_ms) == r.wanted);
    auto answer = status(429, "application/json", r.body);
    answer.retry_after = r.header;
    CHECK(classify_push(answer, sending())->retry_after_ms == r.wanted);
  }
}

TEST_CASE("failure classes: a cap below a second is a second") {
  CHECK(retry_after_of("7", "", wall, 10) == 1'000);
}

TEST_CASE("failure classes: HTTP dates") {
  CHECK(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT") == wall);
  CHECK(parse_http_date("Thu, 01 Jan 1970 00:00:00 GMT") == 0);
  CHECK(parse_http_date("Tue, 29 Feb 2028 23:59:60 GMT").has_value());
  for (const char* bad : {"", "Sun", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 CET",
                          "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Foo 1994 08:49:37 GMT",
                          "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov 1994 08:60:37 GMT", "a b c d e f g GMT"}) {
    CAPTURE(std::string(bad));
    CHECK_FALSE(parse_http_date(bad).has_value());
  }
}
