#include "storage/migrations.hpp"

#include <array>

namespace ranvier::storage {

namespace {

// One step a string, in order; a step that was released is never changed. Names of servers and rooms stand once
// (`server`, `room`); everything else holds their numbers, so rows are narrow.
constexpr std::array steps{
    // 1: the first schema.
    R"sql(
CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;

CREATE TABLE server(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE room(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, version TEXT NOT NULL DEFAULT '',
  has_roster INTEGER NOT NULL DEFAULT 0, latest INTEGER NOT NULL DEFAULT 0, forgotten INTEGER NOT NULL DEFAULT 0);
-- Which rooms have events above a cursor, without looking at the log.
CREATE INDEX room_by_latest ON room(latest);
CREATE TABLE room_acl(room INTEGER PRIMARY KEY, content TEXT NOT NULL);

-- Users of a room. changed_at and previous tell of the latest change, for the member event that belongs to it.
CREATE TABLE member(room INTEGER NOT NULL, server INTEGER NOT NULL, user TEXT NOT NULL, membership TEXT NOT NULL,
  changed_at INTEGER NOT NULL, previous TEXT NOT NULL, has_event_id INTEGER NOT NULL,
  matched INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY(room, server, user)) WITHOUT ROWID;
CREATE INDEX member_joined ON member(room, server) WHERE membership = 'join';
-- Ours is always server 1.
CREATE INDEX member_ours ON member(user, room) WHERE server = 1 AND membership = 'join';

-- The stretches in which a server had a joined member of a room while we had; open ones end at the largest integer.
CREATE TABLE span(room INTEGER NOT NULL, server INTEGER NOT NULL, since INTEGER NOT NULL, until INTEGER NOT NULL,
  PRIMARY KEY(room, server, since)) WITHOUT ROWID;
CREATE INDEX span_by_server ON span(server, until, room, since);
CREATE INDEX span_ended ON span(room, until, server, since) WHERE until < 9223372036854775807;

-- The log. An event is one row, whatever the number of servers.
CREATE TABLE pdu(position INTEGER PRIMARY KEY, room INTEGER NOT NULL, event_id TEXT NOT NULL UNIQUE,
  explicit INTEGER NOT NULL, exclude TEXT, at_ms INTEGER NOT NULL, body TEXT NOT NULL);
-- What spans are owed: all but events with destinations of their own.
CREATE INDEX pdu_by_room ON pdu(room, position, exclude) WHERE explicit = 0;
-- Servers that are owed an event although no span of theirs covers it. Goes with the server's cursor.
CREATE TABLE target(server INTEGER NOT NULL, position INTEGER NOT NULL, room INTEGER NOT NULL,
  PRIMARY KEY(server, position)) WITHOUT ROWID;
-- One row a part and destination; goes when it was delivered.
CREATE TABLE to_device(position INTEGER PRIMARY KEY, server INTEGER NOT NULL, message INTEGER NOT NULL,
  message_id TEXT NOT NULL, at_ms INTEGER NOT NULL, body TEXT NOT NULL);
CREATE INDEX to_device_by_server ON to_device(server, position);
CREATE INDEX to_device_by_message ON to_device(message);
-- Device, signing and share entries: what changed; what it is now is read when it is sent.
CREATE TABLE device_entry(position INTEGER PRIMARY KEY, kind INTEGER NOT NULL, user TEXT NOT NULL,
  device TEXT NOT NULL, room INTEGER NOT NULL, at_ms INTEGER NOT NULL);
CREATE INDEX device_entry_by_user ON device_entry(user, device, position);

-- Ids that were taken, so that feeding again is harmless. position and previous: of a membership line.
CREATE TABLE seen(id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, at_ms INTEGER NOT NULL,
  position INTEGER NOT NULL DEFAULT 0, previous TEXT NOT NULL DEFAULT '');
CREATE INDEX seen_by_age ON seen(at_ms);
CREATE TABLE feed_source(source TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;

-- An ack writes only the narrow row; a gate has a row only while it isn't open and clean.
CREATE TABLE cursor(server INTEGER PRIMARY KEY, pdu INTEGER NOT NULL, device_lists INTEGER NOT NULL,
  to_device INTEGER NOT NULL, last_success_ms INTEGER NOT NULL DEFAULT 0);
CREATE TABLE destination(server INTEGER PRIMARY KEY, let_go INTEGER NOT NULL DEFAULT 0,
  last_inbound_ms INTEGER NOT NULL DEFAULT 0, made_ms INTEGER NOT NULL);
CREATE TABLE gate(server INTEGER NOT NULL, lane INTEGER NOT NULL, closed INTEGER NOT NULL, failures INTEGER NOT NULL,
  failing_since_ms INTEGER NOT NULL, next_attempt_ms INTEGER NOT NULL, interval_ms INTEGER NOT NULL,
  closed_on_connect INTEGER NOT NULL, cls INTEGER NOT NULL, stage INTEGER NOT NULL, status INTEGER NOT NULL,
  item TEXT NOT NULL, message TEXT NOT NULL, retry_after_ms INTEGER NOT NULL,
  PRIMARY KEY(server, lane)) WITHOUT ROWID;
CREATE TABLE hold(server INTEGER PRIMARY KEY, reason TEXT NOT NULL, who TEXT NOT NULL, until_ms INTEGER NOT NULL,
  since_ms INTEGER NOT NULL);
-- Intervals of positions in which the push lane was closed: (from_position, to_position], the last one still open.
CREATE TABLE closed(server INTEGER NOT NULL, from_position INTEGER NOT NULL, to_position INTEGER NOT NULL,
  PRIMARY KEY(server, from_position)) WITHOUT ROWID;

-- From other servers to the host.
CREATE TABLE inbound(origin TEXT NOT NULL, txn_id TEXT NOT NULL, answer TEXT NOT NULL, at_ms INTEGER NOT NULL,
  PRIMARY KEY(origin, txn_id)) WITHOUT ROWID;
CREATE INDEX inbound_by_age ON inbound(at_ms);
CREATE TABLE stream(position INTEGER PRIMARY KEY, kind TEXT NOT NULL, json TEXT NOT NULL);
CREATE TABLE consumer(name TEXT PRIMARY KEY, acked INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE remote_key(server TEXT NOT NULL, key_id TEXT NOT NULL, key TEXT NOT NULL, valid_until_ms INTEGER NOT NULL,
  expired_ms INTEGER NOT NULL, PRIMARY KEY(server, key_id)) WITHOUT ROWID;

-- Fed and kept; read by later work.
CREATE TABLE local_device(user TEXT NOT NULL, device TEXT NOT NULL, keys TEXT, display_name TEXT,
  deleted INTEGER NOT NULL DEFAULT 0, PRIMARY KEY(user, device)) WITHOUT ROWID;
CREATE TABLE cross_signing(user TEXT PRIMARY KEY, master_key TEXT, self_signing_key TEXT, user_signing_key TEXT)
  WITHOUT ROWID;
-- Rowids keep the order in which keys came: the oldest is handed out first.
CREATE TABLE one_time_key(id INTEGER PRIMARY KEY, user TEXT NOT NULL, device TEXT NOT NULL, key_id TEXT NOT NULL,
  key TEXT NOT NULL, UNIQUE(user, device, key_id));
CREATE TABLE fallback_key(user TEXT NOT NULL, device TEXT NOT NULL, key_id TEXT NOT NULL, key TEXT NOT NULL,
  used INTEGER NOT NULL DEFAULT 0, PRIMARY KEY(user, device, key_id)) WITHOUT ROWID;
CREATE TABLE partial_join(room INTEGER PRIMARY KEY, position INTEGER NOT NULL, user TEXT NOT NULL,
  event_id TEXT NOT NULL, event TEXT NOT NULL, joined_via TEXT NOT NULL, servers_in_room TEXT NOT NULL,
  since INTEGER NOT NULL, at_ms INTEGER NOT NULL);
)sql",
};

} // namespace

int schema_version() { return static_cast<int>(steps.size()); }

void migrate(database& db) {
  auto has = db.integer("PRAGMA user_version").value_or(0);
  if (has > schema_version())
    throw newer_database("The database " + db.path() + " was made by a newer ranvier (schema " + std::to_string(has) +
                         ", this one knows " + std::to_string(schema_version()) +
                         "); use that version or another data_dir");
  for (auto next = has; next < schema_version(); ++next) {
    transaction whole(db);
    db.script(steps[static_cast<std::size_t>(next)]);
    db.script("PRAGMA user_version = " + std::to_string(next + 1));
    whole.commit();
  }
}

} // namespace ranvier::storage
