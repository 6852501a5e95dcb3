"""Who gets an event: rosters, explicit destinations, kicks and leaves, EDUs (DESIGN 4, spans; API 3.1)."""
from __future__ import annotations

import asyncio

from rig import (HostRoom, Rig, case, check, edu, equal, has, membership, pdu, receipt, roster, steady, to_device,
                 typing, until, user)
from rig import matrix


@case("recipients-explicit-destinations")
async def explicit(rig: Rig) -> None:
    """`destinations` replace the room's servers; a room without a roster may have them."""
    engine = await rig.engine()
    one, two, three = rig.peers(3)
    room = await rig.shared(engine, one, two)
    record = pdu(room.event(user(engine)), destinations=[two.name, three.name])
    strange = HostRoom(engine, user(engine))
    other = pdu(strange.event(user(engine)), destinations=[three.name])
    await engine.feed(record, other)
    await has(two, [record], 5)
    await has(three, [record, other], 5)
    await steady(lambda: len(one.pdus), 1, "PDUs at a server that is not named")


@case("recipients-exclude")
async def exclude(rig: Rig) -> None:
    """`exclude` leaves a server of the room out, for this event only."""
    engine = await rig.engine()
    one, two = rig.peers(2)
    room = await rig.shared(engine, one, two)
    first = pdu(room.event(user(engine)), exclude=[one.name])
    second = pdu(room.event(user(engine)))
    await engine.feed(first, second)
    await has(two, [first, second], 5)
    await has(one, [second], 5)
    check(not one.has(first["event_id"]), "the excluded server got it")


@case("recipients-unknown-room")
async def unknown_room(rig: Rig) -> None:
    """A PDU for a room without a roster and without destinations: rejected, M_RANVIER_UNKNOWN_ROOM."""
    engine = await rig.engine()
    room = HostRoom(engine, user(engine))
    status, body = await engine.feed_lines([matrix.dumps(pdu(room.event(user(engine))))])
    equal([status, body["accepted"]], [200, 0], "status and accepted")
    equal([(r["line"], r["errcode"]) for r in body["rejected"]], [(1, "M_RANVIER_UNKNOWN_ROOM")], "rejected")


@case("recipients-never-ourselves")
async def ourselves(rig: Rig) -> None:
    """Our own server is no destination, also if named."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    record = pdu(room.event(user(engine)), destinations=[engine.name, peer.name])
    await engine.feed(record)
    await has(peer, [record], 5)
    status, body = await engine.admin("GET", "/destinations")
    equal([status, [d["destination"] for d in body["destinations"]]], [200, [peer.name]], "the destinations")


def kick(room: HostRoom, engine, target: str) -> dict:
    return pdu(room.event(user(engine), "m.room.member", {"membership": "leave"}, state_key=target))


@case("recipients-kicked-server-gets-its-kick")
async def kicked(rig: Rig) -> None:
    """The kicked user's server gets the kick whichever line comes first, and nothing after it."""
    engine = await rig.engine()
    for number, membership_first in ((1, True), (2, False)):
        peer = rig.peer(number)
        stays = rig.peer(number + 10)
        room = await rig.shared(engine, peer, stays)
        event = kick(room, engine, peer.user("bob"))
        line = membership(room.room_id, peer.user("bob"), "leave")
        line["event_id"] = event["event_id"]
        after = room.messages(user(engine), 1)
        await engine.feed(*([line, event] if membership_first else [event, line]), *after)
        await has(peer, [event], 5)
        await has(stays, [event, *after], 5)
        await asyncio.sleep(0.5)
        equal(peer.event_ids(), [event["event_id"]], "what the kicked server got")


@case("recipients-kick-then-many-events")
async def kick_then_many(rig: Rig) -> None:
    """A server that is down when its last user is kicked gets the kick later, however much was said since."""
    engine = await rig.engine(backoff={"first": "1s", "max": "1s"})
    peer, stays = rig.peers(2)
    room = await rig.shared(engine, peer, stays)
    peer.down()
    event = kick(room, engine, peer.user("bob"))
    await engine.feed(event, membership(room.room_id, peer.user("bob"), "leave"))
    for _ in range(4):
        await engine.feed(*room.messages(user(engine), 40))
    peer.up()
    await has(peer, [event], 10)
    await asyncio.sleep(0.5)
    equal(peer.event_ids(), [event["event_id"]], "what it got")


@case("recipients-rescinded-invite")
async def rescinded(rig: Rig) -> None:
    """The server of a merely invited user gets the event that takes the invite back."""
    engine = await rig.engine()
    one, two = rig.peers(2)
    room = await rig.shared(engine, one)
    event = kick(room, engine, two.user("eve"))
    await engine.feed(membership(room.room_id, two.user("eve"), "invite"))
    await engine.feed(*room.messages(user(engine), 1))
    await engine.feed(membership(room.room_id, two.user("eve"), "leave"), event)
    await has(two, [event], 5)
    equal(two.event_ids(), [event["event_id"]], "what the invited server got")


