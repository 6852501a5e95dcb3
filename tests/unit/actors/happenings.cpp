#include "actors/happenings.hpp"
#include "actors/log.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace ranvier;
using namespace std::chrono_literals;

namespace {

happening about(const std::string& slug, const std::string& destination, bool detail = false) {
  happening one;
  one.slug = slug;
  one.level = "info";
  one.detail = detail;
  one.fields.emplace_back("destination", destination);
  return one;
}

std::vector<std::string> slugs(const std::vector<std::shared_ptr<const happening>>& list) {
  std::vector<std::string> out;
  for (const auto& one : list)
    out.push_back(one->slug);
  return out;
}

using texts = std::vector<std::string>;

} // namespace

TEST_CASE("happenings: a reader gets what came after its number, of one destination if it wants, steps if it traces") {
  happenings all;
  all.add(about("one", "a.test"));
  all.add(about("two", "b.test"));
  all.add(about("step", "a.test", true));
  std::uint64_t at = 0;
  CHECK(slugs(all.after(at, "", false, 0ms)) == texts{"one", "two"});
  CHECK(at == 3);
  CHECK(all.after(at, "", false, 0ms).empty());
  at = 1;
  CHECK(slugs(all.after(at, "a.test", true, 0ms)) == texts{"step"});
  CHECK(all.before_last(2) == 1);
  CHECK(all.before_last(100) == 0);
}

TEST_CASE("happenings: the newest are kept, and whoever was away goes on with them") {
  happenings all;
  for (int i = 0; i < 2'100; ++i)
    all.add(about("n" + std::to_string(i), "a.test"));
  std::uint64_t at = 5;
  auto page = all.after(at, "", false, 0ms);
  CHECK(page.size() == 200);
  CHECK(page.front()->slug == "n100");
  CHECK(at == 300);
}

TEST_CASE("happenings: a step costs nothing while nobody traces") {
  auto& all = happenings::of_process();
  auto at = all.before_last(0);
  tell_step("quiet_step", "step.test", {});
  CHECK(all.after(at, "step.test", true, 0ms).empty());
  {
    happenings::trace tracing(all);
    tell_step("loud_step", "step.test", {{"n", "1"}});
  }
  CHECK(!all.traced());
  auto got = all.after(at, "step.test", true, 0ms);
  REQUIRE(got.size() == 1);
  auto json = nlohmann::json::parse(got[0]->json());
  CHECK(json["event"] == "loud_step");
  CHECK(json["n"] == "1");
  CHECK(json["level"] == "trace");
}

TEST_CASE("happenings: what is logged is told, whatever the log shows") {
  auto& all = happenings::of_process();
  auto at = all.before_last(0);
  log_info("told_by_test", {{"destination", "log.test"}});
  log_debug("not_told_by_test", {{"destination", "log.test"}});
  CHECK(slugs(all.after(at, "log.test", true, 0ms)) == texts{"told_by_test"});
}
