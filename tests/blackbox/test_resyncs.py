"""Remote device lists that must be fetched: when, how often, in which order, and what an operator sees (DESIGN 7)."""
from __future__ import annotations

import asyncio
import time

from rig import Peer, Rig, case, check, equal, failing, matrix, meet, steady, until, until_async
from rig.lists import Scene, gap, scene
from rig.matrix import Json


def update(who: str, stream_id: int, prev: list[int] | None = None, device_id: str = "B1", **extra: object) -> Json:
    content: Json = {"user_id": who, "device_id": device_id, "stream_id": stream_id, **extra}
    if prev is not None:
        content["prev_id"] = prev
    return {"edu_type": "m.device_list_update", "content": content}


async def crowd(s: Scene, peer: Peer, count: int) -> list[str]:
    """More users of a peer, with one device each, who share the room."""
    users = [peer.user(f"u{i}") for i in range(count)]
    for who in users:
        peer.book(who).set("D1")
        await s.joins(who)
    return users


@case("SyTest_handles_incoming_device_list_update")
async def first_update(rig: Rig) -> None:
    """SyTest 40: a first update without prev_id leads to GET /user/devices at once; the next one is applied without a
    fetch, and its name shows."""
    s = await scene(rig, cached=False)
    await s.send(update(s.bob, 1, keys={"device_keys": {}}))
    await until(s.fetches, 5, "GET /user/devices")
    await s.announced()
    await s.becomes({"B1"})
    s.stream.forget()
    await s.send(s.book.set("B1", name="renamed"))
    await s.announced()
    equal((await s.devices())["B1"]["unsigned"], {"device_display_name": "renamed"}, "unsigned")
    equal(s.fetches(), 1, "fetches")


@case("SyTest_resyncs_when_an_update_goes_missing")
async def missed(rig: Rig) -> None:
    """SyTest 40: an update goes missing; the next one leads to a fetch, and both steps show."""
    s = await scene(rig)
    s.book.set("B2")
    edu = s.book.set("B1", name="later")
    await s.send(edu)
    await s.announced()
    await s.becomes({"B1", "B2"})
    equal((await s.devices())["B1"]["unsigned"], {"device_display_name": "later"}, "unsigned")
    equal(s.fetches(), 2, "fetches")
    await s.not_stale()


@case("B62_remembered_over_a_restart", timeout=60)
async def remembered(rig: Rig) -> None:
    """A fetch that failed is remembered over a crash, told to clients once, and retried until it works."""
    s = await scene(rig)
    down = s.peer.answer("/user/devices/", 503)
    await s.send(gap(s.book))
    await s.announced()
    check(s.bob in await s.stale(), "bob isn't stale")
    await s.engine.restart(kill=True)
    check(s.bob in await s.stale(), "bob isn't stale after the restart")
    s.peer.forget(down)
    await s.not_stale(12)
    equal(set(await s.devices()), {"B1", "Gap", "Gap2"}, "the devices")


@case("B64_a_finished_fetch_clears_the_mark")
async def finished(rig: Rig) -> None:
    """The same list again, a long one, an empty one: one fetch each, and the mark is gone."""
    s = await scene(rig)
    await s.send(update(s.bob, s.book.stream_id + 2, [s.book.stream_id + 1]))  # a gap, and then the list as it was
    await until(lambda: s.fetches() == 2, 5, "the fetch of the same list")
    await s.not_stale()
    for i in range(2000):
        s.book.set(f"D{i}")
    await s.send(s.book.set("E"))
    await until(lambda: s.fetches() == 3, 5, "the fetch of a long list")
    await s.not_stale(15)
    equal(len(await s.devices()), 2002, "the devices")
    for name in list(s.book.devices):
        s.book.delete(name)
    await s.send(update(s.bob, s.book.stream_id + 5, [s.book.stream_id + 4], deleted=True))
    await until(lambda: s.fetches() == 4, 5, "the fetch of an empty list")
    await s.not_stale()
    equal(await s.devices(), {}, "the devices")
    await steady(s.fetches, 1.5, "fetches")


