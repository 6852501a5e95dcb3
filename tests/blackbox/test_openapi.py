"""docs/openapi.yaml against the running engine: its routes are served, and its answers are as the schemas say."""
from __future__ import annotations

import asyncio
import re
import sys
import urllib.parse
from pathlib import Path
from typing import Any

from rig import (SPLITS, Engine, Json, Peer, Rig, case, check, device, equal, failing, has, matrix, quote, receipt,
                 to_device, typing, until, until_async, user)
from rig.rooms import partial_join
from test_inbound import event, message, pair, typing_edu

sys.path.append(str(Path(__file__).resolve().parents[1] / "crosscheck"))
from openapi import Spec  # noqa: E402

SPEC = Spec()
ADMIN = "/_ranvier/admin/v1"
HOST = "/_ranvier/v1"
ROOM = HOST + "/rooms/{room_id}"
JOINS = {("POST", ROOM + "/join"), ("GET", ROOM + "/state"), ("POST", ROOM + "/partial_join/retry"),
         ("POST", ROOM + "/partial_join/abandon")}  # have a case of their own

ACTS = {("POST", ADMIN + "/partial_joins/{room_id}/abandon"),
        ("POST", ADMIN + "/partial_joins/{room_id}/retry")}  # are checked by api-join-answers


class Reader:
    """Calls the engine and checks each answer against the document."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.seen: set[tuple[str, str]] = set()  # operations whose 200 was checked

    async def raw(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """To the listener that serves this path; health is asked for on both by its own test."""
        if path.startswith(HOST):
            data = body if isinstance(body, bytes) else None if body is None else matrix.dumps(body).encode()
            return await self.engine.host_raw(method, path, data)
        return await self.engine.admin(method, path, body, prefix="")

    async def ask(self, method: str, template: str, wanted: int = 200, body: Any = None, query: str = "",
                  **filled: str) -> Any:
        """A call of a documented operation. Its status must be `wanted`, its body what the document says."""
        path = template
        for name, value in filled.items():
            path = path.replace("{%s}" % name, urllib.parse.quote(value, safe=""))
        status, answer = await self.raw(method, path + query, body)
        equal(status, wanted, f"the status of {method} {path}{query} ({str(answer)[:200]})")
        wrong = SPEC.check(answer, SPEC.answer_schema(method, template, status))
        check(not wrong, f"{method} {path}{query} answered {status}, not as documented: {wrong}")
        if wanted == 200:
            self.seen.add((method, template))
        return answer


def fill(path: str) -> str:
    """A path with something in its holes."""
    return re.sub(r"\{(\w+)\}", lambda m: {"id": "1", "room_id": "%21x%3Ay", "user_id": "%40x%3Ay"}.get(m[1], "x"),
                  path)


@case("api-routes")
async def routes(rig: Rig) -> None:
    """Every documented path is served with exactly its methods; what is marked x-not-yet isn't served."""
    engine = await rig.engine()
    reader = Reader(engine)
    by_path: dict[str, set[str]] = {}
    for method, path in SPEC.routes(served=True):
        by_path.setdefault(path, set()).add(method)
    for path, methods in sorted(by_path.items()):
        odd = next(m for m in ("DELETE", "PUT") if m not in methods)
        status, answer = await reader.raw(odd, fill(path))
        equal(status, 405, f"the status of {odd} {path} ({str(answer)[:80]})")
        takes = set(re.findall(r"\b(GET|PUT|POST|DELETE)\b", answer["error"]))
        equal(takes, methods, f"the methods that {path} takes")
    for method, path in sorted(SPEC.routes(served=False)):
        status, answer = await reader.raw(method, fill(path))
        check(status in (404, 405) and answer["errcode"] == "M_UNRECOGNIZED",
              f"{method} {path} is x-not-yet and was answered {status} {str(answer)[:80]}")
    for path in ("/healthz", "/readyz", "/metrics"):
        equal((await engine.host_raw("GET", path, token=""))[0], 200, f"{path} on the host listener")


