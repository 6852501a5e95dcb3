"""Partial joins and quarantine from the command line: lists, orders, what asks first, the audit log (API 6)."""
from __future__ import annotations

import json

from rig import SPLITS, Engine, Json, Rig, case, check, equal, has, matrix, quote, until, until_async, user
from rig.rooms import partial_join, view
from test_cli import NO, USAGE, ran
from test_cli_json import SPEC, schema
from test_gate import start
from test_poison import FAST, in_quarantine, quarantine


async def audited(engine: Engine) -> Json:
    """The newest entry of the audit log."""
    status, body = await engine.admin("GET", "/audit?limit=1")
    equal(status, 200, "GET /audit")
    return body["audit"][0] if body["audit"] else {}


def as_documented(verb: str, body: Json) -> None:
    wrong = SPEC.check(body, schema(verb))
    check(not wrong, f"{verb} isn't as documented: {wrong}")


@case("partial-joins-listed-and-abandoned", timeout=60)
async def joins(rig: Rig) -> None:
    """The list shows room, server and what was answered; retry asks now; abandon asks first, needs a reason and --yes
    where nobody can be asked, and then the host is told; each is in the audit log with who and why."""
    engine = await rig.engine()
    owner = rig.peer(1)
    done = await ran(engine, "partial-joins", "--no-headers")
    equal(done.out, "", "the list before")
    joined = await partial_join(engine, owner, [owner.user("charlie")], user_id=user(engine))
    room = joined.room.room_id
    await joined.held()
    stream = rig.collector(engine)
    done = await ran(engine, "partial-joins", "-o", "wide")
    check(room in done.out and owner.name in done.out and user(engine) in done.out, f"it prints {done.out!r}")
    body = (await ran(engine, "partial-joins", "-o", "json")).json()
    as_documented("partial-joins", body)
    equal([j["room_id"] for j in body["partial_joins"]], [room], "rooms")
    lines = (await ran(engine, "partial-joins", "-o", "jsonl")).out.splitlines()
    equal([json.loads(line)["room_id"] for line in lines], [room], "-o jsonl")
    equal((await ran(engine, "partial-joins", "-o", "custom=room,via", "--no-headers", "--sort", "room")).out.split(),
          [room, owner.name], "-o custom")

    body = (await ran(engine, "partial-join", room, "retry", "-o", "json")).json()
    as_documented("partial-join", body)
    equal([(await audited(engine)).get(k) for k in ("verb", "subject")], ["partial_join_retry", room], "audit of retry")

    count = len((await audit(engine)))
    for words, code in ((["abandon"], USAGE), (["abandon", "--reason", "enough"], USAGE),
                        (["abandon", "--reason", "enough", "--dry-run"], 0), (["forget"], USAGE)):
        done = await ran(engine, "partial-join", room, *words, code=code)
        check(done.err.strip() and not done.out, f"{words}: {done.err!r} {done.out!r}")
    check(user(engine) in (await ran(engine, "partial-join", room, "abandon", "--reason", "x", "--dry-run")).err,
          "the dry run doesn't say who is concerned")
    equal(len(await audit(engine)), count, "entries of what wasn't done")
    check((await view(engine, room))["partial"] is True, "abandoned without a yes")

    done = await ran(engine, "partial-join", room, "abandon", "--reason", "enough of it", "--yes")
    item = await stream.until(lambda i: i["kind"] == "partial_join", 10, "partial_join item")
    check(item["state"] == "abandoned" and "enough of it" in item["reason"], f"the item is {item}")
    entry = await audited(engine)
    equal([entry["verb"], entry["subject"], entry["reason"], entry["outcome"]],
          ["partial_join_abandon", room, "enough of it", "done"], "audit")
    check(entry["who"] not in ("", "unknown"), f"who: {entry['who']!r}")
    equal((await ran(engine, "partial-joins", "-o", "json")).json()["partial_joins"], [], "the list after")
    for words in (["retry"], ["abandon", "--reason", "x", "--yes"], ["abandon", "--reason", "x", "--dry-run"]):
        done = await ran(engine, "partial-join", room, *words, code=NO)
        check(room in done.err and not done.out, f"{words} of a room that isn't partial: {done.err!r}")
    joined.release()


