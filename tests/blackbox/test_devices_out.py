"""Our users' device lists going out: EDUs, their chain, outages, restarts (DESIGN 7; PROTOCOL 11, 12; CASES E, G)."""
from __future__ import annotations

import asyncio
from typing import Any

from rig import (HostRoom, Rig, case, check, cross_signing, device, device_gone, equal, failing, has, matrix, meet,
                 membership, quote, steady, to_device, until, until_async, user)
from rig.engine import Engine
from rig.matrix import Json
from rig.peer import Peer


def of(peer: Peer, user_id: str, device_id: str | None = None) -> list[Json]:
    return [c for c in peer.device_edus(user_id) if device_id in (None, c.get("device_id"))]


def chain(updates: list[Json]) -> list[tuple[int, list[int]]]:
    return [(c["stream_id"], c.get("prev_id", [])) for c in updates]


def chained(updates: list[Json], what: str) -> None:
    """Each names the one before it, and numbers rise (B46)."""
    for before, after in zip(updates, updates[1:]):
        equal(after.get("prev_id"), [before["stream_id"]], f"{what}: prev_id of {after['stream_id']}")
        check(after["stream_id"] > before["stream_id"], f"{what}: {after['stream_id']} after {before['stream_id']}")


async def pair(rig: Rig, **overrides: Any) -> tuple[Engine, Peer, str, HostRoom]:
    overrides.setdefault("delivery", {})["join_update_delay"] = "0s"
    engine = await rig.engine(**overrides)
    peer = rig.peer(1)
    await meet(peer)
    room = await rig.shared(engine, peer)
    return engine, peer, user(engine), room


@case("devices-update-shape")
async def shape(rig: Rig) -> None:
    """A new device reaches the servers that share a room, with keys and name (U10, U11), alone and at once (B49)."""
    engine, peer, alice, _ = await pair(rig)
    stranger = rig.peer(9)
    await engine.feed(device(alice, "D1", name="phone"))
    await until(lambda: of(peer, alice, "D1"), 5, "the update")
    got = of(peer, alice, "D1")[0]
    equal([got["device_display_name"], got["keys"], got["prev_id"]], ["phone", matrix.device_keys(alice, "D1"), []],
          "name, keys and prev_id of the first version")
    await engine.feed(to_device(alice, "m0", {stranger.user("eve"): {"*": {}}}))
    await until(lambda: stranger.edus_of("m.direct_to_device"), 5, "the to-device message to the stranger")
    check(not stranger.device_edus(), "a server without a shared room got a device update")


@case("devices-rename-delete-noop")
async def rename(rig: Rig) -> None:
    """A rename and a deletion are updates, in one chain; what changes nothing sends nothing."""
    engine, peer, alice, _ = await pair(rig)
    await engine.feed(device(alice, "D1", name="old"))
    await until(lambda: of(peer, alice, "D1"), 5, "the first update")
    await engine.feed({"kind": "device", "user_id": alice, "device_id": "D1", "display_name": "new"})
    await until(lambda: len(of(peer, alice)) == 2, 5, "the new name")
    equal(of(peer, alice)[1]["keys"], matrix.device_keys(alice, "D1"), "the keys stay")
    await engine.feed(device(alice, "D1", name="new"))
    await engine.feed(device_gone(alice, "D1"))
    await until(lambda: len(of(peer, alice)) == 3, 5, "the deletion")
    last = of(peer, alice)[2]
    equal([last.get("deleted"), "keys" in last], [True, False], "deleted, without keys")
    chained(of(peer, alice), "three changes")
    await engine.feed(device_gone(alice, "D1"))
    await steady(lambda: len(of(peer, alice)), 1.5, "updates after a change that changes nothing")