async def host_calls(reader: Reader, rig: Rig, room_id: str) -> None:
    """Every call of the host API that answers 200 without a second server, and what it refuses."""
    engine = reader.engine
    alice, peer = user(engine), rig.peer(1)
    await reader.ask("GET", HOST + "/feed/position", query="?source=never")
    await reader.ask("GET", HOST + "/feed/position", 400)
    unsigned = {"room_id": room_id, "type": "m.x", "sender": alice, "content": {}, "origin_server_ts": 1, "depth": 1,
                "prev_events": [], "auth_events": []}
    await reader.ask("POST", HOST + "/events/sign", body={"room_version": "10", "event": unsigned})
    await reader.ask("POST", HOST + "/events/sign", 400, body={"room_version": "10"})
    await reader.ask("GET", HOST + "/rooms/{room_id}", room_id=room_id)
    await reader.ask("GET", HOST + "/rooms/{room_id}", 404, room_id="!no:where")
    answer = await reader.ask("POST", HOST + "/requests", body={
        "destination": peer.name, "method": "GET", "uri": "/_matrix/federation/v1/version"})
    equal(answer["status"], 200, "the other server's status")
    await reader.ask("POST", HOST + "/requests", 400, body={"destination": "no name"})
    await reader.ask("POST", HOST + "/keys/query", body={"device_keys": {alice: [], peer.user("bob"): []}})
    await reader.ask("POST", HOST + "/keys/query", 400, body={})
    await reader.ask("POST", HOST + "/keys/claim",
                     body={"one_time_keys": {alice: {"PHONE": "signed_curve25519"}}})
    counts = f"?user_id={urllib.parse.quote(alice)}&device_id=PHONE"
    await reader.ask("GET", HOST + "/one_time_keys/counts", query=counts)
    await reader.ask("GET", HOST + "/one_time_keys/counts", 400)
    await reader.ask("GET", HOST + "/device_lists/changes", query=f"?user_id={urllib.parse.quote(alice)}&from=0&to=0")
    await reader.ask("GET", HOST + "/device_lists/changes", 400, query="?user_id=x")
    await reader.ask("GET", HOST + "/stream", 409, query="?after=1000000000")
    await reader.ask("GET", HOST + "/stream", 400, query="?after=x")


@case("api-host-answers", timeout=60)
async def host_answers(rig: Rig) -> None:
    """Every 200 of the host API, and its refusals, are as documented; so are items of each kind that comes in."""
    engine, peer, room, _ = await pair(rig)
    reader = Reader(engine)
    alice, bob = user(engine), peer.user("bob")
    lines = [*room.messages(alice, 2), to_device(alice, "m1", {bob: {"*": {"a": 1}}}), typing(room.room_id, alice),
             receipt(room.room_id, alice, "$e"), device(alice, "PHONE", name="phone"),
             {"kind": "one_time_keys", "user_id": alice, "device_id": "PHONE",
              "one_time_keys": {"signed_curve25519:AAAA": {"key": "x", "signatures": {}}}},
             {"kind": "server_acl", "room_id": room.room_id, "content": {"allow": ["*"]}}]
    for line in lines:
        wrong = SPEC.check(line, {"$ref": "#/components/schemas/Record"})
        check(not wrong, f"a {line['kind']} record is taken, but not as documented: {wrong}")
    data = "\n".join(map(matrix.dumps, [*lines, {"kind": "nothing"}])).encode()
    answer = await reader.ask("POST", HOST + "/feed", body=data)
    equal([answer["accepted"], answer["rejected_total"]], [len(lines), 1], f"accepted and rejected ({answer})")
    status, _ = await peer.send([event(peer, room)], [message(bob, alice, "m2"), typing_edu(room, bob)])
    equal(status, 200, "our answer to a transaction")
    kinds: set[str] = set()
    end = asyncio.get_running_loop().time() + 10
    while not {"pdu", "to_device", "edu"} <= kinds and asyncio.get_running_loop().time() < end:
        page = await reader.ask("GET", HOST + "/stream", query="?timeout_ms=500")
        kinds |= {item["kind"] for item in page["items"]}
    check({"pdu", "to_device", "edu"} <= kinds, f"the stream has only {sorted(kinds)}")
    await host_calls(reader, rig, room.room_id)
    missing = {(m, p) for m, p in SPEC.routes(served=True) if p.startswith(HOST + "/")} - reader.seen - JOINS
    equal(missing, set(), "operations without a 200 that was checked")


