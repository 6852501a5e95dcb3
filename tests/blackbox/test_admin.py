"""The admin API: shapes, listings, pages, actors, stats (API 5)."""
from __future__ import annotations

import asyncio
from typing import Any

from rig import (Engine, HostRoom, Peer, Rig, case, check, equal, failing, free_port, has, matrix, meet, quote,
                 to_device, until_async, user)

D_FIELDS = {"destination", "gate", "cursor", "head", "pending", "catching_up", "stale_users", "resyncing_users",
            "quarantined", "rooms", "last_success_ms", "last_inbound_ms", "resident", "attempts"}
GATE_FIELDS = {"state", "lanes", "failing_since_ms", "consecutive_failures", "next_attempt_ms", "interval_ms",
               "last_error"}


async def good_and_dead(rig: Rig) -> tuple[Engine, Peer, Peer, HostRoom]:
    """A delivered destination and one that is closed for an hour with three PDUs waiting."""
    engine = await rig.engine(backoff={"first": "1h"})
    good, dead = rig.peers(2)
    dead.down()
    room = await rig.shared(engine, good, dead)
    records = room.messages(user(engine), 3)
    await engine.feed(*records)
    await has(good, records, 6)
    await failing(engine, dead)
    return engine, good, dead, room


@case("admin-destination-shape")
async def shape(rig: Rig) -> None:
    """A destination has all documented fields with right values: one delivered, one closed with three PDUs waiting."""
    engine, good, dead, _ = await good_and_dead(rig)
    await engine.feed(to_device(user(engine), "w1", {dead.user("bob"): {"D": {}}}))
    for peer in (good, dead):
        d = await engine.destination(peer.name)
        check(D_FIELDS <= set(d), f"missing fields: {sorted(D_FIELDS - set(d))}")
        check(GATE_FIELDS <= set(d["gate"]), f"missing gate fields: {sorted(GATE_FIELDS - set(d['gate']))}")
        equal(set(d["gate"]["lanes"]) >= {"push", "pull", "devices"}, True, "the lanes")
        equal(set(d["cursor"]) >= {"pdu", "device_lists", "to_device"}, True, "the cursors")
        equal([d["destination"], d["rooms"]], [peer.name, 1], "name and rooms")
    equal([d["gate"]["state"], d["pending"]["pdus"], d["pending"]["to_device"]], ["closed", 3, 1], "the dead one")
    check(0 < d["pending"]["oldest_age_ms"] < 60_000, f"oldest_age_ms is {d['pending']['oldest_age_ms']}")
    equal([d["gate"]["lanes"]["push"], d["gate"]["lanes"]["pull"]], ["closed", "closed"], "its lanes")
    check(d["gate"]["failing_since_ms"] and d["gate"]["interval_ms"] == 3_600_000, "failing_since_ms or interval_ms")
    check(abs(d["gate"]["next_attempt_ms"] - matrix.now_ms() - 3_600_000) < 30_000, "next_attempt_ms")
    equal(d["attempts"][0]["outcome"], "unreachable", "the outcome of its attempt")
    d = await engine.destination(good.name)
    equal([d["gate"]["state"], d["pending"]["pdus"], d["gate"]["last_error"], d["in_flight"]],
          ["open", 0, None, None], "the good one")
    equal(d["pending"]["oldest_age_ms"], 0, "its oldest_age_ms")
    check(abs(d["last_success_ms"] - matrix.now_ms()) < 60_000, "last_success_ms")
    attempt = d["attempts"][0]
    equal([attempt["outcome"], attempt["status"]], ["ok", 200], "an attempt")
    check(attempt["at_ms"] and attempt["took_ms"] >= 0 and "/send" in attempt["request"], f"it is {attempt}")


@case("admin-in-flight")
async def in_flight(rig: Rig) -> None:
    """While a transaction is under way, in_flight shows its id, since when, and its bytes."""
    engine = await rig.engine()
    peer = rig.peer(1)
    hold = peer.hold("/send/")
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 2)
    await engine.feed(*records)
    await until_async(lambda: _arrived(hold), 5, "the transaction")
    d = await engine.destination(peer.name)
    equal(d["in_flight"]["transaction_id"], peer.requests[-1].parts[-1], "its id")
    equal(d["in_flight"]["bytes"], len(peer.requests[-1].raw), "its bytes")
    check(abs(d["in_flight"]["since_ms"] - matrix.now_ms()) < 20_000, "since when")
    equal([d["pending"]["pdus"], d["resident"]], [2, True], "pending and resident")
    hold.release()
    await has(peer, records, 5)


