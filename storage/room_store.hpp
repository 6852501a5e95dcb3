#pragma once
#include "messages/records.hpp"
#include "storage/name_table.hpp"

namespace ranvier::storage {

/// What is remembered of a room beside its roster and its events.
class room_store {
public:
  room_store(database& db, name_table& names) : db_(db), names_(names) {}

  void apply(const server_acl_record& what);
  void apply(const room_forgotten_record& what);
  void apply(const partial_join_record& what, position at, std::int64_t now_ms);

private:
  database& db_;
  name_table& names_;
};

} // namespace ranvier::storage