@case("B65_refusing_hosts", timeout=90)
async def refusing(rig: Rig) -> None:
    """Hosts that answer 301, 403 or 404 to all, or nothing: the waits grow, a warning a change of state at most; a
    user that its server doesn't know waits visibly by itself and blocks nobody."""
    s = await scene(rig, cached=False, backoff={"first": "500ms"}, delivery={"request_timeout": "1s"})
    hosts: dict[Peer, int | str] = {rig.peer(2): 301, rig.peer(3): 403, rig.peer(4): 404, rig.peer(5): "silent"}
    for peer, how in hosts.items():
        await meet(peer)
        await crowd(s, peer, 6)
        if how == "silent":
            peer.hold("/user/devices/")
        else:
            peer.answer("/user/devices/", int(how))
    lines = len(s.engine.log_file.read_text().splitlines())
    for peer in hosts:
        await s.send(*(update(peer.user(f"u{i}"), 5) for i in range(6)), peer=peer)
    await asyncio.sleep(15)
    for peer, how in hosts.items():
        count = len(peer.asked("/user/devices/"))
        check(2 <= count <= 12, f"{count} requests to a host that answers {how}")
    new = s.engine.log_file.read_text().splitlines()[lines:]
    check(len(new) <= 60, f"{len(new)} log lines")
    lanes = {how: (await s.engine.gate(peer.name))["lanes"] for peer, how in hosts.items()}
    equal([lanes[h]["devices"] for h in (301, 403, 404)], ["closed"] * 3, "the devices lanes")
    equal([lanes[403]["pull"], lanes[403]["push"], lanes["silent"]["pull"]], ["open", "open", "closed"], "other lanes")
    listed = await s.stale()
    equal(len(listed), 24, "stale users")
    refused = [u for u in listed.values() if u["destination"] == rig.peer(4).name and u["failures"]]
    check(len(refused) >= 3, f"{len(refused)} users wait by themselves")
    for one in refused:
        wait = one["next_attempt_ms"] - matrix.now_ms()
        check(20_000 < wait < 120_000 and "404" in one["problem"], f"a refused user is {one}")
    # One that its server doesn't know blocks no other user of a well server.
    ghost = s.peer.user("ghost")
    await s.joins(ghost)
    await s.send(update(ghost, 1), update(s.bob, 1))
    await s.becomes({"B1"})

    async def ghost_waits() -> bool:
        return (await s.stale()).get(ghost, {}).get("failures") == 1
    await until_async(ghost_waits, 5, "the ghost is refused")
    equal((await s.engine.gate(s.peer.name))["lanes"], {"push": "open", "pull": "open", "devices": "open"}, "lanes")


@case("resync-devices-lane-opens")
async def lane_opens(rig: Rig) -> None:
    """Three users refused in a row close the lane; when the server gives lists again one fetch sees it, and all go."""
    s = await scene(rig, cached=False)
    users = await crowd(s, s.peer, 8)
    refusal = s.peer.answer("/user/devices/", 403)
    await s.send(*(update(u, 5) for u in users))

    async def closed() -> bool:
        return (await s.engine.gate(s.peer.name))["lanes"]["devices"] == "closed"
    await until_async(closed, 5, "the devices lane is closed")
    equal(s.fetches(), 3, "fetches until it closed")
    body = await s.engine.keys_query(users[0], timeout_ms=3000)
    equal(set(body["failures"]), {s.peer.name}, "failures while it is closed")
    s.peer.forget(refusal)

    async def few() -> bool:
        return len(await s.stale()) <= 3
    await until_async(few, 12, "the users who weren't refused are fetched")
    check(not await closed(), "the devices lane is still closed")
    check(all(u["failures"] == 1 for u in (await s.stale()).values()), "others than the refused ones are stale")


