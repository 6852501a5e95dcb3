"""Partial joins until they end: completed, given up, left (API 3.3; DESIGN 8; CONFORMANCE 4)."""
from __future__ import annotations

import asyncio

from rig import Rig, case, check, device, equal, matrix, quote, until, until_async, user
from rig.rooms import Room, join, partial_join, room_state, view


@case("partial-completes", timeout=60)
async def completes(rig: Rig) -> None:
    """The state is asked for, the room becomes full with all members, its state can be had, the stream says so."""
    engine = await rig.engine()
    owner, other = rig.peers(2)
    members = [owner.user("charlie"), other.user("derek")]
    joined = await partial_join(engine, owner, members, others=[other], user_id=user(engine))
    room = joined.room
    await joined.held()
    stream = rig.collector(engine)
    joined.release()
    item = await stream.until(lambda i: i["kind"] == "partial_join", 15, "partial_join item")
    equal([item["room_id"], item["state"]], [room.room_id, "complete"], "the item")
    seen = await view(engine, room.room_id)
    check(seen["partial"] is False and all(seen["members"].get(m) == "join" for m in members), f"the room is {seen}")
    status, state = await room_state(engine, room.room_id)
    equal(status, 200, "the state")
    check(all(m in matrix.dumps(state) for m in [*members, room.creator]), "the state lacks a member")


@case("partial-over-a-kill", timeout=60)
async def killed(rig: Rig) -> None:
    """PartialStateJoinContinuesAfterRestart: killed while the state is held, still partial, completes on release."""
    engine = await rig.engine()
    owner = rig.peer(1)
    joined = await partial_join(engine, owner, [owner.user("charlie")], user_id=user(engine))
    await joined.held()
    await engine.restart(kill=True)
    check((await view(engine, joined.room.room_id))["partial"] is True, "not partial after the restart")
    joined.release()
    await until_async(lambda: full(engine, joined.room.room_id), 20, "the room is full")


async def full(engine: object, room_id: str) -> bool:
    return (await view(engine, room_id))["partial"] is False


@case("PartialStateJoinSyncsUsingOtherHomeservers", timeout=60)
async def others(rig: Rig) -> None:
    """The first server answers state_ids with {}: it is taken for invalid, and the state comes from another."""
    engine = await rig.engine()
    owner, other = rig.peers(2)
    owner.answer("/state", 200, {})
    joined = await partial_join(engine, owner, [other.user("derek")], others=[other], user_id=user(engine), hold=False)
    stream = rig.collector(engine)
    item = await stream.until(lambda i: i["kind"] == "partial_join", 15, "partial_join item")
    equal([item["state"], item["servers"][other.name]["verdict"]], ["complete", "ok"], "the item")
    check((await view(engine, joined.room.room_id))["partial"] is False, "still partial")


@case("partial-everybody-refuses", timeout=60)
async def refused(rig: Rig) -> None:
    """Everybody refuses: abandoned after the grace period with each server's reason; nothing is asked any more."""
    engine = await rig.engine(partial_join={"abandon_after": "3s"})
    owner, other = rig.peers(2)
    for peer, status in ((owner, 403), (other, 404)):
        peer.answer(lambda r: "/state" in r.path or "/event/" in r.path, status)
    stream = rig.collector(engine)
    joined = await partial_join(engine, owner, [other.user("derek")], others=[other], user_id=user(engine), hold=False)
    item = await stream.until(lambda i: i["kind"] == "partial_join", 30, "partial_join item")
    equal([item["state"], item["users"]], ["abandoned", [user(engine)]], "the item")
    equal({n: v["verdict"] for n, v in item["servers"].items()}, {owner.name: "refused", other.name: "refused"},
          "verdicts")
    seen = await view(engine, joined.room.room_id)
    equal([seen["partial"], user(engine) in [u for u, m in seen["members"].items() if m == "join"]], [False, False],
          "the room")


@case("partial-unverifiable-events", timeout=60)
async def unverifiable(rig: Rig) -> None:
    """J8, TestJoinFederatedRoomWithUnverifiableEvents: an unsigned, a wrongly signed and a too large event are in the
    state that every server gives; the join completes without them, and says so."""
    engine = await rig.engine()
    owner = rig.peer(1)
    room = Room(owner, [owner.user("charlie"), owner.user("derek"), owner.user("elsie")])
    room.add(owner.user("elsie"), "m.room.member", {"membership": "join", "displayname": "x" * 70_000},
             owner.user("elsie"))
    room.message()
    for event_id, event in list(room.events.items()):
        if event.get("state_key") == owner.user("charlie"):
            room.events[event_id] = {**event, "signatures": {}}
        if event.get("state_key") == owner.user("derek"):
            room.events[event_id] = {**event, "signatures": {owner.name: {owner.key.key_id: "A" * 86}}}
    stream = rig.collector(engine)
    status, answer = await join(engine, room.room_id, user(engine), [owner.name])
    equal([status, answer.get("partial")], [200, True], f"the join ({str(answer)[:200]})")
    item = await stream.until(lambda i: i["kind"] == "partial_join", 15, "partial_join item")
    equal([item["state"], item["servers"][owner.name]["verdict"]], ["complete", "ok"], "the item")
    check("3 of its events can't be used" in item["reason"], f"the reason: {item['reason']}")
    members = (await view(engine, room.room_id))["members"]
    equal([members.get(owner.user(n)) for n in ("creator", "charlie", "derek", "elsie")], ["join", None, None, None],
          "the members")