@case("B46_deletions_of_one_request_in_order")
async def deletions(rig: Rig) -> None:
    """Three devices deleted in one request: numbers rise in list order and each names the one before."""
    engine, peer, alice, _ = await pair(rig)
    await engine.feed(*(device(alice, f"D{n}") for n in range(3)))
    await until(lambda: len(of(peer, alice)) == 3, 5, "three devices")
    chained(of(peer, alice), "three additions")
    await engine.feed(*(device_gone(alice, f"D{n}") for n in range(3)))
    await until(lambda: len(of(peer, alice)) == 6, 5, "three deletions")
    chained(of(peer, alice), "all six")
    equal([c["device_id"] for c in of(peer, alice)[3:]], ["D0", "D1", "D2"], "the order")


@case("devices-restart-keeps-the-chain", timeout=60)
async def restart(rig: Rig) -> None:
    """After a kill -9 of ours an up-to-date peer gets a delta with the right prev_id: nothing to fetch."""
    engine, peer, alice, _ = await pair(rig)
    await engine.feed(device(alice, "D1"))
    await until(lambda: of(peer, alice), 5, "the first update")
    await asyncio.sleep(1.3)  # acks are gathered for a second
    await engine.restart(kill=True)
    await engine.feed(device(alice, "D2"))
    await until(lambda: of(peer, alice, "D2"), 8, "the second update")
    chained(of(peer, alice), "over the restart")


@case("devices-thousand-changes-one-edu", timeout=90)
async def coalesced(rig: Rig) -> None:
    """A device changed 1,000 times while a server is down costs that server one EDU, whose prev_id it knows (B47)."""
    engine, peer, alice, room = await pair(rig, backoff={"first": "1h"})
    await engine.feed(device(alice, "D1", "s0"))
    await until(lambda: of(peer, alice), 5, "the first update")
    await asyncio.sleep(1.3)
    peer.down()
    await engine.feed(*room.messages(alice, 1))
    await failing(engine, peer)
    await engine.feed(*(device(alice, "D1", f"s{n}") for n in range(1, 1001)))
    equal((await engine.destination(peer.name))["pending"]["device_lists"], 1, "pending.device_lists")
    peer.up()
    await meet(peer)
    await until(lambda: len(of(peer, alice)) > 1, 10, "the update after the outage")
    await steady(lambda: len(of(peer, alice)), 1.0, "updates")
    equal(len(of(peer, alice)), 2, "updates in all")
    first, last = of(peer, alice)
    equal([last["keys"], last["prev_id"]], [matrix.device_keys(alice, "D1", "s1000"), [first["stream_id"]]], "the last")
    equal(last["stream_id"] - first["stream_id"], 1000, "versions between")


@case("B55_deletions_in_an_outage", timeout=60)
async def deleted_meanwhile(rig: Rig) -> None:
    """Devices deleted, or made and deleted, while a peer is down are gone there afterwards."""
    engine, peer, alice, room = await pair(rig, backoff={"first": "1h"})
    await engine.feed(*(device(alice, f"D{n}") for n in (1, 2, 3)))
    await until(lambda: len(of(peer, alice)) == 3, 5, "three devices")
    peer.down()
    await engine.feed(*room.messages(alice, 1))
    await failing(engine, peer)
    await engine.feed(device_gone(alice, "D2"), device(alice, "D4"), device_gone(alice, "D3"), device_gone(alice, "D4"))
    peer.up()
    await meet(peer)
    await until(lambda: of(peer, alice)[-1]["device_id"] == "D4", 10, "the updates after the outage")
    known: dict[str, Json] = {}
    for update in of(peer, alice):
        if update.get("deleted"):
            known.pop(update["device_id"], None)
        else:
            known[update["device_id"]] = update
    equal(sorted(known), ["D1"], "the peer's list")
    chained(of(peer, alice), "over the outage")