@case("B67_triggers_for_a_waiting_server", timeout=60)
async def triggers(rig: Rig) -> None:
    """While a server waits, updates and queries only mark; then one request sees whether it works, and the rest go."""
    s = await scene(rig, cached=False, backoff={"first": "8s"})
    users = await crowd(s, s.peer, 5)
    s.peer.answer("/user/devices/", 503, times=1)
    await s.query(users[0], timeout_ms=3000)

    async def lane_closed() -> bool:
        return (await s.engine.gate(s.peer.name))["lanes"]["pull"] == "closed"
    await until_async(lane_closed, 5, "the pull lane is closed")
    start, hold = time.monotonic(), s.peer.hold("/user/devices/")
    for _ in range(20):
        body = await s.query(*users, timeout_ms=1000)
        equal(set(body["failures"]), {s.peer.name}, "failures")
    check(time.monotonic() - start < 4, "queries wait for a server that isn't asked")
    equal(s.fetches(), 1, "requests while it waits")
    marked = await s.stale()
    equal(set(marked), set(users), "the marked users")
    check(all(u["next_attempt_ms"] for u in marked.values()), "a stale user has no next moment")
    await until(lambda: hold.arrived == 1, 10, "the one request that sees whether it works")
    await asyncio.sleep(1.5)
    equal(hold.arrived, 1, "requests until it was answered")
    hold.release()
    await s.not_stale()
    equal(s.fetches(), 6, "all requests")


@case("B68_all_marked_users")
async def all_marked(rig: Rig) -> None:
    """One transaction marks five users of a server, another one of another: all are fetched, each once."""
    s = await scene(rig, cached=False)
    other = rig.peer(2)
    await rig.shared(s.engine, other)
    await meet(other)
    users = await crowd(s, s.peer, 5)
    other.book(other.user("bob")).set("X1")
    await s.send(*(update(u, 3, [2]) for u in users))
    await s.send(update(other.user("bob"), 3, [2]), peer=other)
    await until(lambda: s.fetches() + len(other.asked("/user/devices/")) >= 6, 8, "six fetches")
    await s.not_stale()
    equal([s.fetches(u) for u in users] + [len(other.asked("/user/devices/"))], [1] * 6, "fetches of each")


@case("resync-three-at-a-time")
async def three(rig: Rig) -> None:
    """At most three fetches at a time of one server; one user's that hangs holds up nobody else."""
    s = await scene(rig)
    users = await crowd(s, s.peer, 9)
    stuck = s.peer.hold("/user/devices/" + users[0])
    await s.send(update(users[0], 5))
    await until(lambda: stuck.arrived == 1, 5, "the fetch that hangs")
    await s.send(*(update(u, 5) for u in users[1:]))
    await until(lambda: all(s.fetches(u) == 1 for u in users), 8, "the fetches of all others")

    async def one_left() -> bool:
        return set(await s.stale()) == {users[0]}
    await until_async(one_left, 5, "all others are fetched")
    equal((await s.engine.destination(s.peer.name))["resyncing_users"], 1, "resyncing users")
    hold = s.peer.hold("/user/devices/")
    s.peer.rules.reverse()
    await s.send(*(update(u, 9, [8]) for u in users[1:]))
    await until(lambda: hold.arrived >= 2, 5, "further fetches")
    await asyncio.sleep(1.5)
    check(hold.arrived + stuck.arrived <= 3, f"{hold.arrived + stuck.arrived} fetches at a time")
    hold.release()
    stuck.release()
    await s.not_stale(12)


@case("B70_a_server_rebuilt")
async def rebuilt(rig: Rig) -> None:
    """A stream id lower than the known one, or an empty prev_id where a sequence exists, means start over. A new
    invite of the user after no shared room leads to a fetch too."""
    s = await scene(rig)
    await s.send(s.book.set("B2"))
    await s.becomes({"B1", "B2"})
    await s.quiet()
    count = s.fetches()
    s.book.devices.clear()
    s.book.stream_id = 0
    s.book.set("D7")
    await s.send(update(s.bob, 1, [], "D7"))
    await s.announced()
    await s.becomes({"D7"})
    equal(s.fetches() - count, 1, "fetches")