@case("partial-denied-candidate", timeout=60)
async def denied(rig: Rig) -> None:
    """A candidate that allow or deny exclude is never asked, nothing waits for it, it counts as one that refuses."""
    owner, other = rig.peers(2)
    engine = await rig.engine(partial_join={"abandon_after": "2s"}, federation={"deny": [other.name]})
    owner.answer(lambda r: "/state" in r.path or "/event/" in r.path, 403)
    stream = rig.collector(engine)
    await partial_join(engine, owner, [other.user("derek")], others=[other], user_id=user(engine), hold=False)
    item = await stream.until(lambda i: i["kind"] == "partial_join", 20, "partial_join item")
    equal([item["state"], item["servers"][other.name]["verdict"]], ["abandoned", "refused"], "the item")
    check("deny" in item["servers"][other.name]["reason"], f"its reason: {item['servers']}")
    equal(other.requests, [], "requests to the denied")


@case("partial-unreachable-waits", timeout=60)
async def waits(rig: Rig) -> None:
    """Somebody merely unreachable: the join waits beyond the grace period and goes on when that server speaks to us."""
    engine = await rig.engine(partial_join={"abandon_after": "2s"}, backoff={"first": "1s", "max": "2s"})
    owner = rig.peer(1)
    joined = await partial_join(engine, owner, [owner.user("charlie")], user_id=user(engine))
    await joined.held()
    owner.down()
    joined.release()
    await asyncio.sleep(5)
    seen = await view(engine, joined.room.room_id)
    equal([seen["partial"], seen["partial_join"]["servers"][owner.name]["verdict"]], [True, "unreachable"], "the room")
    owner.up()
    await owner.send()
    await until_async(lambda: full(engine, joined.room.room_id), 20, "the room is full")


@case("partial-abandoned-by-hand", timeout=60)
async def by_hand(rig: Rig) -> None:
    """The host gives the join up with a reason; late answers count for nothing."""
    engine = await rig.engine()
    owner = rig.peer(1)
    joined = await partial_join(engine, owner, [owner.user("charlie")], user_id=user(engine))
    await joined.held()
    room = joined.room.room_id
    status, body = await engine.host("POST", f"/rooms/{quote(room)}/partial_join/abandon", {"reason": "enough"})
    equal(status, 200, f"abandon ({str(body)[:100]})")
    stream = rig.collector(engine)
    item = await stream.until(lambda i: i["kind"] == "partial_join", 10, "partial_join item")
    check(item["state"] == "abandoned" and "enough" in item["reason"], f"the item is {item}")
    joined.release()
    await asyncio.sleep(1)
    check((await view(engine, room))["partial"] is False, "partial again")


@case("LeaveDuringResync_does_not_wait_for_resync", timeout=60)
async def left(rig: Rig) -> None:
    """The last of ours leaves while partial: the resync ends, its late answer is ignored."""
    engine = await rig.engine()
    owner = rig.peer(1)
    joined = await partial_join(engine, owner, [owner.user("charlie")], user_id=user(engine))
    await joined.held()
    await engine.feed({"kind": "membership", "room_id": joined.room.room_id, "user_id": user(engine),
                       "membership": "leave", "room_version": "10"})
    check((await view(engine, joined.room.room_id))["partial"] is False, "still partial")
    joined.release()
    await asyncio.sleep(1)
    check(owner.user("charlie") not in (await view(engine, joined.room.room_id))["members"], "the late answer counted")