@case("B83_keys_travel_first", timeout=60)
async def first(rig: Rig) -> None:
    """After an outage the update is in the first transaction, before its sender's to-device, whatever else waits."""
    engine, peer, alice, room = await pair(rig, backoff={"first": "1h"})
    peer.down()
    await engine.feed(*room.messages(alice, 120))
    await failing(engine, peer)
    await engine.feed(to_device(alice, "m1", {peer.user("bob"): {"D": {}}}), device(alice, "D2"), cross_signing(alice))
    mark = len(peer.transactions)
    peer.up()
    await meet(peer)
    await until(lambda: of(peer, alice, "D2"), 10, "the update")
    transaction = next(t for t in peer.transactions[mark:] if t.status == 200)
    kinds = [e["edu_type"] for e in transaction.edus]
    equal(kinds, ["m.device_list_update", "m.signing_key_update", "m.direct_to_device"], "EDUs of the first one")


@case("devices-to-device-takes-the-update-along", timeout=60)
async def along(rig: Rig) -> None:
    """B82: a to-device message goes at once, behind the pending update of its sender."""
    engine, peer, alice, _ = await pair(rig)
    await engine.feed(*(device(user(engine, f"u{n}"), "D") for n in range(3)))
    await engine.feed(device(alice, "D2"), to_device(alice, "m1", {peer.user("bob"): {"D": {}}}))
    await until(lambda: peer.edus_of("m.direct_to_device"), 5, "the message")
    order = [(e["edu_type"], e["content"].get("user_id")) for t in peer.transactions for e in t.edus]
    check(order.index(("m.device_list_update", alice)) < order.index(("m.direct_to_device", None)),
          f"the order is {order}")


@case("B44_more_updates_than_a_transaction_takes", timeout=60)
async def many(rig: Rig) -> None:
    """250 devices changed at once: at least three transactions, each device once, one chain."""
    engine, peer, alice, _ = await pair(rig)
    hold = peer.hold("/send/", times=1)
    await engine.feed(device(alice, "first"))
    await until(lambda: hold.arrived, 5, "a transaction under way")
    await engine.feed(*(device(alice, f"D{n}") for n in range(250)))
    hold.release()
    await until(lambda: len({c["device_id"] for c in of(peer, alice)}) == 251, 15, "all devices")
    equal(len(of(peer, alice)), 251, "updates")
    chained(of(peer, alice), "all")
    check(len([t for t in peer.transactions if t.edus]) >= 4, "fewer transactions than the cap of EDUs allows")
    check(all(len(t.edus) <= 100 for t in peer.transactions), "more than 100 EDUs in one")


@case("devices-burst-is-throttled", timeout=60)
async def throttled(rig: Rig) -> None:
    """B52: one user's updates cause so many transactions at once, then one in the interval; others aren't held back."""
    engine, peer, alice, _ = await pair(rig, delivery={"device_update_burst": 3, "device_update_interval": "3s"})
    carol = user(engine, "carol")
    await engine.feed(membership((await _room(rig, engine, peer, carol)).room_id, carol))
    for n in range(8):
        await engine.feed(device(alice, "D", f"s{n}"))
        await asyncio.sleep(0.15)
    caused = lambda: len([t for t in peer.transactions if any(e["content"].get("user_id") == alice for e in t.edus)])
    await asyncio.sleep(0.5)
    equal(caused(), 3, "transactions that alice's updates caused at once")
    await engine.feed(device(carol, "C"))
    await until(lambda: of(peer, carol), 2, "carol's update")
    await until(lambda: of(peer, alice)[-1].get("keys") == matrix.device_keys(alice, "D", "s7"), 6, "the newest keys")
    equal(caused(), 4, "transactions when one interval is over")
    chained(of(peer, alice), "what alice's peer saw")


async def _room(rig: Rig, engine: Engine, peer: Peer, who: str) -> HostRoom:
    room = HostRoom(engine, peer.user("bob"), who)
    await engine.feed(*room.roster())
    return room


