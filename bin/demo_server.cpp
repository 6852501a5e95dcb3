#include "bin/demo_server.hpp"

#include "bin/cli_verbs.hpp"
#include "bin/table.hpp"
#include "messages/canonical_json.hpp"
#include "messages/x_matrix.hpp"

#include <httplib.h>

#include <algorithm>

namespace ranvier {

namespace {

using nlohmann::json;

void add_once(std::vector<std::string>& list, const std::string& one) {
  if (std::find(list.begin(), list.end(), one) == list.end()) list.push_back(one);
}

} // namespace

demo_server::demo_server(std::string name, std::string address, sink_behaviour behaviour, own_certificate certificate)
    : host_(std::move(address)) {
  options_.name = std::move(name);
  options_.behaviour = std::move(behaviour);
  options_.certificate = std::move(certificate);
  options_.key = signing_key::generate();
  options_.threads = 8;
  place_.emplace(host_, 0);
  port_ = place_->port();
}

void demo_server::up() {
  place_.reset();
  options_.listen = address();
  running_ = std::make_unique<sink>(options_, [this](const std::string& line) { take(line); });
}

void demo_server::down() {
  running_.reset();
  place_.emplace(host_, port_);
}

void demo_server::refuse(const std::string& event_id) {
  {
    std::lock_guard lock(mutex_);
    options_.behaviour.refuse.insert(event_id);
  }
  running_->refuse(event_id);
}

void demo_server::take(const std::string& line) {
  const auto said = json::parse(line, nullptr, false);
  const auto what = text_in(said, "what");
  std::lock_guard lock(mutex_);
  if (what == "transaction") {
    ++got_.transactions;
    if (number_in(said, "status") != 200) ++got_.failed;
  } else if (what == "pdu") {
    const auto id = text_in(said, "event_id");
    add_once(got_.events, id);
    if (options_.behaviour.refuse.contains(id)) got_.refused.insert(id);
  } else if (what == "edu") {
    const auto& content = object_in(said, "content");
    const auto type = text_in(said, "edu_type");
    if (type == "m.direct_to_device") add_once(got_.to_device, text_in(content, "message_id"));
    if (type == "m.device_list_update") add_once(got_.own_lists, text_in(content, "device_id"));
  }
}

demo_received demo_server::received() const {
  std::lock_guard lock(mutex_);
  return got_;
}

int demo_server::send(const std::string& engine_name, const std::string& engine, const std::vector<json>& edus) {
  const auto uri = "/_matrix/federation/v1/send/" + std::to_string(++sent_);
  const json transaction{
      {"origin", name()}, {"origin_server_ts", wall_now_ms()}, {"pdus", json::array()}, {"edus", edus}};
  const auto body = canonical_json(transaction.dump());
  httplib::Client client("http://" + engine);
  client.set_read_timeout(std::chrono::seconds(5));
  const auto result =
      client.Put(uri, {{"Authorization", x_matrix_header("PUT", uri, name(), engine_name, body, key())}}, body,
                 "application/json");
  return result ? result->status : 0;
}

} // namespace ranvier
