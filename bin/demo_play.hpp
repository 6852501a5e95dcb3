#pragma once
#include "bin/demo_devices.hpp"
#include "bin/demo_room.hpp"
#include "bin/demo_stage.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace ranvier {

/// The demo's play: its cast, what the host fed and who must have it, and the scenes (demo_scenes.cpp). Each scene ends
/// when what it shows has come about, or throws demo_fell_short.
class demo_play {
public:
  demo_play();

  void introduce();
  void delivery();
  void outage();
  void refusal();
  void catch_up();
  void stale_list();
  void partial_join();
  void the_dead_one();
  void reckoning();

  demo_stage& stage() { return stage_; }

private:
  /// What one server must have.
  struct owed {
    std::vector<std::string> events, to_device, devices; ///< events in order
  };
  using servers = std::vector<demo_server*>;
  static std::vector<std::string> cast();

  demo_room::made message(demo_room& room, const servers& whose);
  void feed(const std::string& what, const std::vector<nlohmann::json>& lines);
  void feed_messages(demo_room& room, int count, const servers& whose);
  void feed_to_device();
  void feed_device(const std::string& device);
  /// Until the server has all; says how long that took.
  void await_all(demo_server& server, const std::string& note = "");
  /// What a server lacks, in words; empty: nothing.
  std::string lacks(const demo_server& server) const;
  nlohmann::json destination(const demo_server& server) const;
  std::int64_t waiting_for(const demo_server& server) const;
  /// What an operator would type, and what the engine says to it.
  void typed(const std::string& command, const std::function<void(const admin_client&)>& run);

  demo_stage stage_;
  demo_server &north_, &slow_, &dead_, &back_, &picky_, &crowd_;
  demo_room tea_, crowd_room_;
  demo_devices bob_;
  std::map<const demo_server*, owed> owed_;
  std::string refused_; ///< the event that picky.test won't have
  int said_ = 0;
};

} // namespace ranvier
