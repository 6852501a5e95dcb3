"""Verbs about the engine itself: holds, wait, actor, log-level, db (API 6)."""
from __future__ import annotations

import asyncio
import sqlite3
import time

from rig import Rig, case, check, equal, has, user
from test_admin import good_and_dead
from test_cli import NO, USAGE, ran
from test_subjects import as_documented, audited


@case("holds")
async def holds(rig: Rig) -> None:
    """`holds` lists who is held, why, and until when; the others aren't in it."""
    engine, good, dead, _ = await good_and_dead(rig)
    equal((await ran(engine, "holds", "-o", "json")).json(), {"destinations": [], "total": 0}, "before")
    await ran(engine, "hold", good.name, "--reason", "moving house", "--for", "2h")
    done = await ran(engine, "holds", "--no-headers")
    check(good.name in done.out and "moving house" in done.out and dead.name not in done.out, repr(done.out))
    body = (await ran(engine, "holds", "-o", "json")).json()
    as_documented("holds", body)
    equal([d["hold"]["reason"] for d in body["destinations"]], ["moving house"], "reasons")
    check((await ran(engine, "holds", "-o", "custom=destination,until")).out.count("\n") == 2, "-o custom")


@case("wait", timeout=60)
async def wait(rig: Rig) -> None:
    """`wait --for` ends with 0 as soon as it is so, with 1 and what waits when the time is over."""
    engine, good, dead, room = await good_and_dead(rig)
    for what in ("delivered", "open"):
        body = (await ran(engine, "wait", good.name, "--for", what, "-o", "json")).json()
        as_documented("wait", body)
        equal([body["destination"], body["for"], body["ok"]], [good.name, what, True], "the answer")
        began = time.monotonic()
        done = await ran(engine, "wait", dead.name, "--for", what, "--within", "1s", code=NO)
        check(0.9 < time.monotonic() - began < 6, f"it took {time.monotonic() - began:.1f} s")
        check(dead.name in done.err and "3 pdus" in done.err and not done.out, f"it says {done.err!r}")
    done = await ran(engine, "wait", "none.test", "--for", "open", code=NO)
    check("none.test" in done.err, done.err)
    for words in (["wait", good.name], ["wait", good.name, "--for", "ever"],
                  ["wait", good.name, "--for", "open", "--within", "soon"]):
        await ran(engine, *words, code=USAGE)
    waiting = asyncio.ensure_future(ran(engine, "wait", dead.name, "--for", "delivered", "--within", "30s"))
    await asyncio.sleep(0.5)
    check(not waiting.done(), "it didn't wait")
    dead.up()
    await ran(engine, "wake", dead.name)
    await waiting


@case("actor")
async def actor(rig: Rig) -> None:
    """`actor ID` shows one actor and what it says of itself; an unknown id: 1."""
    engine, good, dead, _ = await good_and_dead(rig)
    all_actors = (await ran(engine, "actors", "-o", "json")).json()["actors"]
    for kind in ("destination", "ledger", "supervisor", "introspector"):
        one = next(a for a in all_actors if a["kind"] == kind)
        body = (await ran(engine, "actor", str(one["id"]), "-o", "json")).json()
        as_documented("actor", body)
        equal([body["kind"], body["name"], isinstance(body["described"], dict)], [kind, one["name"], True], "the actor")
        done = await ran(engine, "actor", str(one["id"]))
        check(kind in done.out and "handled" in done.out, f"it prints {done.out!r}")
    for unknown in ("987654321", "me"):
        done = await ran(engine, "actor", unknown, code=NO)
        check(unknown in done.err and not done.out, f"{unknown}: {done.err!r}")


@case("log-level")
async def log_level(rig: Rig) -> None:
    """A level for a time ends by itself; each change is in the audit log; others than the known ones: 64."""
    engine, good, dead, _ = await good_and_dead(rig)
    body = (await ran(engine, "log-level", "debug", "-o", "json")).json()
    as_documented("log-level", body)
    equal(body["level"], "debug", "the level")
    equal((await ran(engine, "log-level", "error", "--for", "1s", "-o", "json")).json()["before"], "debug", "before")
    entry = await audited(engine)
    equal([entry["verb"], entry["outcome"], "1000" in entry["details"], entry["who"] in ("", "unknown")],
          ["log_level", "done", True, False], "audit")
    await asyncio.sleep(1.2)
    equal((await ran(engine, "log-level", "info", "-o", "json")).json()["before"], "debug", "after a second")
    for words in (["loud"], [], ["debug", "--for", "ever"]):
        await ran(engine, "log-level", *words, code=USAGE)
    for wrong in ({}, {"level": "loud"}, {"level": 7}, {"level": "info", "for_ms": 0}):
        status, answer = await engine.admin("POST", "/log_level", wrong)
        check(status == 400 and answer.get("error"), f"{wrong} answered {status} {answer}")


@case("db-backup", timeout=60)
async def backup(rig: Rig) -> None:
    """The copy is a sound database with what was fed, of mode 600, made while deliveries go on; never over a file."""
    engine, good, dead, room = await good_and_dead(rig)
    target = engine.data / "copy.db"
    records = room.messages(user(engine), 200)
    feeding = asyncio.ensure_future(engine.feed(*records))
    body = (await ran(engine, "db", "backup", str(target), "-o", "json")).json()
    as_documented("db-backup", body)
    await feeding
    await has(good, records, 20)
    equal([body["file"], body["bytes"]], [str(target), target.stat().st_size], "the answer")
    equal(target.stat().st_mode & 0o777, 0o600, "its mode")
    check(not list(engine.data.glob("copy.db.partial*")), "something is left over")
    with sqlite3.connect(target) as copy:
        equal(copy.execute("PRAGMA integrity_check").fetchone()[0], "ok", "the copy")
        check(copy.execute("SELECT count(*) FROM pdu").fetchone()[0] >= 3, "events in the copy")
    entry = await audited(engine)
    equal([entry["verb"], entry["outcome"]], ["database_backup", "done"], "audit")
    check(str(target) in entry["details"], "the file in the audit log")
    before = target.read_bytes()
    done = await ran(engine, "db", "backup", str(target), code=NO)
    check("exists" in done.err and target.read_bytes() == before, f"a second time: {done.err!r}")
    done = await ran(engine, "db", "backup", "/nowhere/at/all.db", code=NO)
    check("/nowhere/at/all.db" in done.err, done.err)
    await ran(engine, "db", "backup", code=USAGE)
    status, answer = await engine.admin("POST", "/database/backup", {"file": "relative.db"})
    equal(status, 400, f"a relative path ({answer})")


@case("db-check")
async def check_database(rig: Rig) -> None:
    """`db check` says that the database is sound, and leaves no trace in the audit log."""
    engine, good, dead, _ = await good_and_dead(rig)
    before = await audited(engine)
    done = await ran(engine, "db", "check")
    check("sound" in done.err and not done.out, f"it says {done.err!r}")
    body = (await ran(engine, "db", "check", "-o", "json")).json()
    as_documented("db-check", body)
    equal([body["ok"], body["problems"]], [True, []], "the answer")
    equal(await audited(engine), before, "the audit log")
