"""EDUs that others send us, routed to the host: whose they may be, what is dropped, what counts as one (PROTOCOL U)."""
from __future__ import annotations

import asyncio

from rig import HostRoom, Rig, case, check, equal, user
from test_inbound import event, message, pair, typing_edu


def receipt_content(room: HostRoom, who: str, event_ids: object = None) -> dict:
    return {room.room_id: {"m.read": {who: {"event_ids": ["$e"] if event_ids is None else event_ids,
                                            "data": {"ts": 1436451550453}}}}}


@case("edus-typing-receipt-presence")
async def kinds(rig: Rig) -> None:
    """Typing, receipts, presence and unknown types reach the stream with origin, type and content."""
    engine, peer, room, stream = await pair(rig)
    bob = peer.user("bob")
    edus = [typing_edu(room, bob), {"edu_type": "m.receipt", "content": receipt_content(room, bob)},
            {"edu_type": "m.presence", "content": {"push": [
                {"user_id": bob, "presence": "online", "last_active_ago": 1, "status_msg": "x"}]}},
            {"edu_type": "org.example.odd", "content": {"n": 1}}]
    equal((await peer.send([], edus))[0], 200, "the status")
    for sent in edus:
        item = await stream.until(lambda i: i["kind"] == "edu" and i["edu_type"] == sent["edu_type"], 5,
                                  sent["edu_type"])
        equal([item["origin"], item["content"]], [peer.name, sent["content"]], "the item")


@case("edus-of-foreign-users-are-dropped")
async def foreign(rig: Rig) -> None:
    """EDUs in the name of another server's user are dropped; what the same EDU says of its own users stays (U4)."""
    engine, peer, room, stream = await pair(rig)
    bob, eve = peer.user("bob"), rig.peer(2).user("eve")
    both = receipt_content(room, bob)
    both[room.room_id]["m.read"][eve] = {"event_ids": ["$e"], "data": {"ts": 1}}
    edus = [typing_edu(room, eve), typing_edu(room, user(engine)), message(eve, user(engine), "m1"),
            {"edu_type": "m.receipt", "content": both},
            {"edu_type": "m.presence", "content": {"push": [
                {"user_id": eve, "presence": "online", "last_active_ago": 1},
                {"user_id": bob, "presence": "offline", "last_active_ago": 1}]}}]
    equal((await peer.send([event(peer, room)], edus))[0], 200, "the status")
    await stream.until(lambda i: i["kind"] == "pdu", 5, "pdu")
    await stream.settle(0.7)
    equal(stream.of("to_device"), [], "to-device messages")
    content = {i["edu_type"]: i["content"] for i in stream.of("edu")}
    check("m.typing" not in content, "typing of a foreign user was passed on")
    if "m.receipt" in content:
        equal(content["m.receipt"], receipt_content(room, bob), "the receipts that are left")
    if "m.presence" in content:
        equal([p["user_id"] for p in content["m.presence"]["push"]], [bob], "the presence that is left")


@case("B100_odd_receipts")
async def odd_receipts(rig: Rig) -> None:
    """Receipts of a wrong shape are dropped without a crash or a flood of log lines; a valid one passes."""
    engine, peer, room, stream = await pair(rig)
    bob = peer.user("bob")
    odd = [{room.room_id: "oops"}, {room.room_id: {"m.read": []}}, {room.room_id: {"m.read": {bob: "x"}}},
           {room.room_id: {"m.read": {bob: {"event_ids": "x"}}}}, [], "x", None, 7, {"": {}}, {room.room_id: {}},
           receipt_content(room, bob, []), receipt_content(room, bob, [1])]
    lines = len(engine.log_file.read_text().splitlines())
    for _ in range(8):
        equal((await peer.send([], [{"edu_type": "m.receipt", "content": c} for c in odd]))[0], 200, "the status")
    good = receipt_content(room, bob)
    equal((await peer.send([], [{"edu_type": "m.receipt", "content": good}]))[0], 200, "the status")
    await stream.until(lambda i: i["kind"] == "edu" and i["content"] == good, 5, "the valid receipt")
    equal([i["content"] for i in stream.of("edu")], [good], "what was passed on")
    grown = len(engine.log_file.read_text().splitlines()) - lines
    check(grown <= 12, f"{grown} log lines for 96 bad receipts")


@case("edus-malformed")
async def malformed(rig: Rig) -> None:
    """One malformed EDU doesn't fail the rest; extra keys of an EDU are no fault (I8)."""
    engine, peer, room, stream = await pair(rig)
    good = {**typing_edu(room, peer.user("bob")), "origin": peer.name, "destination": engine.name}
    bad = [7, "x", [], {}, {"edu_type": 7, "content": {}}, {"edu_type": "m.typing"},
           {"edu_type": "m.typing", "content": []}, {"edu_type": "m.typing", "content": {"room_id": 1}},
           {"edu_type": "m.direct_to_device", "content": {"sender": 1}},
           {"edu_type": "m.direct_to_device", "content": {"sender": peer.user("bob"), "type": "t", "message_id": "i",
                                                          "messages": {user(engine): "x"}}},
           {"edu_type": "m.presence", "content": {"push": {}}}]
    equal((await peer.send([], [*bad, good]))[0], 200, "the status")
    await stream.until(lambda i: i["kind"] == "edu" and i["content"] == good["content"], 5, "the good one")
    await stream.settle(0.5)
    equal([i["kind"] for i in stream.items if i["kind"] != "device_lists"], ["edu"], "items")


