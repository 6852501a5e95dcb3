"""Cases of Complement and SyTest about device lists and keys that have no better place, named after them."""
from __future__ import annotations

import json

from rig import Rig, case, check, device, device_gone, equal, matrix, membership, until, user
from rig.lists import Scene, scene
from rig.matrix import Key
from test_keys import raw_get
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


@case("Complement_TestInboundFederationKeys")
async def inbound_keys(rig: Rig) -> None:
    """Our keys, unsigned: canonical bytes, signed by ourselves alone; verify_keys and old_verify_keys with key ids, no
    key in both; valid for longer than now."""
    old = Key("old")
    engine = rig.make_engine(old_keys=[{"key_id": old.key_id, "key": old.public_text, "expired_ms": 1}])
    await engine.start()
    status, raw, _ = await raw_get(rig, engine, "/_matrix/key/v2/server")
    body = json.loads(raw)
    equal([status, raw], [200, matrix.canonical(body)], "status and bytes")
    equal(body["server_name"], engine.name, "server_name")
    check(body["valid_until_ts"] > matrix.now_ms(), "valid_until_ts is over")
    for key_id in (*body["verify_keys"], *body["old_verify_keys"]):
        check(key_id.startswith("ed25519:"), f"a key is called {key_id}")
    for one in (*body["verify_keys"].values(), *body["old_verify_keys"].values()):
        check("=" not in one["key"] and len(matrix.unb64(one["key"])) == 32, f"a key is {one}")
    check(bool(body["old_verify_keys"]) and not set(body["verify_keys"]) & set(body["old_verify_keys"]), "key ids")
    equal(list(body["signatures"]), [engine.name], "who signed")
    known = {k: v["key"] for k, v in body["verify_keys"].items()}
    check(matrix.verify_json(engine.name, known, body), "the signature is wrong")


@case("Complement_TestUnknownEndpoints")
async def unknown_endpoints(rig: Rig) -> None:
    """Unknown paths 404 M_UNRECOGNIZED, a known one with another method 405 M_UNRECOGNIZED, of servers and of keys."""
    engine = await rig.engine()
    for method, path, wanted in (
            ("GET", "/_matrix/federation/unknown", 404), ("GET", "/_matrix/federation/v1/unknown", 404),
            ("PUT", "/_matrix/federation/v1/version", 405), ("GET", "/_matrix/key/unknown", 404),
            ("GET", "/_matrix/key/v2/unknown", 404), ("GET", "/_matrix/key/v2/query", 404)):
        status, raw, _ = await raw_get(rig, engine, path, method)
        equal([status, json.loads(raw)["errcode"]], [wanted, "M_UNRECOGNIZED"], f"{method} {path}")


async def update_is_announced(s: Scene, wanted: set[str]) -> None:
    """A later update gives `changed` again, and fresh keys."""
    await s.quiet()
    await s.send(s.book.set(max(wanted)))
    await s.announced()
    equal(set(await s.devices()), wanted, "the devices after an update")


@case("Complement_when_remote_user_joins_a_room")
async def remote_joins(rig: Rig) -> None:
    """The joiner is in `changed`, a query is right, a later update gives `changed` again and fresh keys."""
    s = await scene(rig, cached=False)
    carol = s.peer.user("carol")
    s.peer.book(carol).set("C1")
    await s.joins(carol)
    await s.announced(carol)
    equal(set((await s.query(carol))["device_keys"][carol]), {"C1"}, "the joiner's devices")
    await s.quiet()
    await s.send(s.peer.book(carol).set("C2"))
    await s.announced(carol)
    equal(set((await s.query(carol))["device_keys"][carol]), {"C1", "C2"}, "the devices after an update")


@case("Complement_when_joining_a_room_with_a_remote_user")
async def joining(rig: Rig) -> None:
    """We join the remote user's room: it is in `changed`, a query is right, a later update gives `changed` again."""
    s = await scene(rig, cached=False, shared=False)
    await s.joins(s.bob)
    await s.quiet()
    await s.joins(s.alice)
    await s.announced()
    equal(set(await s.devices()), {"B1"}, "the devices")
    await update_is_announced(s, {"B1", "B2"})


@case("Complement_when_leaving_a_room_with_a_remote_user")
async def leaving(rig: Rig) -> None:
    """We leave: the remote user is in `left`; a later update isn't announced, a query gives fresh keys (Synapse skips
    this one, #13650)."""
    s = await scene(rig)
    await s.leaves(s.alice)
    await s.stream.until(lambda i: i["kind"] == "device_lists" and s.bob in i.get("left", []), 5, "bob left")
    s.stream.forget()
    await s.send(s.book.set("B2"))
    await s.stream.settle(1.0)
    equal(s.stream.changed(s.bob), 0, "announcements of somebody we share no room with")
    equal(set(await s.devices()), {"B1", "B2"}, "the devices")


@case("Complement_when_remote_user_rejoins_a_room")
async def remote_user_rejoins(rig: Rig) -> None:
    """An update made while apart: after the rejoin it is in `changed`, and the query is fresh, not the cache."""
    s = await scene(rig)
    await s.leaves(s.bob)
    await s.quiet()
    s.book.set("B2")
    await s.joins(s.bob)
    await s.announced()
    equal(set(await s.devices()), {"B1", "B2"}, "the devices")
    await update_is_announced(s, {"B1", "B2", "B3"})


@case("SyTest_local_device_key_changes_get_to_remote_servers")
async def local_to_remote(rig: Rig) -> None:
    """SyTest 40: an upload is an EDU with user_id, device_id and stream_id; the second one's prev_id is the first."""
    s = await scene(rig, cached=False, delivery={"join_update_delay": "0s"})
    await s.engine.feed(device(s.alice, "A1"))
    await until(lambda: s.peer.device_edus(s.alice), 5, "the first update")
    first = s.peer.device_edus(s.alice)[0]
    equal([first["user_id"], first["device_id"]], [s.alice, "A1"], "user and device")
    check(isinstance(first["stream_id"], int), f"stream_id is {first['stream_id']!r}")
    await s.engine.feed({"kind": "device", "user_id": s.alice, "device_id": "A1", "display_name": "new"})
    await until(lambda: len(s.peer.device_edus(s.alice)) == 2, 5, "the second update")
    equal(s.peer.device_edus(s.alice)[1]["prev_id"], [first["stream_id"]], "prev_id of the second")


@case("SyTest_local_device_key_changes_with_correct_prev_id")
async def chain_per_user(rig: Rig) -> None:
    """SyTest 40: two local users in turn: each has a chain of its own, and every update has a prev_id key."""
    s = await scene(rig, cached=False, delivery={"join_update_delay": "0s"})
    anna = user(s.engine, "anna")
    await s.engine.feed(membership(s.room.room_id, anna))
    for who, name in ((s.alice, "D1"), (anna, "D1"), (s.alice, "D2"), (anna, "D2")):
        count = len(s.peer.device_edus(who))
        await s.engine.feed(device(who, name))
        await until(lambda w=who, c=count: len(s.peer.device_edus(w)) == c + 1, 5, f"an update of {who}")
    for who in (s.alice, anna):
        one, two = s.peer.device_edus(who)
        check("prev_id" in one, f"the first update of {who} has no prev_id")
        equal(two["prev_id"], [one["stream_id"]], f"prev_id of the second update of {who}")