@case("devices-join-sends-the-list", timeout=60)
async def joined(rig: Rig) -> None:
    """A local user who joins a room tells its servers its devices, once, after the delay; a roster tells nothing."""
    engine = await rig.engine(delivery={"join_update_delay": "1s"})
    old, new = rig.peers(2)
    alice = user(engine)
    await meet(old, new)
    await engine.feed(device(alice, "D1"), device(alice, "D2"), device_gone(alice, "D1"), device(alice, "D3"))
    room = HostRoom(engine, new.user("bob"))
    await engine.feed(*room.roster())
    await engine.feed(membership(room.room_id, alice))
    await steady(lambda: len(new.device_edus()), 0.6, "updates before the delay is over")
    await until(lambda: len(of(new, alice)) == 2, 5, "the devices")
    equal([c["device_id"] for c in of(new, alice)], ["D2", "D3"], "the devices, without the deleted one")
    _, full = await new.user_devices(alice)
    equal(of(new, alice)[-1]["stream_id"], full["stream_id"], "the last number is that of GET /user/devices")
    await engine.feed(device(alice, "D4"))
    await until(lambda: of(new, alice, "D4"), 5, "a later change")
    chained(of(new, alice), "share and change")
    again = HostRoom(engine, new.user("bob"))
    await engine.feed(*again.roster(), membership(again.room_id, alice))
    await steady(lambda: len(of(new, alice)), 2.0, "updates after joining another room with the same server")
    loaded = {"kind": "roster", "room_id": f"!loaded:{engine.name}", "room_version": "10",
              "members": {alice: "join", old.user("x"): "join"}}
    await engine.feed(loaded)
    await steady(lambda: len(old.device_edus()), 2.0, "updates after a roster")


@case("devices-over-fifty-one-update", timeout=60)
async def over_fifty(rig: Rig) -> None:
    """Above 50 devices a join sends one update whose prev_id the peer can't know, so that it fetches."""
    engine, peer, alice, _ = await pair(rig)
    dora = user(engine, "dora")
    await engine.feed(*(device(dora, f"D{n}") for n in range(60)))
    room = HostRoom(engine, peer.user("bob"))
    await engine.feed(*room.roster(), membership(room.room_id, dora))
    await until(lambda: of(peer, dora), 5, "an update")
    await steady(lambda: len(of(peer, dora)), 1.5, "updates")
    equal(len(of(peer, dora)), 1, "updates")
    check(of(peer, dora)[0]["prev_id"] != [], "prev_id is empty: the peer would take it for the first ever")
    status, full = await peer.user_devices(dora)
    equal(status, 200, f"our answer to GET /user/devices ({str(full)[:100]})")
    equal([len(full["devices"]), full["stream_id"]], [60, of(peer, dora)[0]["stream_id"]], "what the peer fetches")


@case("devices-signing-keys")
async def signing(rig: Rig) -> None:
    """Cross-signing keys go as m.signing_key_update, never the user-signing key; changed by that one alone: nothing."""
    engine, peer, alice, _ = await pair(rig)
    await engine.feed(cross_signing(alice))
    await until(lambda: peer.edus_of("m.signing_key_update"), 5, "the update")
    got = peer.edus_of("m.signing_key_update")[0]
    keys = matrix.cross_signing_keys(alice)
    equal([got["master_key"], got["self_signing_key"], sorted(got)],
          [keys["master_key"], keys["self_signing_key"], ["master_key", "self_signing_key", "user_id"]], "the update")
    other = matrix.cross_signing_keys(alice, "other")["user_signing_key"]
    await engine.feed({"kind": "cross_signing", "user_id": alice, "user_signing_key": other})
    await steady(lambda: len(peer.edus_of("m.signing_key_update")), 1.5, "updates")


@case("devices-names-kept-to-ourselves")
async def nameless(rig: Rig) -> None:
    """With display_names = false neither EDUs nor fetches tell a name, and a rename sends nothing."""
    engine, peer, alice, _ = await pair(rig, federation={"display_names": False})
    await engine.feed(device(alice, "D1", name="secret"))
    await until(lambda: of(peer, alice), 5, "the update")
    await engine.feed(device(alice, "D1", name="more secret"))
    await steady(lambda: len(of(peer, alice)), 1.5, "updates after a rename")
    _, full = await peer.user_devices(alice)
    _, query = await peer.keys_query({alice: []})
    check("secret" not in matrix.dumps([of(peer, alice), full, query]), "a name was told")