@case("api-join-answers", timeout=60)
async def join_answers(rig: Rig) -> None:
    """What is said of a partial join, from its beginning to its abandonment, is as documented."""
    engine = await rig.engine()
    reader = Reader(engine)
    owner = rig.peer(1)
    alice = user(engine)
    await reader.ask("POST", ROOM + "/join", 400, body={}, room_id="!no:where")
    joined = await partial_join(engine, owner, [owner.user("charlie")], user_id=alice)
    wrong = SPEC.check(joined.answer, SPEC.answer_schema("POST", ROOM + "/join", 200))
    check(not wrong, f"a partial join's answer isn't as documented: {wrong}")
    room_id = joined.room.room_id
    room = await reader.ask("GET", ROOM, room_id=room_id)
    check(room["partial"] and room["partial_join"], f"the room isn't said to be partial: {room}")
    await reader.ask("GET", ROOM + "/state", 409, room_id=room_id)
    listed = await reader.ask("GET", ADMIN + "/partial_joins")
    equal([r["room_id"] for r in listed["partial_joins"]], [room_id], "the partial joins")
    equal((await reader.ask("GET", ADMIN + "/stats"))["partial_joins"], 1, "how many there are")
    asked = await reader.ask("GET", ADMIN + "/why", query=f"?subject={quote(room_id)}")
    check(owner.name in asked["partial_join"]["servers"], f"why of the room: {asked}")
    words = (await engine.cli("status")).out
    check(f"room {room_id} partial for" in words, f"status says {words}")
    of_joins = ADMIN + "/partial_joins/{room_id}"
    await reader.ask("POST", of_joins + "/retry", body={"reason": "they are back"}, room_id=room_id)
    await reader.ask("POST", of_joins + "/abandon", 400, body={}, room_id=room_id)
    await reader.ask("POST", of_joins + "/abandon", body={"reason": "enough"}, room_id=room_id)
    check(ACTS <= reader.seen, f"of partial joins only {reader.seen} were checked")
    await reader.ask("POST", of_joins + "/retry", 404, body={"reason": "x"}, room_id=room_id)
    joined.release()
    await reader.ask("POST", ROOM + "/partial_join/retry", 404, body={"reason": "x"}, room_id="!no:where")


@case("api-admin-answers", tolerate=SPLITS, timeout=60)
async def admin_answers(rig: Rig) -> None:
    """Every 200 of the admin API, of open, failing and held destinations, and its refusals, are as documented."""
    engine = await rig.engine(backoff={"first": "1h", "max": "1d"})
    reader = Reader(engine)
    well, ill = rig.peer(1), rig.peer(2)
    ill.answer("/send/", 503)
    room = await rig.shared(engine, well, ill)
    records = room.messages(user(engine), 3)
    await engine.feed(*records)
    await failing(engine, ill)
    await until(lambda: len(well.pdus) == 3, 10, "delivery")
    one = ADMIN + "/destinations/{name}"
    await reader.ask("GET", ADMIN + "/destinations", query="?order_by=waiting&dir=desc&limit=1")
    await reader.ask("GET", ADMIN + "/destinations", 400, query="?state=odd")
    for name in (well.name, ill.name):
        await reader.ask("GET", one, name=name)
        await reader.ask("GET", one + "/resolve", name=name)
    await reader.ask("GET", one, 404, name="unknown.test")
    await reader.ask("GET", one + "/resolve", 400, name="no name")
    await reader.ask("POST", one + "/hold", body={"reason": "they move house", "for_ms": 3_600_000}, name=well.name)
    await reader.ask("POST", one + "/hold", 400, body={}, name=well.name)
    held = await reader.ask("GET", one, name=well.name)
    equal([held["gate"]["state"], held["hold"]["reason"]], ["held", "they move house"], "what is said of the hold")
    await reader.ask("POST", one + "/release", name=well.name)
    await reader.ask("POST", one + "/wake", name=ill.name)
    await reader.ask("POST", one + "/reset", name=ill.name)
    await reader.ask("POST", one + "/wake", 404, name="unknown.test")
    actors = await reader.ask("GET", ADMIN + "/actors")
    for actor in actors["actors"]:
        await reader.ask("GET", ADMIN + "/actors/{id}", id=str(actor["id"]))
    await reader.ask("GET", ADMIN + "/actors/{id}", 404, id="999999")
    resync = ADMIN + "/stale_users/{user_id}/resync"
    await reader.ask("POST", resync, user_id=well.user("bob"))
    await reader.ask("POST", resync, 404, user_id="@x:unknown.test")
    for name in ("queue", "rooms"):
        await reader.ask("GET", f"{one}/{name}", name=ill.name)
        await reader.ask("GET", f"{one}/{name}", 404, name="unknown.test")
    for subject in (ill.name, room.room_id, user(engine), ill.user("bob"), records[0]["event_id"]):
        await reader.ask("GET", ADMIN + "/why", query=f"?subject={quote(subject)}")
    await reader.ask("GET", ADMIN + "/why", 404, query="?subject=unknown.test")
    for name in ("shape", "config"):
        await reader.ask("GET", f"{ADMIN}/{name}")
    await reader.ask("GET", ADMIN + "/events", query="?follow=false")
    await reader.ask("GET", ADMIN + "/trace", query=f"?destination={quote(ill.name)}&follow=false")
    await reader.ask("GET", ADMIN + "/trace", 400)
    await reader.ask("GET", "/")
    await refused(rig, engine, reader)
    for name in ("healthz", "readyz"):
        await reader.ask("GET", f"/{name}")
    await acts(engine, reader, well, ill)
    for name in ("stats", "stale_users", "partial_joins", "audit"):
        await reader.ask("GET", f"{ADMIN}/{name}")
    missing = {(m, p) for m, p in SPEC.routes(served=True) if p.startswith(ADMIN)} - reader.seen
    missing.discard(("GET", ADMIN + "/page"))  # a stream without end, see page-live-stream
    missing -= ACTS
    equal(missing, set(), "operations without a 200 that was checked")