async def _arrived(hold: object) -> bool:
    return bool(hold.arrived)  # type: ignore[attr-defined]


@case("admin-last-inbound")
async def last_inbound(rig: Rig) -> None:
    """last_inbound_ms is when a server last spoke to us."""
    engine = await rig.engine()
    peer = rig.peer(1)
    await rig.shared(engine, peer)
    await meet(peer)

    async def seen() -> bool:
        at = (await engine.destination(peer.name))["last_inbound_ms"]
        return bool(at) and abs(at - matrix.now_ms()) < 30_000
    await until_async(seen, 5, "last_inbound_ms")


@case("admin-destinations-list")
async def listing(rig: Rig) -> None:
    """GET /destinations: total, filters by state and text, order both ways, pages by limit and `from`."""
    engine, good, dead, room = await good_and_dead(rig)
    more = rig.peers(5, 10)
    records = (await rig.shared(engine, *more)).messages(user(engine), 1)
    await engine.feed(*records)
    for peer in more:
        await has(peer, records, 6)

    async def names(query: str) -> list[str]:
        status, body = await engine.admin("GET", "/destinations" + query)
        equal(status, 200, f"destinations{query}")
        return [d["destination"] for d in body["destinations"]]
    every = sorted(p.name for p in (good, dead, *more))
    equal(sorted(await names("")), every, "the destinations")
    equal(await names("?state=closed"), [dead.name], "the closed ones")
    equal(sorted(await names("?state=open")), [n for n in every if n != dead.name], "the open ones")
    equal(await names(f"?q={quote(good.name)}"), [good.name], "those with the text in the name")
    equal(await names("?q=nothing-has-this"), [], "those with a text that none has")
    equal(await names("?order_by=destination&dir=asc"), every, "by name")
    equal(await names("?order_by=destination&dir=desc"), every[::-1], "by name, backwards")
    for order in ("asc", "desc"):
        seen: list[str] = []
        after = ""
        for _ in range(10):
            _, body = await engine.admin("GET", f"/destinations?limit=3&order_by=destination&dir={order}{after}")
            equal([body["total"], len(body["destinations"]) <= 3], [7, True], "total, and the page's length")
            seen += [d["destination"] for d in body["destinations"]]
            if not body.get("next"):
                break
            after = f"&from={quote(str(body['next']))}"
        equal(seen, every if order == "asc" else every[::-1], f"the pages together, {order}")
    for query in ("?limit=0", "?limit=x", "?state=odd", "?order_by=odd", "?dir=odd"):
        status, body = await engine.admin("GET", "/destinations" + query)
        check(status == 400 and body.get("errcode") and body.get("error"), f"{query}: {status} {str(body)[:80]}")


@case("admin-unknown-things")
async def unknown(rig: Rig) -> None:
    """Unknown destinations, actors and paths: 404 with errcode and error; wrong methods 405."""
    engine = await rig.engine()
    rows = [("GET", "/destinations/none.test", 404), ("POST", "/destinations/none.test/wake", 404),
            ("POST", "/destinations/none.test/reset", 404), ("POST", "/destinations/none.test/release", 404),
            ("GET", "/actors/999999", 404), ("GET", "/no_such", 404), ("DELETE", "/destinations", 405),
            ("GET", "/destinations/none.test/wake", 405), ("POST", "/stats", 405)]
    for method, path, wanted in rows:
        status, body = await engine.admin(method, path)
        check(status == wanted and isinstance(body, dict) and body.get("errcode") and body.get("error"),
              f"{method} {path}: {status} {str(body)[:100]}, not {wanted}")
    status, body = await engine.admin("GET", "/destinations/not%20a%20name!")
    check(status in (400, 404), f"a name that is none: {status}")


