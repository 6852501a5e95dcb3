#include "storage/introspection.hpp"
#include "storage/owed.hpp"
#include "storage/own_lists.hpp"

#include <algorithm>
#include <set>

namespace ranvier::storage {

waiting_sums waiting_of(database& db, const read_waiting& what, std::int64_t newest_kept,
                        const std::function<bool()>& go_on) {
  waiting_sums out;
  owed_reader owed(db, newest_kept);
  own_lists own(db, true);
  std::set<std::string> names;
  for (auto& list : {owed.list("", 1'000'000), own.owed_servers("", 1'000'000)})
    names.insert(list.begin(), list.end());
  for (const auto& name : what.without)
    names.erase(name);
  const auto oldest = [&out](std::int64_t at_ms) {
    if (at_ms > 0 && (out.oldest_at_ms == 0 || at_ms < out.oldest_at_ms)) out.oldest_at_ms = at_ms;
  };
  for (const auto& name : names) {
    if (!go_on()) {
      out.whole = false;
      break;
    }
    cursors at;
    {
      auto row = db.ask("SELECT c.pdu, c.device_lists, c.to_device FROM server s JOIN cursor c ON c.server = s.id "
                        "WHERE s.name = ?",
                        name);
      if (!row.step()) continue;
      at = {row.integer(0), row.integer(1), row.integer(2)};
    }
    const auto totals = owed.count(name, at);
    const auto lists = own.count(name, at.device_lists);
    out.pdus += totals.pdus;
    out.to_device += totals.to_device;
    out.device_lists += lists.entries;
    oldest(totals.oldest_at_ms);
    if (lists.entries > 0) oldest(lists.oldest_at_ms);
  }
  return out;
}

} // namespace ranvier::storage
