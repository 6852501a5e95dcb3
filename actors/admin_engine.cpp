#include "actors/admin_engine.hpp"

#include "actors/admin_ask.hpp"
#include "actors/log.hpp"
#include "actors/log_level.hpp"
#include "storage/backup.hpp"
#include "storage/database.hpp"

#include <atomic>

namespace ranvier {
namespace {

using namespace admin;

std::atomic<bool> file_in_work{false};

/// Held while the file is read as a whole.
class turn {
public:
  turn()
      : mine_(!file_in_work.exchange(true)) {}
  ~turn() {
    if (mine_) file_in_work = false;
  }
  turn(const turn&) = delete;
  turn& operator=(const turn&) = delete;
  explicit operator bool() const { return mine_; }

private:
  const bool mine_;
};

admin_answer change_level(const admin_call& in) {
  const auto level = in.body.is_object() && in.body.contains("level") ? in.body["level"] : nlohmann::json();
  if (!level.is_string() || !is_log_level(level.get<std::string>()))
    return refuse(400, "M_INVALID_PARAM", "'level' must be trace, debug, info, warn, error or off");
  std::int64_t for_ms = 0;
  if (const auto lasts = in.body.find("for_ms"); lasts != in.body.end() && !lasts->is_null()) {
    if (!lasts->is_number_integer() || lasts->get<std::int64_t>() < 1)
      return refuse(400, "M_INVALID_PARAM", "'for_ms' must be a positive integer, or absent: until the next start");
    for_ms = lasts->get<std::int64_t>();
  }
  const auto before = log_level_now();
  const auto line = [&] {
    log_info("operator", {{"verb", "log_level"},
                          {"who", in.who},
                          {"from", before},
                          {"to", level.get<std::string>()},
                          {"for_ms", for_ms ? std::to_string(for_ms) : "until the next start"}});
  };
  line(); // before, since it may be the last for a while
  set_log_level(level.get<std::string>(), for_ms);
  nlohmann::json answer{{"ok", true}, {"level", log_level_now()}, {"before", before}};
  answer["for_ms"] = for_ms ? nlohmann::json(for_ms) : nlohmann::json();
  return answer_with(answer);
}

admin_answer check_file(const std::string& path, const std::function<bool()>& go_on) {
  const auto report = storage::check(path, go_on);
  if (report.broken_off) return refuse(503, "M_UNKNOWN", "the engine is stopping: the check was broken off");
  return answer_with({{"ok", report.problems.empty()}, {"file", path}, {"problems", report.problems}});
}

admin_answer copy_file(const admin_call& in, const std::string& path, const std::function<bool()>& go_on) {
  const auto file = in.body.is_object() && in.body.contains("file") ? in.body["file"] : nlohmann::json();
  if (!file.is_string() || !file.get<std::string>().starts_with('/'))
    return refuse(400, "M_INVALID_PARAM", "'file' must be the absolute path of a new file, which the engine writes");
  const auto report = storage::back_up(path, file.get<std::string>(), go_on);
  if (report.broken_off) return refuse(503, "M_UNKNOWN", "the engine is stopping: nothing was copied");
  log_info("operator", {{"verb", "database_backup"}, {"who", in.who}, {"file", file.get<std::string>()}});
  return answer_with({{"ok", true}, {"file", file}, {"bytes", report.bytes}});
}

} // namespace

void add_engine_routes(router& routes) {
  const std::string base = "/_ranvier/admin/v1/";
  routes.add("POST", base + "log_level", "log_level");
  routes.add("POST", base + "database/check", "database_check");
  routes.add("POST", base + "database/backup", "database_backup");
}

std::optional<admin_answer> engine_order(const admin_call& in, const ingress_parts& parts) {
  const auto& name = in.route.name;
  if (name == "log_level") return change_level(in);
  if (name != "database_check" && name != "database_backup") return {};
  const turn mine;
  if (!mine) return refuse(409, "M_RANVIER_NOT_DONE", "the database is being checked or copied already; try again");
  const auto path = parts.settings->data_dir + "/ranvier.db";
  // A stop must not wait for a large file.
  const auto go_on = [&parts] { return parts.ready->get().second != "the engine is stopping"; };
  try {
    return name == "database_check" ? check_file(path, go_on) : copy_file(in, path, go_on);
  } catch (const storage::error& problem) {
    return refuse(409, "M_RANVIER_NOT_DONE", problem.what());
  }
}

} // namespace ranvier