@case("devices-of-whom-a-roster-names")
async def named_by_roster(rig: Rig) -> None:
    """/user/devices of a local user whom a roster names without devices: 200 and none, joined or not; of others 404."""
    engine, peer, alice, _ = await pair(rig)
    members = {user(engine, m): m for m in ("join", "invite", "ban")}
    await engine.feed({"kind": "roster", "room_id": "!named:x", "room_version": "10", "members": members})
    for leaves in (False, True):
        if leaves:
            left = {who: "leave" for who in members}
            await engine.feed({"kind": "roster", "room_id": "!named:x", "room_version": "10", "members": left})
        for who in members:
            status, body = await peer.user_devices(who)
            equal([status, body.get("devices")], [200, []], f"the answer about {who}, who left: {leaves}")
    equal((await peer.user_devices(user(engine, "nobody")))[0], 404, "the answer about nobody")


@case("devices-initial-load-sends-nothing")
async def initial(rig: Rig) -> None:
    """`initial: true` loads a device without an update; the next change's prev_id covers it."""
    engine, peer, alice, _ = await pair(rig)
    await engine.feed(device(alice, "D1", initial=True))
    await steady(lambda: len(of(peer, alice)), 1.5, "updates")
    equal(len(of(peer, alice)), 0, "updates")
    status, full = await peer.user_devices(alice)
    equal([status, [d["device_id"] for d in full["devices"]]], [200, ["D1"]], "what the peer fetches")
    await engine.feed(device(alice, "D2"))
    await until(lambda: of(peer, alice), 5, "the update")
    check(of(peer, alice)[0]["stream_id"] > full["stream_id"], "its number doesn't grow")


@case("B56_signature_while_an_update_is_under_way", timeout=60)
async def signature(rig: Rig) -> None:
    """A change of a device while its update is under way leads to a further update."""
    engine, peer, alice, _ = await pair(rig)
    for n in range(5):
        hold = peer.hold("/send/", times=1)
        await engine.feed(device(alice, f"D{n}"))
        await until(lambda: hold.arrived, 5, "the update under way")
        await engine.feed(device(alice, f"D{n}", "signed"))
        hold.release()
        await until(lambda: of(peer, alice, f"D{n}")[-1:] and
                    of(peer, alice, f"D{n}")[-1]["keys"] == matrix.device_keys(alice, f"D{n}", "signed"), 8,
                    "the signed keys")
    chained(of(peer, alice), "all")


@case("B80_lone_device_update_over_restart", timeout=60)
async def lone(rig: Rig) -> None:
    """A lone device update and a lone signing key for a dead server arrive after our restart, with no other traffic."""
    engine, peer, alice, _ = await pair(rig, backoff={"first": "1s", "max": "2s"})
    peer.down()
    await engine.feed(device(alice, "D1"), cross_signing(alice))
    await failing(engine, peer)
    await engine.kill9()
    peer.up()
    await engine.start()
    await until(lambda: of(peer, alice, "D1") and peer.edus_of("m.signing_key_update"), 10, "both updates")


@case("B88_exactly_full_of_device_updates", timeout=90)
async def full(rig: Rig) -> None:
    """99, 100 and 101 device updates with five to-device messages: no error, to-device by the second transaction."""
    engine, peer, alice, _ = await pair(rig)
    for round_, count in enumerate((99, 100, 101)):
        hold = peer.hold("/send/", times=1)
        await engine.feed(device(alice, f"start{round_}"))
        await until(lambda: hold.arrived, 5, "a transaction under way")
        mark = len(peer.transactions)
        await engine.feed(*(device(alice, f"r{round_}d{n}") for n in range(count)),
                          *(to_device(alice, f"r{round_}m{n}", {peer.user("bob"): {"D": {}}}) for n in range(5)))
        hold.release()
        wanted = {f"r{round_}m{n}" for n in range(5)}
        await until(lambda: wanted <= {m["message_id"] for m in peer.edus_of("m.direct_to_device")} and
                    len([c for c in of(peer, alice) if c["device_id"].startswith(f"r{round_}d")]) == count, 15,
                    f"{count} updates and five messages")
        after = [t for t in peer.transactions[mark:] if t.edus and t.status == 200][:3]
        early = {e["content"].get("message_id") for t in after for e in t.edus}
        check(wanted <= early, f"with {count} updates to-device came later than the second transaction after the first")
    chained(of(peer, alice), "all")


