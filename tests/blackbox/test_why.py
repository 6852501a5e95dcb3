"""Why something isn't there yet, and what waits: why, queue, rooms, shape, attempts (API 5, 6)."""
from __future__ import annotations

from rig import Rig, case, check, device, equal, matrix, quote, to_device, until_async, user
from test_admin import good_and_dead
from test_cli import NO, USAGE, ran


@case("why-destination")
async def destination(rig: Rig) -> None:
    """`why` of a dead server: its state, the error with its address, the next try and by which rule, what waits."""
    engine, good, dead, _ = await good_and_dead(rig)
    await engine.feed(to_device(user(engine), "w1", {dead.user("bob"): {"D": {}}}))
    status, why = await engine.admin("GET", f"/why?subject={quote(dead.name)}")
    equal([status, why["kind"], why["subject"], why["destination"]["gate"]["state"]],
          [200, "destination", dead.name, "closed"], "whose answer it is")
    check("unreachable at " in why["because"] and dead.name in why["because"], f"because is {why['because']}")
    waiting = why["waiting"]
    equal([waiting["pdus"], waiting["rooms"], waiting["to_device"]], [3, 1, 1], "what waits")
    next_try = why["next_try"]
    check(abs(next_try["at_ms"] - matrix.now_ms() - 3_600_000) < 60_000, "the next try")
    check("1h x 2^n, at most 1d" in next_try["rule"], f"the rule is {next_try['rule']}")
    line = [n for n, t in enumerate(engine.config_file.read_text().splitlines(), 1) if t == "[backoff]"][0]
    equal(next_try["configured"], f"{engine.config_file}:{line}", "where that is configured")
    equal({s["what"] for s in why["not_because"] if s["ok"]}, {"hold", "local", "resolver", "clock", "uplink"},
          "what isn't at fault")
    words = (await ran(engine, "why", dead.name)).out
    for part in (f"{dead.name} is CLOSED since", "because", "last ok", "next try", "3 pdus in 1 room", "1 to-device",
                 "no hold", f"ranvier wake {dead.name}"):
        check(part in words, f"{part!r} is missing in {words}")
    equal((await ran(engine, "why", dead.name, "-o", "json")).json()["subject"], dead.name, "-o json")
    await engine.admin("POST", f"/destinations/{quote(dead.name)}/hold", {"reason": "they move house"})
    words = (await ran(engine, "why", dead.name)).out
    check("HELD" in words and "they move house" in words and "release" in words, f"held: {words}")
    words = (await ran(engine, "why", good.name)).out
    check(f"{good.name} is OPEN" in words and "nothing hinders it" in words, f"the good one: {words}")


@case("why-unknown")
async def unknown(rig: Rig) -> None:
    """Of what nobody knows: exit 1 with a sentence that names it, and no data."""
    engine = await rig.engine()
    for subject in ("none.test", "$nothing", "@nobody:none.test", "!nowhere:none.test"):
        done = await ran(engine, "why", subject, code=NO)
        check(subject in done.err and not done.out, f"{subject}: {done.err!r}")
    await ran(engine, "why", "", code=USAGE)
    equal((await engine.admin("GET", "/why"))[0], 400, "without a subject")


@case("why-event")
async def event(rig: Rig) -> None:
    """`why $EVENT`: who has it, who lacks it and why; once everybody has it, that it has gone."""
    engine, good, dead, room = await good_and_dead(rig)
    event_id = good.event_ids()[-1]
    status, why = await engine.admin("GET", f"/why?subject={quote(event_id)}")
    equal([status, why["kind"], why["type"], why["room_id"]], [200, "event", "m.room.message", room.room_id], "it")

    async def acked() -> bool:
        nonlocal why
        why = (await engine.admin("GET", f"/why?subject={quote(event_id)}"))[1]
        return why["delivered"]["destinations"] == [good.name]
    await until_async(acked, 5, "the good one has it")
    equal([d["destination"] for d in why["waiting"]["destinations"]], [dead.name], "who lacks it")
    reason = why["waiting"]["destinations"][0]
    check(reason["stage"] in ("connect", "tls") and reason["since_ms"], f"it is {reason}")
    words = (await ran(engine, "why", event_id)).out
    check("WAITS for 1 server" in words and dead.name in words and good.name in words, words)
    dead.up()
    await ran(engine, "wake", dead.name)

    async def gone() -> bool:
        return "has GONE" in (await ran(engine, "why", event_id)).out
    await until_async(gone, 8, "it has gone to everybody")