@case("recipients-our-leave")
async def our_leave(rig: Rig) -> None:
    """The servers of a room that our last user leaves get our leave, and nothing after."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    event = pdu(room.event(user(engine), "m.room.member", {"membership": "leave"}, state_key=user(engine)))
    await engine.feed(membership(room.room_id, user(engine), "leave"), event)
    await has(peer, [event], 5)


@case("recipients-left-and-came-back")
async def back(rig: Rig) -> None:
    """A server that leaves and comes back gets what was said before and after, not between."""
    engine = await rig.engine()
    peer, stays = rig.peers(2)
    room = await rig.shared(engine, peer, stays)
    before, between, after = (room.messages(user(engine), 2) for _ in range(3))
    bob = peer.user("bob")
    await engine.feed(*before, membership(room.room_id, bob, "leave"), *between, membership(room.room_id, bob),
                      *after)
    await has(stays, before + between + after, 5)
    await has(peer, before + after, 5)
    await asyncio.sleep(0.5)
    check(not set(peer.event_ids()) & {r["event_id"] for r in between}, "it got what was said in its absence")


@case("recipients-two-users-of-a-server")
async def two_users(rig: Rig) -> None:
    """A server with two members gets an event once, and goes on getting them when one of the two leaves."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = HostRoom(engine, peer.user("bob"), peer.user("eve"), user(engine))
    await engine.feed(*room.roster())
    first = room.messages(user(engine), 1)
    second = room.messages(user(engine), 1)
    await engine.feed(*first, membership(room.room_id, peer.user("bob"), "leave"), *second)
    await has(peer, first + second, 5)
    equal(len(peer.pdus), 2, "PDUs")


@case("recipients-roster-replaces")
async def roster_replaces(rig: Rig) -> None:
    """A `roster` record is the whole room: who is missing has left, who is new is served from now on."""
    engine = await rig.engine()
    one, two, three = rig.peers(3)
    room = await rig.shared(engine, one, two)
    before = room.messages(user(engine), 1)
    await engine.feed(*before)
    await has(one, before, 5)
    await engine.feed(roster(room.room_id, user(engine), two.user("bob"), three.user("bob")))
    after = room.messages(user(engine), 1)
    await engine.feed(*after)
    await has(two, before + after, 5)
    await has(three, after, 5)
    await asyncio.sleep(0.5)
    check(not one.has(after[0]["event_id"]), "a server that is missing in the roster was served")
    check(not three.has(before[0]["event_id"]), "a new server got what was before it")


@case("recipients-invited-are-not-served")
async def invited(rig: Rig) -> None:
    """Invite, knock and ban are no join: nothing of the room goes there."""
    engine = await rig.engine()
    joined, *others = rig.peers(4)
    room = await rig.shared(engine, joined)
    await engine.feed(*(membership(room.room_id, p.user("bob"), m)
                        for p, m in zip(others, ("invite", "knock", "ban"))))
    records = room.messages(user(engine), 2)
    await engine.feed(*records)
    await has(joined, records, 5)
    await asyncio.sleep(0.5)
    equal([len(p.pdus) for p in others], [0, 0, 0], "PDUs at servers without a joined user")


@case("recipients-to-device")
async def to_device_split(rig: Rig) -> None:
    """To-device messages are split by server; the id goes out unchanged (U7)."""
    engine = await rig.engine()
    one, two = rig.peers(2)
    await engine.feed(to_device(user(engine), "id1", {one.user("bob"): {"D1": {"x": 1}},
                                                      two.user("eve"): {"*": {"y": 2}}}))
    for peer, messages in ((one, {one.user("bob"): {"D1": {"x": 1}}}), (two, {two.user("eve"): {"*": {"y": 2}}})):
        await until(lambda: peer.edus_of("m.direct_to_device"), 5, "delivery")
        equal(peer.edus_of("m.direct_to_device"),
              [{"sender": user(engine), "type": "m.room_key_request", "message_id": "id1", "messages": messages}],
              "the EDU")