async def acts(engine: Engine, reader: Reader, well: Peer, ill: Peer) -> None:
    """What an operator changes, the drain last: nothing is taken after it."""
    one = ADMIN + "/destinations/{name}"
    probed = await reader.ask("POST", one + "/probe", name=well.name)
    equal([probed["ok"], probed["failed_at"]], [True, None], "the probe")
    await reader.ask("POST", one + "/drop", 400, body={}, name=ill.name)
    for body in ({"dry_run": True}, {"reason": "gone for good"}):
        dropped = await reader.ask("POST", one + "/drop", body=body, name=ill.name)
        check(dropped["dropped"]["pdus"] >= 3, f"{body} lets go {dropped}")
    listed = (await reader.ask("GET", ADMIN + "/actors"))["actors"]
    restart = ADMIN + "/actors/{id}/restart"
    await reader.ask("POST", restart, id=str(next(a["id"] for a in listed if a["name"] == ill.name)))
    await reader.ask("POST", restart, 409, id=str(next(a["id"] for a in listed if a["kind"] == "ledger")))
    await reader.ask("POST", ADMIN + "/log_level", body={"level": "debug", "for_ms": 60_000})
    await reader.ask("POST", ADMIN + "/log_level", 400, body={"level": "loud"})
    await reader.ask("POST", ADMIN + "/database/check")
    copy = {"file": str(engine.data / "copy.db")}
    await reader.ask("POST", ADMIN + "/database/backup", body=copy)
    await reader.ask("POST", ADMIN + "/database/backup", 409, body=copy)
    await reader.ask("POST", ADMIN + "/drain", body={"within_ms": 1_000})


async def refused(rig: Rig, engine: Engine, reader: Reader) -> None:
    """Two items that a server refuses, each with one that passes behind it: one goes again, the other is let go."""
    picky, base = rig.peer(3), ADMIN + "/quarantine"
    room = await rig.shared(engine, picky)
    rows: list[Json] = []
    for number in (1, 2):
        bad, good = room.messages(user(engine), 2)
        picky.refuse_event(bad["event_id"])
        await engine.feed(bad, good)
        await has(picky, [good])

        async def listed(wanted: int = number) -> bool:
            rows[:] = (await reader.ask("GET", base))["quarantine"]
            return len(rows) == wanted
        await until_async(listed, 5, f"{number} in quarantine")
    picky.rules.clear()
    await reader.ask("POST", base + "/{id}/retry", id=str(rows[0]["id"]))
    await reader.ask("DELETE", base + "/{id}", id=str(rows[1]["id"]))
    for method, path in (("POST", "/{id}/retry"), ("DELETE", "/{id}")):
        await reader.ask(method, base + path, 404, id=str(rows[1]["id"]))


@case("api-examples-are-accepted")
async def examples(rig: Rig) -> None:
    """The records that the document shows are taken by the feed as they stand, with our name in them."""
    engine = await rig.engine()
    schemas: Json = SPEC.document["components"]["schemas"]
    shown = [e for s in SPEC.document["components"]["schemas"]["Record"]["oneOf"]
             for e in schemas[s["$ref"].rpartition("/")[2]].get("examples", [])]
    shown.sort(key=lambda e: e["kind"] != "roster")  # a room is known before anything is said of it
    check(len(shown) >= 6, f"only {len(shown)} examples")
    lines = [matrix.dumps(e).replace("example.org", engine.name).replace("remote.test", rig.peer(1).name)
             for e in shown]
    status, answer = await engine.feed_lines(lines)
    equal([status, answer["accepted"], answer["rejected"]], [200, len(lines), []], "the answer")
