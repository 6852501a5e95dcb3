"""Cases of Complement and SyTest about device lists and keys that have no better place, named after them."""
from __future__ import annotations

from rig import Rig, case, check, device, device_gone, equal, matrix, membership, user
from rig.lists import Scene, scene
from test_keys_claim import ALG, host_claims, keys, peer_claims


async def changes(s: Scene, since: int, upto: int) -> tuple[list[str], list[str]]:
    """What /device_lists/changes says to alice of a range: changed and left."""
    status, body = await s.engine.host("GET", "/device_lists/changes?user_id=" + s.alice.replace("@", "%40")
                                       + f"&from={since}&to={upto}")
    equal(status, 200, "the status of device_lists/changes")
    return body["changed"], body["left"]


async def now(s: Scene) -> int:
    await s.stream.settle(0.6)
    return s.stream.next or 0


@case("SyTest_remote_leaves_changes_device_and_rejoins")
async def remote_rejoins(rig: Rig) -> None:
    """06: a remote user leaves, changes a device and comes back: an update in the stream and in the range."""
    s = await scene(rig)
    start = await now(s)
    await s.leaves(s.bob)
    await s.stream.until(lambda i: i["kind"] == "device_lists" and s.bob in i.get("left", []), 5, "bob left")
    middle = await now(s)
    equal((await changes(s, start, middle))[1], [s.bob], "who left in the range")
    s.stream.forget()
    await s.send(s.book.set("B2"))
    await s.joins(s.bob)
    await s.announced()
    check(s.bob in (await changes(s, middle, await now(s)))[0], "the range doesn't name bob")
    equal(set(await s.devices()), {"B1", "B2"}, "the devices")


@case("SyTest_remote_leaves_no_longer_receive_updates")
async def leaver(rig: Rig) -> None:
    """06: an update of somebody who left isn't announced, while that of another member of that server is."""
    s = await scene(rig)
    carol = s.peer.user("carol")
    s.peer.book(carol).set("C1")
    await s.joins(carol)
    await s.query(carol)
    await s.leaves(s.bob)
    await s.quiet()
    await s.send(s.book.set("B2"), s.peer.book(carol).set("C2"))
    await s.announced(carol)
    await s.stream.settle(0.6)
    equal(s.stream.changed(s.bob), 0, "announcements of the leaver")


@case("SyTest_user_leaves_remote_changes_device_and_user_rejoins")
async def user_rejoins(rig: Rig) -> None:
    """06: we leave, the remote user changes a device, we come back: an update in the stream and in the range."""
    s = await scene(rig)
    await s.leaves(s.alice)
    start = await now(s)
    s.stream.forget()
    await s.send(s.book.set("B2"))
    await s.joins(s.alice)
    await s.announced()
    check(s.bob in (await changes(s, start, await now(s)))[0], "the range doesn't name bob")
    equal(set(await s.devices()), {"B1", "B2"}, "the devices")


@case("Complement_claim_remote_one_time_key_of_a_peer")
async def claim_of_peer(rig: Rig) -> None:
    """The host claims a remote user's only key, gets it exactly; the second claim leaves the user out."""
    s = await scene(rig, cached=False)
    s.book.one_time["B1"] = {f"{ALG}:AA": matrix.one_time_key(s.bob, "B1", "AA")}
    body = await s.engine.keys_claim(s.bob, "B1")
    equal([body["one_time_keys"], body["failures"]],
          [{s.bob: {"B1": {f"{ALG}:AA": matrix.one_time_key(s.bob, "B1", "AA")}}}, {}], "the first claim")
    body = await s.engine.keys_claim(s.bob, "B1")
    equal([body["one_time_keys"].get(s.bob, {}), body["failures"]], [{}, {}], "the second claim")


@case("Complement_TestUploadKeyIdempotency")
async def idempotent(rig: Rig) -> None:
    """The same keys uploaded again, alone or beside new ones, count once (TestUploadKeyIdempotencyOverlap too)."""
    engine = await rig.engine()
    alice, peer = user(engine), rig.peer(1)
    where = "/one_time_keys/counts?user_id=" + alice.replace("@", "%40") + "&device_id=A1"
    for upload, wanted in ((("A", "B"), 2), (("A", "B"), 2), (("B", "C"), 3)):
        await engine.feed(keys(alice, *upload))
        equal((await engine.host("GET", where))[1]["counts"], {ALG: wanted}, f"the count after {upload}")
    equal([set(await peer_claims(peer, alice)), set(await host_claims(engine, alice))],
          [{f"{ALG}:A"}, {f"{ALG}:B"}], "the keys")


@case("Complement_TestUploadKey_malformed")
async def malformed(rig: Rig) -> None:
    """Keys of another owner or device, or of a wrong shape, are rejected, and nothing of them is served."""
    engine = await rig.engine()
    alice, peer = user(engine), rig.peer(1)
    other = {**device(alice, "A1"), "keys": matrix.device_keys(user(engine, "eve"), "A1")}
    elsewhere = {**device(alice, "A1"), "keys": matrix.device_keys(alice, "A2")}
    shapeless = {**device(alice, "A1"), "keys": {"user_id": alice, "device_id": "A1", "algorithms": 1}}
    text = {**keys(alice), "one_time_keys": [1]}
    status, body = await engine.feed_lines([matrix.dumps(r) for r in (other, elsewhere, shapeless, text)])
    equal([status, len(body["rejected"])], [200, 4], f"rejected lines ({body})")
    _, body = await peer.keys_query({alice: []})
    equal(body["device_keys"].get(alice, {}), {}, "the devices")


@case("Complement_local_device_changes_are_announced")
async def local_changes(rig: Rig) -> None:
    """F9, SyTest 06: own devices made, renamed and deleted are announced to our own users, in the range too."""
    s = await scene(rig)
    start = await now(s)
    await s.engine.feed(membership(s.room.room_id, user(s.engine, "anna")), device(s.alice, "A1", name="phone"))
    await s.announced(s.alice)
    for record in ({"kind": "device", "user_id": s.alice, "device_id": "A1", "display_name": "new"},
                   device_gone(s.alice, "A1")):
        await s.quiet()
        await s.engine.feed(record)
        await s.announced(s.alice)
    check(s.alice in (await changes(s, start, await now(s)))[0], "the range doesn't name alice")
