#include "bin/status_page.hpp"

#include "golden.hpp"

using namespace ranvier;

namespace {

nlohmann::json facts() {
  const auto status = golden::answer("status");
  return {{"stats", status["stats"]},
          {"closed", golden::answer("ls")["destinations"]},
          {"shape", golden::answer("shape")},
          {"partial_joins", status["stats"]["partial_join_list"]},
          {"stale_users", golden::answer("stale-users")["stale_users"]}};
}

} // namespace

TEST_CASE("status_page: golden file") {
  const auto page = status_page(facts(), golden::now, true);
  if (const char* how = std::getenv("RANVIER_GOLDEN"); how && std::string(how) == "write")
    std::ofstream(golden::path("page.html"), std::ios::binary) << page;
  CHECK_MESSAGE(page == golden::text_of("page.html"), "page.html differs; RANVIER_GOLDEN=write writes it anew");
  CHECK(page.find(status_page(facts(), golden::now, false)) != std::string::npos);
}

TEST_CASE("status_page: the words of others stay words") {
  auto all = facts();
  all["closed"][0]["gate"]["last_error"]["message"] = "<script>alert('x')</script> & \"y\"";
  all["closed"][0]["destination"] = "<b>.test";
  const auto inside = status_page(all, golden::now, false);
  CHECK(inside.find("<script") == std::string::npos);
  CHECK(inside.find("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;y&quot;") != std::string::npos);
  CHECK(inside.find("&lt;b&gt;.test") != std::string::npos);
}

TEST_CASE("status_page: an engine that says nothing has a page too") {
  const auto page = status_page(nlohmann::json::object(), golden::now, true);
  CHECK(page.find("Nothing needs attention.") != std::string::npos);
  CHECK(page.find("Every gate is open.") != std::string::npos);
}
