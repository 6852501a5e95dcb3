#pragma once
#include "messages/shared_text.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ranvier {

/// Hard caps of the protocol (T2).
constexpr std::size_t max_transaction_pdus = 50;
constexpr std::size_t max_transaction_edus = 100;

/// The body of PUT /send as canonical JSON (T1); pdus and edus are canonical JSON already. `edus` is left out if empty.
std::string transaction_body(std::string_view origin, std::int64_t origin_server_ts,
                             const std::vector<shared_text>& pdus, const std::vector<shared_text>& edus);
/// Its id: a hash of destination, origin_server_ts and body, unreserved URL characters only (T4, DESIGN section 6).
std::string transaction_id(std::string_view destination, std::int64_t origin_server_ts, std::string_view body);
/// The path of PUT /send.
std::string transaction_uri(std::string_view txn_id);

/// Per-PDU errors of an answer, "event id" -> error; empty for any odd shape (T5, T6). Never throws.
std::vector<std::pair<std::string, std::string>> pdu_errors(std::string_view answer);

} // namespace ranvier
