#include "actors/poison.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace ranvier;

namespace {

failure with(failure_class cls, int status) {
  failure why;
  why.cls = cls;
  why.status = status;
  return why;
}
const failure bad_content = with(failure_class::content_refused, 400);
const failure crash = with(failure_class::server_error, 500);
const failure large = with(failure_class::content_refused, 413);
using verdict = poison::verdict;

/// A server that takes what isn't in `refused`, and a queue of items that is sent to it with what `search` allows.
struct exchange {
  poison search;
  std::set<int> refused;
  failure answer = bad_content;
  std::vector<int> waiting, taken, aside;
  int transactions = 0, closings = 0, empties = 0;

  void fill(int count) {
    for (int i = 0; i < count; ++i)
      waiting.push_back(i);
  }
  /// One transaction. False if nothing waits.
  bool send() {
    if (search.wants_empty()) {
      ++empties;
      search.passed(0);
      return true;
    }
    if (waiting.empty()) return false;
    ++transactions;
    const auto count = std::min({search.most_items(), waiting.size(), std::size_t(50)});
    const auto end = waiting.begin() + std::ptrdiff_t(count);
    const bool bad = std::any_of(waiting.begin(), end, [&](int one) { return refused.count(one) > 0; });
    if (!bad) {
      taken.insert(taken.end(), waiting.begin(), end);
      waiting.erase(waiting.begin(), end);
      search.passed(count);
      return true;
    }
    const auto id = std::to_string(waiting.front()) + "/" + std::to_string(count);
    switch (search.refused(answer, id, count, count * 100)) {
    case verdict::set_aside:
      REQUIRE(count == 1);
      aside.push_back(waiting.front());
      waiting.erase(waiting.begin());
      break;
    case verdict::refuses_all:
      ++closings;
      break;
    case verdict::judge:
    case verdict::in_parts:
      break;
    }
    return true;
  }
  void run(int most) {
    for (int i = 0; i < most && send(); ++i) {
    }
  }
};

} // namespace

TEST_CASE("poison: one refused item of fifty is found by halves, and everything else passes in order") {
  for (int bad = 0; bad < 50; ++bad) {
    exchange all;
    all.fill(50);
    all.refused = {bad};
    all.run(1000);
    CHECK(all.aside == std::vector<int>{bad});
    CHECK(all.taken.size() == 49);
    CHECK(std::is_sorted(all.taken.begin(), all.taken.end()));
    CHECK(all.transactions <= 14);
    CHECK(all.closings == 0);
    CHECK(all.search.most_items() == poison::no_bound);
    CHECK_FALSE(all.search.searching());
  }
}

TEST_CASE("poison: items with a good one between them are each found, whatever their number") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    exchange all;
    all.fill(120);
    if (round % 2) all.answer = crash;
    for (int at = 0; at < 120; at += 2 + int(random() % 40))
      all.refused.insert(at);
    all.run(3000);
    CHECK(all.waiting.empty());
    CHECK(std::set<int>(all.aside.begin(), all.aside.end()) == all.refused);
    CHECK(all.taken.size() + all.aside.size() == 120);
    CHECK(all.closings == 0);
  }
}

TEST_CASE("poison: who refuses everything loses one item at most") {
  exchange all;
  all.fill(50);
  for (int i = 0; i < 50; ++i)
    all.refused.insert(i);
  all.run(30);
  CHECK(all.aside.size() == 1);
  CHECK(all.closings > 0);
  CHECK(all.search.most_items() == 1); // a probe costs one item's bytes
  all.refused.clear();                 // it has come to its senses
  all.run(100);
  CHECK(all.waiting.empty());
  CHECK(all.aside.size() == 1);
}

TEST_CASE("poison: what was known before a restart still counts") {
  poison search(true);
  CHECK(search.refused(bad_content, "a", 1, 100) == verdict::refuses_all);
  search.passed(1);
  CHECK(search.refused(bad_content, "b", 1, 100) == verdict::set_aside);
}

TEST_CASE("poison: three 5xx for the same bytes ask for an empty transaction, and only its success means a search") {
  poison search;
  CHECK(search.refused(crash, "a", 6, 100) == verdict::judge);
  CHECK(search.refused(crash, "a", 6, 100) == verdict::judge);
  CHECK_FALSE(search.wants_empty());
  CHECK(search.refused(crash, "b", 6, 100) == verdict::judge); // other bytes: from the beginning
  CHECK(search.refused(crash, "b", 6, 100) == verdict::judge);
  CHECK_FALSE(search.wants_empty());
  CHECK(search.refused(crash, "b", 6, 100) == verdict::judge);
  CHECK(search.wants_empty());
  SUBCASE("the empty one fails too: the server is down") {
    CHECK(search.refused(crash, "empty", 0, 20) == verdict::judge);
    CHECK_FALSE(search.wants_empty());
    CHECK(search.most_items() == poison::no_bound);
    CHECK(search.refused(crash, "b", 6, 100) == verdict::judge);
    CHECK_FALSE(search.wants_empty());
  }
  SUBCASE("it passes: one 5xx is enough now, and nothing is set aside on the old ones") {
    search.passed(0);
    CHECK(search.most_items() == 3);
    CHECK(search.refused(crash, "c", 3, 50) == verdict::in_parts);
    CHECK(search.refused(crash, "d", 1, 20) == verdict::set_aside);
  }
  SUBCASE("a 429 or a broken connection in between is nobody's poison") {
    CHECK(search.refused(with(failure_class::rate_limited, 429), "empty", 0, 20) == verdict::judge);
    CHECK(search.refused(with(failure_class::unreachable, 0), "empty", 0, 20) == verdict::judge);
    CHECK(search.wants_empty());
  }
}

TEST_CASE(
    "poison: 413 makes transactions smaller until they pass, and sets nothing aside but what is too large alone") {
  poison search;
  CHECK(search.refused(large, "a", 40, 8'000) == verdict::in_parts);
  CHECK(search.most_bytes() == 4'000);
  CHECK(search.refused(large, "b", 20, 4'000) == verdict::in_parts);
  CHECK(search.most_bytes() == 2'000);
  search.passed(10);
  CHECK(search.most_bytes() == 2'000); // what it refused once it would refuse again
  CHECK(search.most_items() == poison::no_bound);
  CHECK(search.refused(large, "c", 1, 9'000) == verdict::set_aside);
}
