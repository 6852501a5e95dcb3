#pragma once
#include "storage/database.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace ranvier::storage {

using row_id = std::int64_t;

/// Ours is always this row of `server`.
constexpr row_id our_server = 1;

/// Names of servers and rooms and the numbers that stand for them in all other tables. Remembers what it looked up;
/// after a rollback `forget` must be called, since numbers may have been taken back.
class name_table {
public:
  explicit name_table(database& db)
      : db_(db) {}

  /// The number of a name, made if it is new.
  row_id server(std::string_view name);
  row_id room(std::string_view name);
  std::optional<row_id> known_server(std::string_view name);
  std::optional<row_id> known_room(std::string_view name);
  std::string server_name(row_id server);
  void forget();

private:
  using cache = std::unordered_map<std::string, row_id>;
  void remember(cache& where, std::string_view name, row_id id);

  database& db_;
  cache servers_, rooms_;
};

} // namespace ranvier::storage
