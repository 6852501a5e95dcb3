"""A few tests of everything, for `bin/test --quick`: start, send, outage, kill, hear, look."""
from __future__ import annotations

from rig import Rig, case, equal, failing, has, ids_of, user
from test_inbound import event, message, pair


@case("smoke-outage-and-kill", timeout=60)
async def outage(rig: Rig) -> None:
    """A dead server's events wait over a kill -9 and arrive in order when it is back."""
    engine = await rig.engine(backoff={"first": "500ms", "max": "1s"})
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    peer.down()
    records = room.messages(user(engine), 10)
    await engine.feed(*records)
    await failing(engine, peer)
    await engine.restart(kill=True)
    more = room.messages(user(engine), 10)
    await engine.feed(*more)
    peer.up()
    await has(peer, records + more, 10)
    equal(list(dict.fromkeys(peer.event_ids())), ids_of(records + more), "the order")


@case("smoke-hear")
async def hear(rig: Rig) -> None:
    """What a server sends us comes out of the stream once."""
    engine, peer, room, stream = await pair(rig)
    sent, word = event(peer, room), message(peer.user("bob"), user(engine), "m1")
    for _ in range(2):
        status, _ = await peer.send([sent], [word], txn_id="t", origin_server_ts=1)
        equal(status, 200, "the status")
    await stream.until(lambda i: i["kind"] == "to_device", 5, "to_device")
    await stream.settle(0.5)
    equal(sorted(i["kind"] for i in stream.items if i["kind"] != "device_lists"), ["pdu", "to_device"], "the items")
