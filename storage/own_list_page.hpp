#pragma once
#include "storage/own_list_texts.hpp"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ranvier::storage {

/// Makes one answer to read_device_updates: which entries of our users' lists a server is owed, in which order, and the
/// EDUs that tell them (L3-L6). Made on the stack for one page, inside a snapshot.
///
/// A user's updates form a chain: the prev_id of the first names what this server knows of the user already, each
/// following one the update before it. Entries that were superseded aren't told, their content is in newer ones. A
/// share entry stands for the user's whole list and comes in one piece, with everything of the user before it.
class own_list_page {
public:
  own_list_page(database& db, bool display_names, const read_device_updates& what)
      : db_(db)
      , texts_(db, display_names)
      , what_(what) {}
  device_updates make();

private:
  /// One thing that a server is owed of a user.
  struct item {
    position trigger = 0; ///< of its entry, or of the first entry that it covers
    position pos = 0;     ///< of its entry
    entry_kind kind = entry_kind::device;
    std::string device;
    std::int64_t version = 0;
  };
  /// What a server is owed of one user, and how far it was put into the page.
  struct plan {
    std::string user;
    position told = 0;        ///< everything of it up to here is at the peer
    position began = 0;       ///< since when they share a room
    bool blocked = false;     ///< must wait: throttled, or for a share's delay
    std::vector<item> items;  ///< in order; those behind a page's worth may be missing
    std::size_t next = 0;     ///< the first that isn't in the page
    bool chained = false;     ///< an update was told, or a share that says as much
    std::int64_t version = 0; ///< chained: of the last one
  };
  struct share {
    position pos = 0, at_ms = 0;
  };

  plan& plan_of(const std::string& user, bool ahead);
  void load(plan& one, bool ahead);
  share owed_share(const plan& one);
  bool shared_before(const plan& one, position at, row_id room);
  void put_extras();
  void before_superseded();
  bool many_entries();
  bool few_members();
  void walk_entries();
  void walk_users();
  bool put(plan& one, position upto);
  bool put_item(plan& one, const item& what);
  std::vector<device_update> tell(plan& one, const item& what);
  std::vector<device_update> tell_share(plan& one, const item& what, bool in_full);
  std::vector<std::int64_t> link(plan& one, std::int64_t version);
  std::vector<std::int64_t> first_link(const plan& one, std::int64_t version);
  std::vector<std::int64_t> unknown_link(const plan& one, std::int64_t version);
  std::int64_t version_at(const std::string& user, position at);

  database& db_;
  own_list_texts texts_;
  const read_device_updates& what_;
  row_id server_ = 0;
  std::map<std::string, plan> plans_;
  std::size_t bytes_ = 0;
  bool full_ = false;
  bool by_users_ = false; ///< all users who share a room and have something have their plans
  position hole_ = 0;     ///< the first owed entry that isn't in the page; 0: none
  device_updates out_;
};

/// Since when a local user and a server share a room without a gap, as far as the rooms that they share now tell;
/// nothing if they share none.
std::optional<position> sharing_since(database& db, std::string_view user, row_id server);

} // namespace ranvier::storage
