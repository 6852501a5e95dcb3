#include "bin/sink_script.hpp"

#include "messages/canonical_json.hpp"
#include "messages/event.hpp"
#include "messages/transaction.hpp"
#include "messages/x_matrix.hpp"

#include <charconv>
#include <stdexcept>

namespace ranvier {

namespace {

using nlohmann::json;

std::string line(const json& what) { return what.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string error_body(const char* errcode, const std::string& error) {
  return line({{"errcode", errcode}, {"error", error}});
}

std::size_t size_of(const json& transaction, const char* list) {
  auto found = transaction.find(list);
  return found != transaction.end() && found->is_array() ? found->size() : 0;
}

} // namespace

sink_behaviour::failing parse_failing(const std::string& text) {
  sink_behaviour::failing out;
  auto colon = text.find(':');
  auto number = [&](std::string_view part, auto& into) {
    auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), into);
    return error == std::errc() && end == part.data() + part.size() && !part.empty();
  };
  bool good = number(std::string_view(text).substr(0, colon), out.status);
  if (good && colon != std::string::npos) good = number(std::string_view(text).substr(colon + 1), out.times);
  if (!good || out.status < 200 || out.status > 599 || out.times < 1)
    throw std::invalid_argument("--fail must be STATUS or STATUS:TIMES, like 503:10; it is " + text);
  return out;
}

sink_script::sink_script(std::string name, std::string room_version, sink_behaviour behaviour)
    : name_(std::move(name))
    , room_version_(std::move(room_version))
    , behaviour_(std::move(behaviour)) {}

int sink_script::next_status() {
  if (failing_ >= behaviour_.failures.size()) return 200;
  const auto& now = behaviour_.failures[failing_];
  if (++failed_ >= now.times) {
    ++failing_;
    failed_ = 0;
  }
  return now.status;
}

std::string sink_script::id_of(std::string_view pdu) const {
  try {
    json_document document(pdu);
    auto rules = rules_of(room_version_);
    return rules ? event_id_of(document.root(), *rules) : std::string();
  } catch (const std::exception&) {
    return {};
  }
}

/// The answer's body, with a line for each item; an empty one if an event poisons the transaction.
std::string sink_script::judge(const json& transaction, sink_answer& out) {
  json verdicts = json::object();
  for (const auto& pdu : transaction.value("pdus", json::array())) {
    auto id = id_of(line(pdu));
    if (behaviour_.poison.contains(id)) return {};
    verdicts[id] = behaviour_.refuse.contains(id) ? json{{"error", "refused by the script"}} : json::object();
    out.lines.push_back(line({{"what", "pdu"}, {"event_id", id}, {"event", pdu}}));
  }
  for (const auto& edu : transaction.value("edus", json::array())) {
    auto told = json{{"what", "edu"}};
    if (edu.is_object()) told.update(edu);
    out.lines.push_back(line(told));
  }
  return line({{"pdus", verdicts}});
}

sink_answer sink_script::receive(const std::string& txn_id, const std::string& body, const std::string& authorization,
                                 std::int64_t now_ms) {
  sink_answer out;
  auto header = parse_x_matrix(authorization);
  auto transaction = json::parse(body, nullptr, false);
  auto known = seen_.find(header.origin + ' ' + txn_id);
  auto refuse = [&](int status, const char* errcode, const std::string& error) {
    out.status = status;
    out.body = error_body(errcode, error);
  };
  if (!header.problem.empty()) refuse(401, "M_UNAUTHORIZED", header.problem);
  else if (!header.destination.empty() && header.destination != name_)
    refuse(401, "M_UNAUTHORIZED", "the request is for " + header.destination + ", this is " + name_);
  else if (transaction.is_discarded()) refuse(400, "M_NOT_JSON", "the body is no JSON");
  else if (!transaction.is_object()) refuse(400, "M_BAD_JSON", "the body is no object");
  else if (size_of(transaction, "pdus") > max_transaction_pdus || size_of(transaction, "edus") > max_transaction_edus)
    refuse(400, "M_BAD_JSON", "a transaction holds at most 50 PDUs and 100 EDUs"); // I2
  else if (auto status = next_status(); status != 200) refuse(status, "M_UNKNOWN", "the script says so");
  else if (known != seen_.end()) out.body = known->second;
  else if (auto answer = judge(transaction, out); answer.empty()) {
    out.lines.clear();
    refuse(400, "M_BAD_JSON", "an event in it is refused by the script");
  } else {
    out.body = seen_[header.origin + ' ' + txn_id] = std::move(answer);
  }
  out.lines.insert(out.lines.begin(), line({{"what", "transaction"},
                                            {"at_ms", now_ms},
                                            {"origin", header.origin},
                                            {"txn_id", txn_id},
                                            {"bytes", body.size()},
                                            {"pdus", size_of(transaction, "pdus")},
                                            {"edus", size_of(transaction, "edus")},
                                            {"status", out.status},
                                            {"repeated", out.status == 200 && known != seen_.end()}}));
  return out;
}

} // namespace ranvier