@case("admin-stats")
async def stats(rig: Rig) -> None:
    """/stats counts destinations by state and what waits."""
    engine, good, dead, _ = await good_and_dead(rig)

    async def stored() -> Any:  # the gate's row is written right after the gate has closed
        status, said = await engine.admin("GET", "/stats")
        equal(status, 200, "the status")
        return said if said["destinations"]["closed"] == 1 else None
    body = await until_async(stored, 5, "a closed destination is counted")
    counts = body["destinations"]
    equal([counts[k] for k in ("open", "closed", "probing", "held", "denied")], [1, 1, 0, 0, 0], "destinations")
    equal([body["waiting"][k] for k in ("pdus", "device_lists", "to_device")], [3, 0, 0], "waiting")
    check(0 < body["waiting"]["oldest_age_ms"] < 60_000, "oldest_age_ms")
    equal([body["stale_users"], body["partial_joins"], body["quarantined"]], [0, 0, 0], "other counters")
    check(isinstance(body["rates"], dict) and 0 <= counts["in_memory"] <= 2, f"it is {body}")


@case("admin-actors")
async def actors(rig: Rig) -> None:
    """/actors lists every running actor with its figures; /actors/{id} adds the state of one."""
    engine, good, dead, _ = await good_and_dead(rig)
    status, body = await engine.admin("GET", "/actors")
    equal(status, 200, "the status")
    rows = body["actors"]
    kinds = {r["kind"] for r in rows}
    wanted = {"supervisor", "destination", "ledger", "reader", "egress", "resolver", "keyring", "ingress"}
    check(wanted <= kinds, f"kinds without a row: {sorted(wanted - kinds)}")
    fields = {"id", "kind", "name", "parent", "state", "mailbox", "handled", "restarts", "started_ms", "busy_with"}
    for row in rows:
        check(fields <= set(row), f"{row.get('kind')} lacks {sorted(fields - set(row))}")
    equal(sum(r["kind"] == "reader" for r in rows), 2, "readers")
    one = next(r for r in rows if r["kind"] == "destination" and r["name"] == dead.name)
    status, full = await engine.admin("GET", f"/actors/{quote(str(one['id']))}")
    equal([status, full["id"], full["kind"], full["name"]], [200, one["id"], "destination", dead.name], "one of them")
    check(len(full) > len(fields), "its state is missing")
    for row in rows:
        status, _ = await engine.admin("GET", f"/actors/{quote(str(row['id']))}")
        equal(status, 200, f"the actor {row['kind']} by id")


@case("admin-retired-destination", timeout=90)
async def retired(rig: Rig) -> None:
    """An idle destination retires after half a minute: no actor, still listed, and served again when there is work."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    await has(peer, records, 5)

    async def gone() -> bool:
        return (await engine.destination(peer.name))["resident"] is False
    await until_async(gone, 50, "it has retired")
    status, body = await engine.admin("GET", "/actors")
    check(not any(a["kind"] == "destination" for a in body["actors"]), "there is still an actor")
    equal((await engine.admin("GET", "/destinations"))[1]["total"], 1, "destinations in the list")
    more = room.messages(user(engine), 2)
    await engine.feed(*more)
    await has(peer, more, 5)
    equal(len(peer.pdus), 3, "PDUs, each once")


@case("admin-on-tcp")
async def tcp(rig: Rig) -> None:
    """With [admin] listen the API is on TCP too, for those who have admin_token (0600)."""
    port = free_port()
    engine = await rig.engine(admin={"listen": f"127.0.0.1:{port}"})
    url = f"http://127.0.0.1:{port}/_ranvier/admin/v1/stats"
    token = (engine.data / "admin_token").read_text().strip()
    equal(oct((engine.data / "admin_token").stat().st_mode & 0o777), "0o600", "the token's mode")
    for given in ("", "wrong", engine.token()):
        status, body = await rig.net.http("GET", url, None, {"Authorization": f"Bearer {given}"} if given else {}, 5)
        check(status in (401, 403) and body.get("errcode") and body.get("error"), f"{given[:5]!r}: {status} {body}")
    status, body = await rig.net.http("GET", url, None, {"Authorization": f"Bearer {token}"}, 5)
    equal([status, "destinations" in body], [200, True], "with the token")


@case("admin-attempts-are-bounded")
async def attempts(rig: Rig) -> None:
    """`attempts` keeps the newest only, newest first, whatever was tried."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    for _ in range(60):
        records = room.messages(user(engine), 1)
        await engine.feed(*records)
        await has(peer, records, 5)
    await asyncio.sleep(0.2)
    rows = (await engine.destination(peer.name))["attempts"]
    check(5 <= len(rows) <= 60, f"{len(rows)} attempts are kept")
    times = [r["at_ms"] for r in rows]
    check(times in (sorted(times), sorted(times, reverse=True)), "they are in no order")
