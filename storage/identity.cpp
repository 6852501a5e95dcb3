#include "storage/identity.hpp"

#include "storage/migrations.hpp"

namespace ranvier::storage {

namespace {

void set(database& db, std::string_view key, const std::string& value) {
  db.run("INSERT INTO meta(key, value) VALUES(?, ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value", key, value);
}

std::string get(database& db, std::string_view key) {
  return db.text("SELECT value FROM meta WHERE key = ?", key).value_or("");
}

void write_identity(database& db, const identity& who) {
  set(db, "server_name", who.server_name);
  set(db, "key_id", who.key_id);
  set(db, "public_key", who.public_key);
}

void create(database& db, const identity& who, const std::string& fresh_instance) {
  write_identity(db, who);
  set(db, "instance", fresh_instance);
  db.run("INSERT INTO meta(key, value) VALUES('head', 0), ('stream_reserved', 0), ('heartbeat_ms', 0)");
  db.run("INSERT INTO server(id, name) VALUES(1, ?)", who.server_name);
}

/// Row 1 of `server` is ours. Under another name other users are local ones, so rosters and spans mean nothing any
/// more.
void rename_us(database& db, const identity& who) {
  db.run("DELETE FROM member");
  db.run("DELETE FROM span");
  db.run("DELETE FROM remote_user");
  db.run("DELETE FROM remote_device");
  db.run("DELETE FROM extra");
  db.run("UPDATE room SET has_roster = 0");
  if (auto other = db.integer("SELECT id FROM server WHERE name = ?", who.server_name); other && *other != 1) {
    for (auto sql : {"DELETE FROM cursor WHERE server = ?", "DELETE FROM destination WHERE server = ?",
                     "DELETE FROM gate WHERE server = ?", "DELETE FROM hold WHERE server = ?",
                     "DELETE FROM closed WHERE server = ?", "DELETE FROM target WHERE server = ?",
                     "DELETE FROM to_device WHERE server = ?", "DELETE FROM server WHERE id = ?"})
      db.run(sql, *other);
  }
  db.run("UPDATE server SET name = ? WHERE id = 1", who.server_name);
}

void refuse(const database& db, const identity& was, const identity& is) {
  bool name = was.server_name != is.server_name;
  throw other_identity("The database " + db.path() + " was made as " + was.server_name + " with the signing key " +
                       was.key_id + "; now the " + (name ? "server name is " + is.server_name : "key is " + is.key_id) +
                       (name || was.key_id != is.key_id ? "" : " with another seed") +
                       ". Give back what it was, or start with --accept-new-identity");
}

std::vector<std::string> pull_back_cursors(database& db) {
  std::vector<std::string> names;
  auto head = db.integer("SELECT value FROM meta WHERE key = 'head'").value_or(0);
  {
    auto rows = db.ask("SELECT name FROM cursor JOIN server ON id = server "
                       "WHERE max(pdu, device_lists, to_device) > ? ORDER BY name",
                       head);
    while (rows.step())
      names.push_back(rows.text(0));
  }
  if (!names.empty())
    db.run("UPDATE cursor SET pdu = min(pdu, ?1), device_lists = min(device_lists, ?1), to_device = min(to_device, ?1)",
           head);
  return names;
}

/// The head was stored with each commit; rows above it can only come from a hand that edited the file.
void raise_head(database& db) {
  auto highest = db.integer("SELECT max(coalesce((SELECT max(position) FROM pdu), 0), "
                            "coalesce((SELECT max(position) FROM to_device), 0), "
                            "coalesce((SELECT max(position) FROM device_entry), 0))")
                     .value_or(0);
  db.run("UPDATE meta SET value = max(value, ?) WHERE key = 'head'", highest);
}

} // namespace

boot_report prepare(const std::string& path, const identity& who, bool accept_new_identity,
                    const std::string& fresh_instance) {
  database db(path, database::mode::write);
  migrate(db);
  boot_report report;
  transaction whole(db);
  report.instance = get(db, "instance");
  if (report.instance.empty()) {
    create(db, who, fresh_instance);
    report.created = true;
    report.instance = fresh_instance;
  }
  identity was{get(db, "server_name"), get(db, "key_id"), get(db, "public_key")};
  bool same_name = was.server_name == who.server_name;
  if (!same_name || was.key_id != who.key_id || was.public_key != who.public_key) {
    if (!accept_new_identity) refuse(db, was, who);
    if (!same_name) rename_us(db, who);
    write_identity(db, who);
    report.identity_changed = true;
  }
  raise_head(db);
  report.cursors_pulled_back = pull_back_cursors(db);
  report.last_heartbeat_ms = db.integer("SELECT value FROM meta WHERE key = 'heartbeat_ms'").value_or(0);
  whole.commit();
  return report;
}

} // namespace ranvier::storage