@case("B85_big_to_device_is_split")
async def big_to_device(rig: Rig) -> None:
    """150 devices of 2 kB: EDUs of at most 64 KiB with own ids, each device once; one device of 70 kB: rejected."""
    engine = await rig.engine()
    peer = rig.peer(1)
    bob = peer.user("bob")
    await engine.feed(to_device(user(engine), "big", {bob: {f"D{n}": {"x": "y" * 2000} for n in range(150)}}))

    def devices() -> list[str]:
        return [d for e in peer.edus_of("m.direct_to_device") for d in e["messages"][bob]]
    await until(lambda: len(devices()) >= 150, 8, "150 devices")
    equal(sorted(devices()), sorted(f"D{n}" for n in range(150)), "the devices, each once")
    edus = peer.edus_of("m.direct_to_device")
    check(len(edus) >= 5, f"only {len(edus)} EDUs")
    sizes = [len(matrix.canonical({"edu_type": "m.direct_to_device", "content": e})) for e in edus]
    check(max(sizes) <= 65536, f"an EDU has {max(sizes)} bytes")
    ids = [e["message_id"] for e in edus]
    check(len(set(ids)) == len(ids) and "big" in ids and all(len(i) <= 32 for i in ids), f"the ids are {ids}")
    status, body = await engine.feed_lines([matrix.dumps(to_device(user(engine), "huge", {
        bob: {"D": {"x": "y" * 70_000}, "E": {}}}))])
    equal([status, body["accepted"], len(body["rejected"])], [200, 0, 1], "a message of 70 kB")
    await steady(lambda: len(devices()), 1, "devices after the rejected message")


@case("recipients-edus")
async def edus(rig: Rig) -> None:
    """Typing and receipts by room, presence by user: to the servers that share the room, and no others."""
    engine = await rig.engine()
    one, two, three = rig.peers(3)
    room = await rig.shared(engine, one, two)
    other = await rig.shared(engine, three, local="carol")
    alice = user(engine)
    presence = edu("m.presence", {"push": [{"user_id": alice, "presence": "online", "last_active_ago": 5}]},
                   user_id=alice)
    named = edu("org.example.odd", {"n": 1}, destinations=[three.name])
    await engine.feed(typing(room.room_id, alice), receipt(room.room_id, alice, "$e:x"), presence, named)
    for peer in (one, two):
        for kind in ("m.typing", "m.receipt", "m.presence"):
            await until(lambda: peer.edus_of(kind), 5, kind)
        equal(peer.edus_of("m.typing"), [{"room_id": room.room_id, "user_id": alice, "typing": True}], "typing")
        equal(peer.edus_of("m.presence")[0]["push"][0]["user_id"], alice, "presence")
    await until(lambda: three.edus_of("org.example.odd"), 5, "the EDU with a destination")
    equal([e["edu_type"] for _, e in three.edus], ["org.example.odd"], "EDUs at the server of another room")
    check(other.room_id != room.room_id, "rooms")


@case("recipients-edus-refused-by-type")
async def edus_refused(rig: Rig) -> None:
    """EDUs that have a record kind of their own, and private receipts, are refused as `edu` (U3)."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    alice = user(engine)
    lines = [edu("m.device_list_update", {"user_id": alice}, room_id=room.room_id),
             edu("m.signing_key_update", {"user_id": alice}, room_id=room.room_id),
             edu("m.direct_to_device", {"sender": alice}, destinations=[peer.name]),
             edu("m.receipt", {room.room_id: {"m.read.private": {alice: {"event_ids": ["$e"], "data": {"ts": 1}}}}},
                 room_id=room.room_id)]
    status, body = await engine.feed_lines([matrix.dumps(line) for line in lines])
    equal([status, body["accepted"], [r["line"] for r in body["rejected"]]], [200, 0, [1, 2, 3, 4]], "the answer")
    await steady(lambda: len(peer.edus), 1, "EDUs")


@case("B40_typing_is_merged", timeout=60)
async def typing_merged(rig: Rig) -> None:
    """While a transaction is under way, a user's typing changes become one, the newest; messages are not delayed."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    hold = peer.hold("/send/", times=1)
    await engine.feed(typing(room.room_id, user(engine), True))
    await until(lambda: hold.arrived, 5, "the first transaction")
    for n in range(30):
        await engine.feed(typing(room.room_id, user(engine), n % 2 == 0))
    record = room.messages(user(engine), 1)
    await engine.feed(*record)
    hold.release()
    await has(peer, record, 5)
    await asyncio.sleep(0.5)
    states = [e["typing"] for e in peer.edus_of("m.typing")]
    equal(states, [True, False], "the typing states that arrived")
    check(len(peer.transactions) <= 3, f"{len(peer.transactions)} transactions")


@case("recipients-ephemeral-not-to-a-failing-server")
async def ephemeral(rig: Rig) -> None:
    """Typing for a server that is failing makes no attempt, is not stored, and does not survive a restart (B37)."""
    engine = await rig.engine(backoff={"first": "1h"})
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    peer.down()
    await engine.feed(*room.messages(user(engine), 1))
    await until(peer.contacts, 5, "the first attempt")
    await asyncio.sleep(0.3)
    count = peer.contacts()
    for n in range(50):
        await engine.feed(typing(room.room_id, user(engine), n % 2 == 0))
    equal(peer.contacts(), count, "contacts for typing")
    await engine.restart(kill=True)
    d = await engine.destination(peer.name)
    equal([d["pending"]["pdus"], d["pending"]["ephemeral"]], [1, 0], "what waits after a restart")
