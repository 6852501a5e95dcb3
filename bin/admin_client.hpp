#pragma once
#include <nlohmann/json.hpp>

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>

namespace ranvier {

/// Why a verb ends without having done what it should: the exit code, and the sentence for standard error.
struct cli_failure : std::runtime_error {
  cli_failure(int exit, const std::string& sentence)
      : std::runtime_error(sentence)
      , code(exit) {}
  int code;
};

/// Where the engine's admin API is.
struct admin_address {
  std::string socket; ///< path of the Unix socket; used if `url` is empty
  std::string url;    ///< http://host:port
  std::string token;  ///< for `url`
};

/// Calls of the admin API, each bounded: nothing hangs.
class admin_client {
public:
  explicit admin_client(admin_address at)
      : at_(std::move(at)) {}

  /// Within this the engine answers, or its silence is told.
  static constexpr std::chrono::milliseconds answer_within{1900};
  /// `path` after /_ranvier/admin/v1. Throws cli_failure: unreachable (69), unknown name or any other refusal (1), what
  /// the engine calls a wrong request (64), a fault of the engine (70).
  nlohmann::json get(const std::string& path) const;
  nlohmann::json post(const std::string& path, const nlohmann::json& body) const;
  /// The same for what takes long: `within` instead of 2 s.
  nlohmann::json call(const std::string& method, const std::string& path, const nlohmann::json& body,
                      std::chrono::milliseconds within) const;

  /// A stream of server-sent events: `take` gets the data of each, until the stream ends or it says no. Throws
  /// cli_failure, also if nothing at all comes for 10 s (the engine sends signs of life).
  void stream(const std::string& path, const std::function<bool(const std::string& data)>& take) const;

private:
  [[noreturn]] void unreachable(bool silent) const;
  std::string where() const { return at_.url.empty() ? at_.socket : at_.url; }
  admin_address at_;
};

} // namespace ranvier