@case("B71_answered_before_fetching")
async def answered_first(rig: Rig) -> None:
    """/send doesn't wait for the lists of its sender: a PDU beside an update with a gap is passed on at once; one
    fetch a user."""
    s = await scene(rig)
    hold = s.peer.hold("/user/devices/")
    event = s.peer.event(s.room.room_id, s.bob, "m.room.message", {"body": "x"})
    start = time.monotonic()
    status, _ = await s.peer.send([event], [gap(s.book), gap(s.book)])
    equal(status, 200, "the status")
    await s.stream.until(lambda i: i["kind"] == "pdu", 2, "the event")
    check(time.monotonic() - start < 2, "the transaction waited for the fetch")
    await until(lambda: hold.arrived == 1, 5, "the fetch")
    await asyncio.sleep(0.7)
    equal(hold.arrived, 1, "fetches at a time")
    hold.release()
    await s.not_stale()


@case("B74_unknown_device_named")
async def unknown_device(rig: Rig) -> None:
    """An encrypted event or a key request that names an unknown device leads to one fetch; in vain, to no second one;
    somebody else's word leads to none."""
    s = await scene(rig)
    other = rig.peer(2)
    await rig.shared(s.engine, other)
    await meet(other)
    s.book.set("B2")  # nobody said so

    def request(device_id: str, number: int) -> Json:
        return {"edu_type": "m.direct_to_device", "content": {
            "sender": s.bob, "type": "m.room_key_request", "message_id": f"m{number}", "messages": {
                s.alice: {"*": {"action": "request", "requesting_device_id": device_id, "request_id": "1"}}}}}
    await s.send(request("B2", 0), peer=other)
    await asyncio.sleep(0.5)
    equal(s.fetches(), 1, "fetches because of another server's word")
    await s.send(request("B2", 1))
    await s.announced()
    await s.becomes({"B1", "B2"})
    equal(s.fetches(), 2, "fetches")
    for i in range(10):
        event = s.peer.event(s.room.room_id, s.bob, "m.room.encrypted", {"device_id": "B9", "ciphertext": str(i)})
        status, _ = await s.peer.send([event], [request("B9", 10 + i)])
        equal(status, 200, "the status")
    await until(lambda: s.fetches() == 3, 5, "the fetch because of B9")
    await s.not_stale()
    await steady(s.fetches, 1.0, "fetches")


@case("B76_changed_query_changed", timeout=60)
async def no_loop(rig: Rig) -> None:
    """A client that queries on each `changed` isn't told again: no devices, devices without keys, an ordinary list."""
    s = await scene(rig, cached=False)
    empty, keyless = s.peer.user("empty"), s.peer.user("keyless")
    s.peer.book(empty)
    s.peer.book(keyless).set("K1")
    s.peer.book(keyless).devices["K1"].keys = None
    for who in (empty, keyless):
        await s.joins(who)
    for who in (s.bob, empty, keyless):
        await s.quiet()
        await s.send(update(who, s.peer.book(who).stream_id))
        for _ in range(6):
            await s.stream.settle(0.4)
            await s.query(who)
        check(s.stream.changed(who) <= 1, f"{s.stream.changed(who)} notices of {who}")
        equal(s.fetches(who), 1, f"fetches of {who}")


@case("SyTest_device_deletion_propagates")
async def device_gone(rig: Rig) -> None:
    """SyTest 06: a deleted device is announced and gone: the user's map is {}; a fetch that lacks a device drops it."""
    s = await scene(rig)
    await s.send(s.book.delete("B1"))
    await s.announced()
    equal((await s.query())["device_keys"], {s.bob: {}}, "the devices")
    await s.send(s.book.set("B2"), s.book.set("B3"))
    await s.becomes({"B2", "B3"})
    await s.quiet()
    s.book.delete("B2")
    await s.send(s.book.set("B4"))
    await s.announced()
    await s.becomes({"B3", "B4"})


@case("resync-update-during-fetch")
async def during_fetch(rig: Rig) -> None:
    """An update that comes while a fetch is under way isn't lost: the list is fetched again."""
    s = await scene(rig)
    hold = s.peer.hold("/user/devices/", times=1, process_first=True)
    await s.send(gap(s.book))
    await until(lambda: hold.arrived == 1, 5, "the first fetch")
    await s.send(s.book.set("B9"))
    hold.release()
    await s.becomes({"B1", "Gap", "Gap2", "B9"})
    await s.not_stale()


