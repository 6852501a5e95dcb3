#pragma once
#include "messages/device_lists.hpp"
#include "messages/records.hpp"
#include "storage/inbox_store.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace ranvier::storage {

/// One-time and fallback keys of our own users' devices. Each one-time key is handed out once, ever (Q5): it stays as a
/// row with the moment when it went and its digest, so that an upload that is repeated after a lost answer doesn't
/// bring it back (B79). Writes happen inside the ledger's transaction.
class one_time_key_store {
public:
  one_time_key_store(database& db, inbox_store& inbox)
      : db_(db)
      , inbox_(inbox) {}

  /// Nothing of it is kept if one of its key ids is known with other bytes. Fallback keys replace those of their own
  /// algorithms; none given: all stay, null: all go.
  std::optional<record_problem> add(const one_time_keys_record& what);
  /// The oldest upload first, then the fallback key. Who or what isn't there is left out (Q6). The host is told on the
  /// stream when fewer than half of a device's keys are left, then at each further halving, at none, and when the
  /// fallback key is used first.
  claimed_own_keys claim(const claim_own_keys& what, std::int64_t now_ms);
  /// The device was deleted: all of its keys go. The digests of those that were handed out are remembered, so that the
  /// device made anew doesn't bring them back.
  void drop(std::string_view user, std::string_view device);

private:
  void set_fallback(const one_time_keys_record& what);
  struct a_key {
    std::string id, text;
  };
  std::optional<a_key> take_one(const std::string& user, const std::string& device, const std::string& algorithm,
                                std::int64_t now_ms);
  std::optional<a_key> fallback(const std::string& user, const std::string& device, const std::string& algorithm,
                                bool& first_use);
  void tell(const std::string& user, const std::string& device, std::int64_t now_ms);

  database& db_;
  inbox_store& inbox_;
};

/// Keys of a device that are left to be claimed, and the algorithms of its unused fallback keys.
one_time_key_counts count_keys(database& db, std::string_view user, std::string_view device);

} // namespace ranvier::storage