@case("B95_servers_missing_in_the_list_get_the_update", timeout=60)
async def missing(rig: Rig) -> None:
    """A server that the join's answer left out gets what changed meanwhile at completion; one served, nothing."""
    engine = await rig.engine(delivery={"join_update_delay": "0s"})
    owner, absent = rig.peers(2)
    alice = user(engine)
    await engine.feed(device(alice, "D1"))
    joined = await partial_join(engine, owner, [absent.user("elsie")], others=[absent], user_id=alice,
                                listed=[owner.name])
    await joined.held()
    await engine.feed(device(alice, "D2"))
    await until(lambda: [c for c in owner.device_edus(alice) if c["device_id"] == "D2"], 10, "the update at the owner")
    check(not absent.device_edus(alice), "the absent server was served")
    count = len(owner.device_edus(alice))
    joined.release()
    await until(lambda: [c for c in absent.device_edus(alice) if c["device_id"] == "D2"], 15, "the missed update")
    await asyncio.sleep(1)
    equal(len(owner.device_edus(alice)), count, "updates at the owner")


@case("CanReceiveDeviceListUpdateDuringPartialStateJoin", timeout=60)
async def kept(rig: Rig) -> None:
    """An update of a member who isn't known yet: nothing is fetched; after completion exactly that user is changed."""
    engine = await rig.engine()
    owner = rig.peer(1)
    derek = owner.user("derek")
    joined = await partial_join(engine, owner, [owner.user("charlie"), derek], user_id=user(engine))
    await joined.held()
    stream = rig.collector(engine)
    await stream.settle(0.5)
    stream.forget()
    status, _ = await owner.send(edus=[{"edu_type": "m.device_list_update", "content": {
        "user_id": derek, "device_id": "D", "stream_id": 1}}])
    equal(status, 200, "our answer")
    joined.release()
    await stream.until(lambda i: i["kind"] == "partial_join", 15, "partial_join item")
    await stream.settle(0.7)
    changed = [u for i in stream.of("device_lists") for u in i["changed"] if u != user(engine)]
    equal(changed, [derek], "who changed")
    check(not owner.asked("/user/devices/"), "the list was fetched")


@case("partial-second-join-brings-candidates", timeout=60)
async def brings(rig: Rig) -> None:
    """The only server known so far is down; another user of ours joins through one that nobody had named: the partial
    join goes on with it, at once."""
    engine = await rig.engine()
    first, second = rig.peers(2)
    joined = await partial_join(engine, first, [second.user("derek")], others=[second], user_id=user(engine),
                                listed=[first.name])
    await joined.held()
    stream = rig.collector(engine)
    first.down()
    joined.release()
    await asyncio.sleep(0.5)
    equal(second.asked("/state_ids/"), [], "questions to the server that isn't known yet")
    joined.room.listed = None
    status, answer = await join(engine, joined.room.room_id, user(engine, "bob"), [second.name])
    equal(status, 200, f"bob's join ({str(answer)[:200]})")
    item = await stream.until(lambda i: i["kind"] == "partial_join", 15, "partial_join item")
    equal([item["state"], item["servers"][second.name]["verdict"]], ["complete", "ok"], "the item")


@case("partial-down-for-longer-than-the-grace", timeout=60)
async def down_long(rig: Rig) -> None:
    """Everybody refuses, and the engine is down for longer than the grace period: they are asked once more before
    anything is given up."""
    engine = await rig.engine(partial_join={"abandon_after": "4s"})
    owner = rig.peer(1)
    rule = owner.answer("/state", 403)
    await partial_join(engine, owner, [owner.user("derek")], user_id=user(engine), hold=False)
    await until(lambda: rule.hits, 5, "the refusal")
    await asyncio.sleep(0.5)
    await engine.kill9()
    owner.rules.clear()
    await asyncio.sleep(5)
    await engine.start()
    stream = rig.collector(engine)
    item = await stream.until(lambda i: i["kind"] == "partial_join", 15, "partial_join item")
    equal(item["state"], "complete", "how it ended")


@case("partial-actor-ended-many-times", timeout=60)
async def ended(rig: Rig) -> None:
    """However often its actor was ended, a partial join can be told to go on and to end."""
    engine = await rig.engine()
    owner = rig.peer(1)
    joined = await partial_join(engine, owner, [owner.user("derek")], user_id=user(engine))
    await joined.held()
    for number in range(23):
        _, body = await engine.admin("GET", "/actors")
        mine = [a["id"] for a in body["actors"] if a["kind"] == "partial_join"]
        equal(len(mine), 1, f"actors of the room after {number} ends")
        await engine.admin("POST", f"/actors/{mine[0]}/restart")

        async def another(old: int = mine[0]) -> bool:
            _, now = await engine.admin("GET", "/actors")
            return any(a["kind"] == "partial_join" and a["id"] != old for a in now["actors"])
        await until_async(another, 5, "a new actor")
    path = f"/rooms/{quote(joined.room.room_id)}/partial_join"
    equal((await engine.host("POST", path + "/retry", {}))[0], 200, "retry")
    equal((await engine.host("POST", path + "/abandon", {"reason": "enough"}))[0], 200, "abandon")
    joined.release()
