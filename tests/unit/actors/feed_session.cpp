#include "actors/feed_session.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace ranvier;
using nlohmann::json;

namespace {

const std::string record_text = R"({"kind":"membership","room_id":"!r:a","user_id":"@u:a","membership":"join"})";

std::vector<std::uint64_t> numbers_of(const std::vector<feed_line>& lines) {
  std::vector<std::uint64_t> out;
  for (const auto& line : lines)
    out.push_back(line.number);
  return out;
}

} // namespace

TEST_CASE("lines are the same whatever the pieces in which they come") {
  const std::string body = record_text + "\n\n  \r\nnot json\n" + record_text + "\r\n" + record_text;
  for (std::size_t piece = 1; piece <= body.size() + 1; piece += 7) {
    CAPTURE(piece);
    line_reader reader("a");
    std::vector<feed_line> lines;
    for (std::size_t at = 0; at < body.size(); at += piece)
      reader.add(std::string_view(body).substr(at, piece), lines);
    reader.end(lines);
    CHECK(numbers_of(lines) == std::vector<std::uint64_t>{1, 4, 5, 6}); // blank ones are counted and passed over
    REQUIRE(lines.size() == 4);
    CHECK(std::holds_alternative<record>(lines[0].what));
    CHECK(std::holds_alternative<record_problem>(lines[1].what));
    CHECK(std::holds_alternative<record>(lines[3].what));
  }
}

TEST_CASE("a line that is too long is rejected once, and the next one is read") {
  line_reader reader("a");
  std::vector<feed_line> lines;
  const std::string piece(1u << 20, 'x');
  for (std::size_t sent = 0; sent <= line_reader::max_line_bytes + 3 * piece.size(); sent += piece.size())
    reader.add(piece, lines);
  reader.add("end\n" + record_text + "\n", lines);
  CHECK(numbers_of(lines) == std::vector<std::uint64_t>{1, 2});
  REQUIRE(std::holds_alternative<record_problem>(lines[0].what));
  CHECK(std::get<record_problem>(lines[0].what).errcode == "M_TOO_LARGE");
  CHECK(std::holds_alternative<record>(lines[1].what));
}

TEST_CASE("outcomes add up; at most a thousand rejected lines are listed and all are counted") {
  feed_tally tally;
  feed_outcome one;
  one.accepted = 3;
  one.skipped = 1;
  one.head = 7;
  for (std::uint64_t n = 0; n < 700; ++n)
    one.rejected.push_back({n + 1, "M_BAD_JSON", "no"});
  tally.add(one);
  one.head = 5; // an answer of an older moment doesn't take the position back
  tally.add(one);
  const auto answer = json::parse(tally.answer());
  CHECK(answer["accepted"] == 6);
  CHECK(answer["skipped"] == 2);
  CHECK(answer["position"] == 7);
  CHECK(answer["rejected"].size() == feed_tally::max_listed);
  CHECK(answer["rejected_total"] == 1400);
  CHECK(answer["rejected"][0] == json{{"line", 1}, {"errcode", "M_BAD_JSON"}, {"error", "no"}});
}

TEST_CASE("an error sentence with broken UTF-8 still makes an answer") {
  feed_tally tally;
  feed_outcome one;
  one.rejected.push_back({1, "M_NOT_JSON", "bad \xff byte"});
  tally.add(one);
  CHECK(json::parse(tally.answer())["rejected_total"] == 1);
}
