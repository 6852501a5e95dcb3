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
    // 2: device lists, ours and others'.
    R"sql(
-- One counter for each local user. `latest`: position of its newest entry; `let_go`: of the newest of its entries that
-- went before everybody had it, and that one's version (DESIGN section 7).
CREATE TABLE local_user(user TEXT PRIMARY KEY, version INTEGER NOT NULL, first_version INTEGER NOT NULL,
  latest INTEGER NOT NULL DEFAULT 0, let_go INTEGER NOT NULL DEFAULT 0, let_go_version INTEGER NOT NULL DEFAULT 0)
  WITHOUT ROWID;
CREATE INDEX local_user_by_latest ON local_user(latest);
-- version: the user's at that position (0 for signing and share entries). newest = 0: superseded, only the version is
-- remembered, while a cursor may stand there.
ALTER TABLE device_entry ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device_entry ADD COLUMN newest INTEGER NOT NULL DEFAULT 1;
INSERT INTO local_user(user, version, first_version, latest)
  SELECT user, CAST(strftime('%s', 'now') AS INTEGER) * 1000 + max(position),
    CAST(strftime('%s', 'now') AS INTEGER) * 1000 + min(position), max(position) FROM device_entry GROUP BY user;
UPDATE device_entry SET version = CAST(strftime('%s', 'now') AS INTEGER) * 1000 + position WHERE kind = 2;
CREATE INDEX device_entry_versions ON device_entry(user, position, version) WHERE version > 0;
UPDATE device_entry SET newest = 0 WHERE kind = 2 AND EXISTS (SELECT 1 FROM device_entry n
  WHERE n.user = device_entry.user AND n.device = device_entry.device AND n.position > device_entry.position);
DELETE FROM device_entry WHERE kind = 3 AND EXISTS (SELECT 1 FROM device_entry n
  WHERE n.user = device_entry.user AND n.kind = 3 AND n.position > device_entry.position);
CREATE INDEX device_entry_newest ON device_entry(position, user) WHERE newest = 1;
CREATE INDEX device_entry_newest_of_user ON device_entry(user, position) WHERE newest = 1;
CREATE INDEX device_entry_superseded ON device_entry(user, position) WHERE newest = 0;
CREATE INDEX device_entry_shares ON device_entry(room, position) WHERE kind = 4;
-- position, version: of the device's latest change. deleted_ms: when it was deleted.
ALTER TABLE local_device ADD COLUMN deleted_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE local_device ADD COLUMN position INTEGER NOT NULL DEFAULT 0;
ALTER TABLE local_device ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
UPDATE local_device SET (position, version) = (SELECT ifnull(max(e.position), 0), ifnull(max(e.version), 0)
  FROM device_entry e WHERE e.user = local_device.user AND e.device = local_device.device AND e.kind = 2);
-- Rooms that a user of ours has left.
CREATE INDEX member_ours_left ON member(user, room) WHERE server = 1 AND previous = 'join' AND membership <> 'join';
CREATE INDEX local_device_deleted ON local_device(user, device) WHERE deleted = 1;
-- A key that was handed out stays, so that it is never handed out again (Q5).
ALTER TABLE one_time_key ADD COLUMN given_ms INTEGER NOT NULL DEFAULT 0;
CREATE INDEX one_time_key_left ON one_time_key(user, device, id, key_id) WHERE given_ms = 0;
-- How many keys of an algorithm were left when the host was told last, or after an upload.
CREATE TABLE one_time_key_told(user TEXT NOT NULL, device TEXT NOT NULL, algorithm TEXT NOT NULL, left INTEGER NOT NULL,
  PRIMARY KEY(user, device, algorithm)) WITHOUT ROWID;

-- Remote users whose list is held, or whose list must be fetched. stream_id: of the list that is held. marks: number
-- of the latest thing that was learned of it, from one counter for all (meta: list_marks), so that none comes twice;
-- stale: whether the list must be fetched. mentioned: the unknown device that a message named last, and when.
CREATE TABLE remote_user(user TEXT PRIMARY KEY, server INTEGER NOT NULL, held INTEGER NOT NULL DEFAULT 0,
  stream_id INTEGER NOT NULL DEFAULT 0, master_key TEXT, self_signing_key TEXT, too_large INTEGER NOT NULL DEFAULT 0,
  stale INTEGER NOT NULL DEFAULT 0, marks INTEGER NOT NULL DEFAULT 0, cause TEXT NOT NULL DEFAULT '',
  since_ms INTEGER NOT NULL DEFAULT 0, told INTEGER NOT NULL DEFAULT 0, failures INTEGER NOT NULL DEFAULT 0,
  next_attempt_ms INTEGER NOT NULL DEFAULT 0, problem TEXT NOT NULL DEFAULT '', mentioned TEXT NOT NULL DEFAULT '',
  mentioned_ms INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE INDEX remote_user_stale ON remote_user(server, user) WHERE stale = 1;
CREATE TABLE remote_device(user TEXT NOT NULL, device TEXT NOT NULL, keys TEXT, display_name TEXT,
  PRIMARY KEY(user, device)) WITHOUT ROWID;
-- The stream's device_lists items, for /device_lists/changes; they go after device_changes_horizon.
CREATE TABLE device_list_item(position INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, json TEXT NOT NULL);
CREATE INDEX device_list_item_by_age ON device_list_item(at_ms);
-- device_list_pruned: position of the newest of them that went.
INSERT INTO meta(key, value) VALUES('list_marks', 0), ('device_list_pruned', 0);
-- Rooms of a remote user.
CREATE INDEX member_theirs ON member(user, room) WHERE server > 1 AND membership = 'join';
)sql",
    // 3: the log kept small.
    R"sql(