@case("edus-to-device")
async def to_device(rig: Rig) -> None:
    """To-device messages come with sender, type, id and messages of local users only; `*` as it is (U8, U9)."""
    engine, peer, room, stream = await pair(rig)
    alice, carol, eve = user(engine), user(engine, "carol"), rig.peer(2).user("eve")
    sent = message(peer.user("bob"), alice, "m1", {"x": 1})
    sent["content"]["messages"].update({carol: {"D1": {"y": 2}}, eve: {"D1": {"z": 3}}})
    equal((await peer.send([], [sent]))[0], 200, "the status")
    item = await stream.until(lambda i: i["kind"] == "to_device", 5, "to_device")
    equal([item["origin"], item["sender"], item["type"], item["message_id"], item["messages"]],
          [peer.name, peer.user("bob"), "m.test", "m1", {alice: {"*": {"x": 1}}, carol: {"D1": {"y": 2}}}], "the item")
    equal((await peer.send([], [message(peer.user("bob"), eve, "m2")]))[0], 200, "one for nobody here")
    await stream.settle(0.5)
    equal(len(stream.of("to_device")), 1, "items")


@case("edus-to-device-is-deduplicated", timeout=60)
async def deduplicated(rig: Rig) -> None:
    """A message id that comes again in other transactions, also after kill -9, is one item; another sender's is not."""
    engine, peer, room, stream = await pair(rig)
    bob, eve = peer.user("bob"), peer.user("eve")
    await peer.send([], [message(bob, user(engine), "m1", {"n": 1}), message(bob, user(engine), "m1", {"n": 1})])
    await peer.send([], [message(bob, user(engine), "m1", {"n": 1})])
    await stream.until(lambda i: i["kind"] == "to_device", 5, "to_device")
    await engine.restart(kill=True)
    await peer.send([], [message(bob, user(engine), "m1", {"n": 1})])
    await peer.send([], [message(eve, user(engine), "m1", {"n": 2}), message(bob, user(engine), "m2", {"n": 3})])
    await stream.until(lambda i: i["kind"] == "to_device" and i["message_id"] == "m2", 5, "the later message")
    await stream.settle(0.5)
    equal([(i["sender"], i["message_id"]) for i in stream.of("to_device")], [(bob, "m1"), (eve, "m1"), (bob, "m2")],
          "the messages")


@case("edus-to-device-order")
async def order(rig: Rig) -> None:
    """To-device messages come out in the order of arrival, within and over transactions."""
    engine, peer, room, stream = await pair(rig)
    wanted = []
    for n in range(6):
        ids = [f"m{n}.{k}" for k in range(15)]
        wanted += ids
        equal((await peer.send([], [message(peer.user("bob"), user(engine), i) for i in ids]))[0], 200, "the status")
    await stream.until(lambda i: i["kind"] == "to_device" and i["message_id"] == wanted[-1], 5, "the last")
    equal([i["message_id"] for i in stream.of("to_device")], wanted, "the order")


@case("edus-survive-kill", timeout=60)
async def survive(rig: Rig) -> None:
    """What was answered 200 is in the stream after a kill -9 in the same instant (events and to-device)."""
    engine, peer, room, stream = await pair(rig)
    sent = []
    for n in range(5):
        sent.append(event(peer, room, n))
        status, _ = await peer.send([sent[-1]], [message(peer.user("bob"), user(engine), f"m{n}")])
        equal(status, 200, "the status")
        await engine.kill9()
        await engine.start()
    await stream.until(lambda i: i["kind"] == "to_device" and i["message_id"] == "m4", 5, "the last message")
    await stream.settle(0.5)
    equal([i["event"] for i in stream.of("pdu")], sent, "the events")
    equal([i["message_id"] for i in stream.of("to_device")], [f"m{n}" for n in range(5)], "the messages")


@case("edus-acl", timeout=60)
async def acl(rig: Rig) -> None:
    """A room's server ACL: a denied server's PDU gets an error, its typing is dropped; other rooms pass (I4-I6)."""
    engine, peer, room, stream = await pair(rig)
    other = await rig.shared(engine, peer)
    await engine.feed({"kind": "server_acl", "room_id": room.room_id, "content": {
        "allow": ["*"], "deny": [peer.ip], "allow_ip_literals": True}})
    denied, fine = event(peer, room), event(peer, other)
    status, body = await peer.send([denied, fine], [typing_edu(room, peer.user("bob")),
                                                    typing_edu(other, peer.user("bob"))])
    equal(status, 200, "the status")
    await stream.until(lambda i: i["kind"] == "edu", 5, "an EDU")
    await stream.settle(0.5)
    equal([i["event"] for i in stream.of("pdu")], [fine], "the events that pass")
    equal([i["content"]["room_id"] for i in stream.of("edu")], [other.room_id], "the rooms of typing")
    check(sum(bool(r.get("error")) for r in body["pdus"].values()) == 1, f"the answer is {body}")
    await asyncio.sleep(0)
