#include "messages/transaction.hpp"

#include "messages/canonical_json.hpp"
#include "messages/ids.hpp"
#include "messages/signing.hpp"

namespace ranvier {

namespace {

std::size_t total_size(const std::vector<shared_text>& items) {
  std::size_t total = 0;
  for (const auto& item : items) total += item.size() + 1;
  return total;
}

void append_list(std::string& out, const std::vector<shared_text>& items) {
  out += '[';
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ',';
    out += items[i].view();
  }
  out += ']';
}

} // namespace

std::string transaction_body(std::string_view origin, std::int64_t origin_server_ts,
                             const std::vector<shared_text>& pdus, const std::vector<shared_text>& edus) {
  std::string out = "{";
  out.reserve(total_size(pdus) + total_size(edus) + origin.size() + 80);
  if (!edus.empty()) {
    out += "\"edus\":";
    append_list(out, edus);
    out += ',';
  }
  out += "\"origin\":";
  append_json_string(out, origin);
  out.append(",\"origin_server_ts\":").append(std::to_string(origin_server_ts)).append(",\"pdus\":");
  append_list(out, pdus);
  out += '}';
  return out;
}

std::string transaction_id(std::string_view destination, std::int64_t origin_server_ts, std::string_view body) {
  // A server name has no line end, so two different triples can't give the same text.
  std::string text;
  text.reserve(destination.size() + body.size() + 24);
  text.append(destination).append("\n").append(std::to_string(origin_server_ts)).append("\n").append(body);
  return base64_url(sha256(text));
}

std::string transaction_uri(std::string_view txn_id) {
  return "/_matrix/federation/v1/send/" + percent_encode(txn_id);
}

std::vector<std::pair<std::string, std::string>> pdu_errors(std::string_view answer) {
  std::vector<std::pair<std::string, std::string>> out;
  try {
    const json_document document(answer);
    simdjson::dom::object pdus;
    if (document.root()["pdus"].get_object().get(pdus) != simdjson::SUCCESS) return out;
    for (auto field : pdus)
      if (const auto error = string_member(field.value, "error")) out.emplace_back(field.key, *error);
  } catch (const std::exception&) { // no JSON: a 200 is a success all the same (T6)
    out.clear();
  }
  return out;
}

} // namespace ranvier