@case("devices-cost-of-a-poke", timeout=60)
async def cost(rig: Rig) -> None:
    """A server that shares nothing more with the user is owed none of its changes any more."""
    engine, peer, alice, room = await pair(rig)
    await engine.feed(device(alice, "D1"))
    await until(lambda: of(peer, alice), 5, "the first update")
    await engine.feed(membership(room.room_id, alice, "leave"), device(alice, "D2"))
    await steady(lambda: len(of(peer, alice)), 1.5, "updates after the last shared room")
    equal((await engine.destination(peer.name))["pending"]["device_lists"], 0, "pending.device_lists")


@case("B82_a_delayed_update_goes_with_the_message", timeout=60)
async def delayed(rig: Rig) -> None:
    """B82: neither the delay after a join nor a spent burst holds back the update of whoever sends a to-device message:
    it goes before the message, at once."""
    engine = await rig.engine(delivery={"join_update_delay": "20s"})
    peer = rig.peer(1)
    await meet(peer)
    alice = user(engine)
    await engine.feed(device(alice, "D1"))
    room = HostRoom(engine, peer.user("bob"))
    await engine.feed(*room.roster(), membership(room.room_id, alice))
    await asyncio.sleep(0.5)
    equal(of(peer, alice), [], "updates before their delay is over")
    await engine.feed(to_device(alice, "m1", {peer.user("bob"): {"D": {}}}))
    await until(lambda: peer.edus_of("m.direct_to_device"), 3, "the message")
    for n in range(30):
        await engine.feed(device(alice, f"E{n}"))
        await asyncio.sleep(0.05)
    await engine.feed(to_device(alice, "m2", {peer.user("bob"): {"D": {}}}))
    await until(lambda: len(peer.edus_of("m.direct_to_device")) == 2, 3, "the second message")
    order = [(e["edu_type"], e["content"].get("device_id") or e["content"].get("message_id"))
             for t in peer.transactions for e in t.edus]
    check(order.index(("m.device_list_update", "D1")) < order.index(("m.direct_to_device", "m1")), f"{order}")
    check(order.index(("m.device_list_update", "E29")) < order.index(("m.direct_to_device", "m2")), f"{order}")


@case("devices-unsigned-names-stay-here", timeout=60)
async def unsigned_names(rig: Rig) -> None:
    """What the host feeds in the keys' `unsigned` leaves by no way, neither where names are hidden nor where the true
    one is told."""
    for shown in (False, True):
        engine = await rig.engine(federation={"display_names": shown})
        peer = rig.peer(1 if shown else 2)
        await rig.shared(engine, peer)
        alice = user(engine)
        record = device(alice, "D1", name="true")
        record["keys"]["unsigned"] = {"device_display_name": "secret"}
        await engine.feed(record)
        await until(lambda: of(peer, alice, "D1"), 5, "the update")
        listed = (await peer.request("GET", f"/_matrix/federation/v1/user/devices/{quote(alice)}"))[1]
        asked = (await peer.request("POST", "/_matrix/federation/v1/user/keys/query", {"device_keys": {alice: []}}))[1]
        for what, said in (("the update", of(peer, alice, "D1")), ("the list", listed), ("the answer", asked)):
            text = matrix.dumps(said)
            check("secret" not in text and ("true" in text) >= shown, f"names shown: {shown}; {what} is {text[:300]}")
            check(shown or '"device_display_name"' not in text, f"{what} names the device: {text[:300]}")
