#pragma once
#include "storage/database.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ranvier::storage {

struct remote_key_row {
  std::string server, key_id, key; ///< unpadded base64
  std::int64_t valid_until_ms = 0;
  std::int64_t expired_ms = 0; ///< > 0: an old_verify_key
};

/// Signing keys of other servers. Merged, never forgotten: an answer that lacks a key takes nothing away (K15).
class key_store {
public:
  explicit key_store(database& db)
      : db_(db) {}
  void save(const remote_key_row& key);
  std::vector<remote_key_row> find(std::string_view server);

private:
  database& db_;
};

} // namespace ranvier::storage
