#pragma once
#include "bin/admin_client.hpp"
#include "bin/child_process.hpp"
#include "bin/demo_server.hpp"
#include "bin/screen.hpp"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ranvier {

/// Something didn't come about: the demo ends with 1. what() says what.
struct demo_fell_short : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Ctrl-C.
struct demo_interrupted {};

/// A folder of ours alone that goes with us.
class own_folder {
public:
  own_folder();
  ~own_folder();
  own_folder(const own_folder&) = delete;
  own_folder& operator=(const own_folder&) = delete;
  const std::string& path() const { return path_; }

private:
  std::string path_;
};

/// Everything that the demo's scenes are played on: the engine as a child process, the homeservers, the host's side of
/// the API, the clock and the screen. Addresses are of 127.0.0.0/8 and drawn anew each time, ports are what the kernel
/// gives. What was made here ends and goes with it. One thread.
class demo_stage {
public:
  /// `server_names` and the engine's own are on one certificate. Blocks SIGINT, SIGTERM and SIGHUP for this process.
  demo_stage(std::string engine_name, const std::vector<std::string>& server_names);

  demo_server& add(const std::string& name, sink_behaviour behaviour = {});
  const std::vector<std::unique_ptr<demo_server>>& servers() const { return servers_; }
  /// Once all servers are there. Returns when it is ready.
  void start_engine();
  void end_engine();

  const std::string& engine_name() const { return engine_name_; }
  const signing_key& engine_key() const { return key_; }
  const std::string& federation_address() const { return federation_; }
  std::string user(const std::string& localpart) const { return '@' + localpart + ':' + engine_name_; }
  admin_client admin() const { return admin_client({folder_.path() + "/data/admin.sock", "", ""}); }
  /// A call of the host API; `path` after /_ranvier/v1. Throws demo_fell_short unless it is answered 200.
  nlohmann::json host(const std::string& method, const std::string& path, const nlohmann::json& body = {});
  void feed(const std::vector<nlohmann::json>& lines);

  /// A heading; a line with the time and who did something; a line as it is.
  void scene(const std::string& title);
  void say(const std::string& who, const std::string& what, tone how = tone::plain);
  /// Throws demo_fell_short when nobody reads it.
  void show(const std::string& text);
  /// Throws demo_interrupted at Ctrl-C.
  void pause(std::int64_t ms);
  /// Until `happened`, asked again and again; throws demo_fell_short with `what` after so long.
  void wait(const std::string& what, const std::function<bool()>& happened, std::int64_t within_ms = 15'000);
  /// ms since the beginning.
  std::int64_t elapsed() const;
  /// The end of the engine's log.
  std::string log_tail() const;

private:
  std::string engine_name_;
  own_folder folder_;
  own_certificate certificate_;
  signing_key key_;
  sigset_t signals_{};
  screen screen_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::string network_; ///< "127.x.y."
  std::string federation_, host_, token_;
  std::vector<std::unique_ptr<demo_server>> servers_;
  std::unique_ptr<child_process> engine_;
};

} // namespace ranvier