@case("resync-by-hand")
async def by_hand(rig: Rig) -> None:
    """An operator sees the stale users and has one fetched at once, over its wait; the command line does both."""
    s = await scene(rig)
    refusal = s.peer.answer("/user/devices/", 403)
    await s.send(gap(s.book))

    async def refused() -> bool:
        return (await s.stale()).get(s.bob, {}).get("failures") == 1
    await until_async(refused, 5, "bob is refused")
    row = (await s.engine.cli("stale-users", "-o", "json")).json()["stale_users"][0]
    equal([row["user_id"], row["destination"], row["failures"]], [s.bob, s.peer.name, 1], "the row")
    check("403" in row["problem"] and row["cause"], f"the reasons are {row['cause']} and {row['problem']}")
    shown = await s.engine.cli("show", s.peer.name)
    check("1 stale user" in shown.out, f"show says {shown.out[-200:]}")
    words = (await s.engine.cli("status")).out
    check("stale" not in words, f"status wants attention for a list that is stale for less than an hour: {words}")
    status, stats = await s.engine.admin("GET", "/stats")
    equal([status, stats["stale_users"]], [200, 1], "stats")
    failed = await s.engine.cli("resync", s.bob)
    equal(failed.code, 1, f"the exit code while it is refused ({failed.err})")
    s.peer.forget(refusal)
    status, body = await s.engine.admin("POST", f"/stale_users/{s.bob}/resync".replace("@", "%40"))
    equal([status, body.get("fetched")], [200, True], f"the answer {body}")
    equal(set(await s.devices()), {"B1", "Gap", "Gap2"}, "the devices")
    count = s.fetches()
    equal((await s.engine.cli("resync", s.bob)).code, 0, "the exit code for a user who isn't stale")
    equal(s.fetches(), count + 1, "fetches of a list that was true")
    for name, wanted in (("@x:elsewhere.test", 404), (s.alice, 400), ("bob", 400)):
        status, _ = await s.engine.admin("POST", f"/stale_users/{name}/resync".replace("@", "%40"))
        equal(status, wanted, f"the status for {name}")
    equal((await s.engine.cli("resync", "@x:elsewhere.test")).code, 1, "the exit code for somebody unknown")
    check("USER" in (await s.engine.cli("stale-users")).out, "the listing has no titles")


@case("resync-when-the-server-is-back", timeout=60)
async def back(rig: Rig) -> None:
    """When a gate opens, the lists that were wanted meanwhile are fetched and announced, without being asked again."""
    s = await scene(rig, cached=False, backoff={"first": "2s"})
    s.peer.down()
    body = await s.query(timeout_ms=3000)
    equal([body["device_keys"], set(body["failures"])], [{}, {s.peer.name}], "the answer while it is down")
    await failing(s.engine, s.peer)
    await s.query(timeout_ms=1000)
    await s.quiet()
    s.peer.up()
    await s.announced(within=15)
    equal(set(await s.devices()), {"B1"}, "the devices")
    equal(s.fetches(), 1, "fetches")
    await s.not_stale()


@case("resync-endless-answer", timeout=60)
async def endless(rig: Rig) -> None:
    """An answer of over 32 MiB is that user's affair: it is listed with the cause, its server's lanes stay open, and
    other users are fetched."""
    s = await scene(rig, cached=False)
    large = s.peer.user("large")
    s.peer.book(large).set("L1")
    await s.joins(large)
    s.peer.answer("/user/devices/" + large, 200, raw=b'{"user_id":"' + b"x" * (33 << 20) + b'"}')
    await s.send(update(large, 5), update(s.bob, 1))
    await s.becomes({"B1"})

    async def listed() -> bool:
        return set(await s.stale()) == {large} and bool((await s.stale())[large]["next_attempt_ms"])
    await until_async(listed, 15, "the large list is given up")
    equal((await s.engine.gate(s.peer.name))["lanes"], {"push": "open", "pull": "open", "devices": "open"}, "lanes")
    equal(set((await s.query(large))["device_keys"][large]), {"L1"}, "the devices by a query")
    equal(s.fetches(large), 1, "fetches")