-- What a server is owed below its cursor: of this room, (from_position, to_position]. Goes when it is empty.
CREATE TABLE extra(server INTEGER NOT NULL, room INTEGER NOT NULL, from_position INTEGER NOT NULL,
  to_position INTEGER NOT NULL, PRIMARY KEY(server, room, from_position)) WITHOUT ROWID;
CREATE INDEX extra_by_room ON extra(room, server, from_position, to_position);
CREATE INDEX target_by_room ON target(room, position, server);
CREATE INDEX pdu_explicit ON pdu(position, room) WHERE explicit = 1;
CREATE INDEX pdu_excluding ON pdu(room, position) WHERE explicit = 0 AND exclude IS NOT NULL;
-- forgotten: the position at which the host forgot the room; forgotten_ms: when, negative once all of it has gone.
UPDATE room SET forgotten = 0;
ALTER TABLE room ADD COLUMN forgotten_ms INTEGER NOT NULL DEFAULT 0;
CREATE INDEX room_forgotten ON room(forgotten_ms) WHERE forgotten_ms <> 0;
-- How much waits for a server, without reading it.
ALTER TABLE to_device ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE to_device SET bytes = length(CAST(body AS BLOB));
DROP INDEX to_device_by_server;
CREATE INDEX to_device_by_server ON to_device(server, position, bytes);
)sql",
    // 4: joins.
    R"sql(
-- Joins that may have happened elsewhere: a send_join was about to go out.
CREATE TABLE join_intent(room TEXT NOT NULL, user TEXT NOT NULL, event_id TEXT NOT NULL, server TEXT NOT NULL,
  at_ms INTEGER NOT NULL, PRIMARY KEY(room, user)) WITHOUT ROWID;
-- progress: what the resync remembers over a restart (JSON).
ALTER TABLE partial_join ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE partial_join ADD COLUMN progress TEXT NOT NULL DEFAULT '';
-- Events of the state at a join and of its auth chain; part: 1 state, 2 auth chain. While a join is partial, what its
-- answer had; the whole once join_state has the room.
CREATE TABLE join_event(id INTEGER PRIMARY KEY, room INTEGER NOT NULL, event_id TEXT NOT NULL, part INTEGER NOT NULL,
  event TEXT NOT NULL, UNIQUE(room, event_id));
CREATE TABLE join_state(room INTEGER PRIMARY KEY, event_id TEXT NOT NULL, at_ms INTEGER NOT NULL,
  item INTEGER NOT NULL DEFAULT 0);
)sql",
    // 5: what is kept while rooms are partially joined.
    R"sql(
-- Updates of lists whose users can't be placed yet: of a user each device once; more than a few are one (device '').
CREATE TABLE kept_update(user TEXT NOT NULL, device TEXT NOT NULL, at_ms INTEGER NOT NULL,
  PRIMARY KEY(user, device)) WITHOUT ROWID;
-- Changes of our users' lists that a server missed while a room was joined partially: of our users in this room, those
-- in (from_position, to_position].
CREATE TABLE list_extra(server INTEGER NOT NULL, room INTEGER NOT NULL, from_position INTEGER NOT NULL,
  to_position INTEGER NOT NULL, PRIMARY KEY(server, room)) WITHOUT ROWID;
)sql",
    // 6: what servers refuse.
    R"sql(
-- An item that a server refuses, with its own bytes; kind: messages/quarantine.hpp. retry: an operator wants it to go
-- again.
CREATE TABLE quarantine(id INTEGER PRIMARY KEY AUTOINCREMENT, server INTEGER NOT NULL, kind INTEGER NOT NULL,
  position INTEGER NOT NULL, item TEXT NOT NULL, body TEXT NOT NULL, status INTEGER NOT NULL, message TEXT NOT NULL,
  since_ms INTEGER NOT NULL, retry INTEGER NOT NULL DEFAULT 0);
CREATE INDEX quarantine_by_server ON quarantine(server, id, since_ms, retry);
CREATE INDEX quarantine_retried ON quarantine(retry, server, id) WHERE retry = 1;
)sql",
    // 7: whether lists are still owed of a room that is forgotten.
    R"sql(
CREATE INDEX list_extra_by_room ON list_extra(room);
)sql",
    // 8: what was once, and must not come again or be unknown.
    R"sql(
-- Digests of one-time keys that were handed out for devices that are deleted since; the newest.
CREATE TABLE one_time_key_gone(id INTEGER PRIMARY KEY, user TEXT NOT NULL, device TEXT NOT NULL, digest TEXT NOT NULL,
  UNIQUE(user, device, digest));
-- Users of ours that any roster names, joined or not.
CREATE INDEX member_ours_named ON member(user) WHERE server = 1;
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
