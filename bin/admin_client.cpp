#include "bin/admin_client.hpp"

#include "bin/cli.hpp"
#include "bin/table.hpp"

#include <httplib.h>

#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

namespace ranvier {

namespace {

using namespace std::chrono_literals;
constexpr auto silence_within = 10s;

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

nlohmann::json admin_client::get(const std::string& path) const { return call("GET", path, {}, answer_within); }

nlohmann::json admin_client::post(const std::string& path, const nlohmann::json& body) const {
  return call("POST", path, body, answer_within);
}

namespace {

httplib::Client client_for(const admin_address& at, std::chrono::milliseconds read_within) {
  if (at.url.empty() && at.socket.size() >= sizeof(sockaddr_un{}.sun_path))
    throw cli_failure(exit_usage, "the path of the socket is longer than the system allows: " + at.socket);
  httplib::Client client = at.url.empty() ? httplib::Client(at.socket) : httplib::Client(at.url);
  if (!client.is_valid()) throw cli_failure(exit_usage, "--url must be http://host:port, it is " + at.url);
  if (at.url.empty()) client.set_address_family(AF_UNIX);
  client.set_connection_timeout(admin_client::answer_within);
  client.set_read_timeout(read_within);
  client.set_write_timeout(admin_client::answer_within);
  return client;
}

httplib::Headers headers_for(const admin_address& at) {
  httplib::Headers headers{{"Connection", "close"}};
  if (at.url.empty()) headers.emplace("Host", "localhost");
  headers.emplace("X-Ranvier-Who", operator_name());
  if (!at.token.empty()) headers.emplace("Authorization", "Bearer " + at.token);
  return headers;
}

/// The engine's own words about why it refuses.
[[noreturn]] void refused(int status, const nlohmann::json& answer) {
  auto words = answer.is_object() ? text_in(answer, "error") : std::string();
  throw cli_failure(code_of(status), words.empty() ? "the engine answered " + std::to_string(status) : words);
}

} // namespace

nlohmann::json admin_client::call(const std::string& method, const std::string& path, const nlohmann::json& body,
                                  std::chrono::milliseconds within) const {
  auto client = client_for(at_, within);
  const auto headers = headers_for(at_);
  auto target = prefix + path;
  auto result = method == "GET"      ? client.Get(target, headers)
                : method == "DELETE" ? client.Delete(target, headers, body.dump(), "application/json")
                                     : client.Post(target, headers, body.dump(), "application/json");
  if (!result) unreachable(result.error() == httplib::Error::Read);
  auto answer = nlohmann::json::parse(result->body, nullptr, false);
  if (result->status / 100 != 2) refused(result->status, answer);
  if (answer.is_discarded())
    throw cli_failure(exit_fault, "what answers at " + where() + " is no engine: its answer is no JSON");
  return answer;
}

void admin_client::unreachable(bool silent) const {
  throw cli_failure(exit_unreachable,
                    silent ? "the engine at " + where() + " doesn't answer: it is too busy, stopped, or has just ended"
                           : "no engine can be reached at " + where() + "; is it running? See --data-dir");
}

void admin_client::stream(const std::string& path, const std::function<bool(const std::string&)>& take) const {
  auto client = client_for(at_, silence_within);
  int status = 0;
  std::string text;
  bool wanted = true;
  const auto result = client.Get(
      prefix + path, headers_for(at_),
      [&](const httplib::Response& answer) {
        status = answer.status;
        return true;
      },
      [&](const char* data, std::size_t size) {
        text.append(data, size);
        if (status != 200) return true;
        for (auto end = text.find("\n\n"); end != std::string::npos && wanted; end = text.find("\n\n")) {
          const auto at = text.find("data: ");
          if (at < end) wanted = take(text.substr(at + 6, end - at - 6));
          text.erase(0, end + 2);
        }
        return wanted;
      });
  if (status != 0 && status != 200) refused(status, nlohmann::json::parse(text, nullptr, false));
  if (!result && wanted) unreachable(result.error() == httplib::Error::Read);
}

} // namespace ranvier