async def audit(engine: Engine) -> list[Json]:
    status, body = await engine.admin("GET", "/audit?limit=1000")
    equal(status, 200, "GET /audit")
    return body["audit"]


@case("partial-join-orders-by-api")
async def join_orders(rig: Rig) -> None:
    """The admin API: an unknown room is 404, an abandoning without a reason 400, each with a sentence."""
    engine = await rig.engine()
    for verb, body, expected in (("retry", {}, 404), ("abandon", {"reason": "x"}, 404), ("abandon", {}, 400),
                                 ("abandon", {"reason": ""}, 400), ("abandon", {"reason": 7}, 400),
                                 ("retry", {"reason": 7}, 400)):
        status, answer = await engine.admin("POST", f"/partial_joins/{quote('!no:where.test')}/{verb}", body)
        check(status == expected and answer.get("errcode") and answer.get("error"), f"{verb} {body}: {status} {answer}")


@case("quarantine-listed-retried-dropped", tolerate=SPLITS, timeout=60)
async def refused(rig: Rig) -> None:
    """The list shows what a server refused and its words; retry sends it again; drop asks, or needs --yes; both are in
    the audit log; an unknown id: 1 with a sentence."""
    engine, peer, room = await start(rig, backoff=FAST)
    equal((await ran(engine, "quarantine", "-o", "json")).json(), {"quarantine": [], "total": 0}, "the list before")
    hold = peer.hold("/send/", times=1)
    await engine.feed(*room.messages(user(engine), 1))
    await until(lambda: hold.arrived, 5, "the first transaction")
    records = room.messages(user(engine), 6)
    bad = records[2]
    peer.refuse_event(bad["event_id"], 400, {"errcode": "M_BAD_JSON", "error": "rig dislikes it"})
    await engine.feed(*records)
    hold.release()
    row = await in_quarantine(engine)
    body = (await ran(engine, "quarantine", "-o", "json")).json()
    as_documented("quarantine", body)
    equal(body["quarantine"], [row], "the list")
    done = await ran(engine, "quarantine")
    check(all(word in done.out for word in (bad["event_id"], peer.name, "400", "rig dislikes it")), repr(done.out))
    item = str(row["id"])
    equal((await ran(engine, "quarantine", "-o", "custom=id,destination", "--no-headers", "--limit", "1")).out.split(),
          [item, peer.name], "-o custom")

    for words, code in ((["drop", item], USAGE), (["drop", item, "--dry-run"], 0), (["retry"], USAGE),
                        (["drop", "all", "--yes"], USAGE), (["forget", item], USAGE), (["retry", "987654"], NO),
                        (["drop", "987654", "--yes"], NO), (["drop", "987654"], NO)):
        done = await ran(engine, "quarantine", *words, code=code)
        check(done.err.strip() and not done.out, f"{words}: {done.err!r} {done.out!r}")
    equal(await quarantine(engine), [row], "the quarantine after what wasn't done")

    body = (await ran(engine, "quarantine", "retry", item, "-o", "json")).json()
    as_documented("quarantine-change", body)
    await until_async(lambda: quarantine(engine), 10, "it is refused again")
    entry = next(e for e in await audit(engine) if e["verb"] == "quarantine_retry" and e["outcome"] == "done")
    equal([entry["subject"], entry["who"] in ("", "unknown")], [item, False], "audit of retry")

    body = (await ran(engine, "quarantine", "drop", item, "--reason", "ticket 12", "--yes", "-o", "json")).json()
    as_documented("quarantine-change", body)
    entry = await audited(engine)
    equal([entry["verb"], entry["subject"], entry["reason"], entry["outcome"]],
          ["quarantine_drop", item, "ticket 12", "done"], "audit of drop")
    equal(await quarantine(engine), [], "the quarantine after")
    peer.rules.clear()
    more = room.messages(user(engine), 1)
    await engine.feed(*more)
    await has(peer, more, 10)
    check(not peer.has(bad["event_id"]), "what was let go arrived")