@case("why-room-B122")
async def room_(rig: Rig) -> None:
    """B122: of a room, who is behind, by how much, since when and at which stage; after recovery nobody is."""
    engine, good, dead, room = await good_and_dead(rig)

    async def told() -> bool:
        servers = (await engine.admin("GET", f"/why?subject={quote(room.room_id)}"))[1]["servers"]
        return {s["destination"]: s["behind"] for s in servers} == {good.name: 0, dead.name: 3}
    await until_async(told, 5, "who is behind, and nobody else")
    servers = (await engine.admin("GET", f"/why?subject={quote(room.room_id)}"))[1]["servers"]
    behind = [s for s in servers if s["behind"]][0]
    check(behind["stage"] in ("connect", "tls"), f"it is {behind}")
    check(abs(behind["since_ms"] - matrix.now_ms()) < 30_000, f"it is {behind}")
    words = (await ran(engine, "why", room.room_id)).out
    check("behind at 1 server" in words and "3 behind" in words, words)
    dead.up()
    await ran(engine, "wake", dead.name)

    async def caught_up() -> bool:
        return "at every server" in (await ran(engine, "why", room.room_id)).out
    await until_async(caught_up, 8, "nobody is behind")


@case("why-user")
async def of_user(rig: Rig) -> None:
    """Of ours: which servers lack its device list, why. Of another server's: how its list and its server are."""
    engine, good, dead, room = await good_and_dead(rig)
    alice = user(engine)
    await engine.feed(device(alice, "NEW"))

    async def told() -> bool:
        why = (await engine.admin("GET", f"/why?subject={quote(alice)}"))[1]
        return [d["destination"] for d in why["waiting"]["destinations"]] == [dead.name]
    await until_async(told, 8, "who lacks it")
    why = (await engine.admin("GET", f"/why?subject={quote(alice)}"))[1]
    check(why["ours"] and why["rooms"] == [room.room_id] and why["delivered"]["total"] == 1, f"it is {why}")
    words = (await ran(engine, "why", alice)).out
    check("OURS" in words and dead.name in words and "unreachable" in words, words)
    bob = dead.user("bob")
    words = (await ran(engine, "why", bob)).out
    check(f"{bob}'s device list is NOT FETCHED" in words and f"{dead.name} is closed" in words, words)
    await engine.admin("POST", f"/stale_users/{quote(bob)}/resync")
    words = (await ran(engine, "why", bob)).out
    check("STALE" in words and "an operator wants it fetched" in words and "next try" in words, words)


@case("queue-rooms-attempts-shape")
async def parts(rig: Rig) -> None:
    """What waits item by item, the rooms with counts, the last requests, and the ages of what waits."""
    engine, good, dead, room = await good_and_dead(rig)
    await engine.feed(to_device(user(engine), "w1", {dead.user("bob"): {"D": {}}}))
    status, body = await engine.admin("GET", f"/destinations/{quote(dead.name)}/queue")
    equal([status, [i["kind"] for i in body["queue"]], body["more"]], [200, ["to_device", "pdu", "pdu", "pdu"], False],
          "the queue")
    check(all(i["room_id"] == room.room_id and i["detail"] == "m.room.message" for i in body["queue"][1:]), "the pdus")
    status, body = await engine.admin("GET", f"/destinations/{quote(dead.name)}/queue?limit=2")
    equal([len([i for i in body["queue"] if i["kind"] == "pdu"]), body["more"]], [2, True], "two of each kind")
    equal((await ran(engine, "queue", good.name, "--no-headers")).out, "", "nothing waits for the good one")
    status, body = await engine.admin("GET", f"/destinations/{quote(dead.name)}/rooms")
    equal([(r["room_id"], r["waiting"], r["shared"]) for r in body["rooms"]], [(room.room_id, 3, True)], "its rooms")
    table = (await ran(engine, "attempts", dead.name)).out
    check("PUT /send" in table and "unreachable" in table, table)

    async def acked() -> bool:  # acks are gathered for up to a second
        return (await engine.admin("GET", "/shape"))[1]["rows"] == 1
    await until_async(acked, 5, "only the dead one has something waiting")
    status, body = await engine.admin("GET", "/shape")
    equal([status, body["total"]["total"], body["total"]["counts"][0], body["whole"]], [200, 4, 4, True], "the shape")
    equal([r["destination"] for r in body["destinations"]], [dead.name], "its rows")
    lines = (await ran(engine, "shape")).out.splitlines()
    equal(lines[0].split(), ["total", "1m", "5m", "20m", "1h", "6h", "1d", "1w", "1w+"], "the titles")
    equal([lines[1].split()[:2], lines[2].split()[:2]], [["TOTAL", "4"], [dead.name, "4"]], "the lines")
    equal(len((await ran(engine, "shape", "--state", "open")).out.splitlines()), 2, "of those that are open: no row")
    for path in ("/destinations/none.test/queue", "/destinations/none.test/rooms"):
        equal((await engine.admin("GET", path))[0], 404, path)
    for verb in ("queue", "rooms", "attempts"):
        await ran(engine, verb, "none.test", code=NO)
    equal((await engine.admin("GET", "/shape?limit=x"))[0], 400, "a limit that is no number")
