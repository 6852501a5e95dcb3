#include "bin/admin_client.hpp"

#include "bin/cli.hpp"
#include "bin/table.hpp"

#include <httplib.h>

#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>

namespace ranvier {

namespace {

constexpr time_t timeout_s = 2;

/// Who stands behind this command, for the audit log: the one who became root by sudo, else the account.
std::string operator_name() {
  for (const char* variable : {"SUDO_USER", "USER", "LOGNAME"})
    if (const char* name = std::getenv(variable); name && *name) return printable(name);
  return "uid " + std::to_string(::getuid());
}

constexpr const char* prefix = "/_ranvier/admin/v1";

int code_of(int status) {
  if (status == 400) return exit_usage;
  if (status == 401 || status == 502 || status == 503 || status == 504) return exit_unreachable;
  return status >= 500 ? exit_fault : exit_no;
}

} // namespace

nlohmann::json admin_client::get(const std::string& path) const { return call("GET", path, {}); }

nlohmann::json admin_client::post(const std::string& path, const nlohmann::json& body) const {
  return call("POST", path, body.dump());
}

nlohmann::json admin_client::call(const std::string& method, const std::string& path, const std::string& body) const {
  if (at_.url.empty() && at_.socket.size() >= sizeof(sockaddr_un{}.sun_path))
    throw cli_failure(exit_usage, "the path of the socket is longer than the system allows: " + at_.socket);
  httplib::Client client = at_.url.empty() ? httplib::Client(at_.socket) : httplib::Client(at_.url);
  if (!client.is_valid()) throw cli_failure(exit_usage, "--url must be http://host:port, it is " + at_.url);
  if (at_.url.empty()) client.set_address_family(AF_UNIX);
  client.set_connection_timeout(timeout_s);
  client.set_read_timeout(timeout_s);
  client.set_write_timeout(timeout_s);
  httplib::Headers headers{{"Connection", "close"}};
  if (at_.url.empty()) headers.emplace("Host", "localhost");
  headers.emplace("X-Ranvier-Who", operator_name());
  if (!at_.token.empty()) headers.emplace("Authorization", "Bearer " + at_.token);
  auto target = prefix + path;
  auto result = method == "GET" ? client.Get(target, headers) : client.Post(target, headers, body, "application/json");
  if (!result)
    throw cli_failure(exit_unreachable, "the engine can't be reached at " + where() + " (" +
                                            httplib::to_string(result.error()) + "); is it running? See --data-dir");
  auto answer = nlohmann::json::parse(result->body, nullptr, false);
  if (result->status / 100 != 2) {
    auto words = answer.is_object() ? text_in(answer, "error") : std::string();
    throw cli_failure(code_of(result->status),
                      words.empty() ? "the engine answered " + std::to_string(result->status) : words);
  }
  if (answer.is_discarded())
    throw cli_failure(exit_fault, "what answers at " + where() + " is no engine: its answer is no JSON");
  return answer;
}

} // namespace ranvier
