"""keys/query of the host and of other servers (DESIGN 7, PROTOCOL 13 and 16)."""
from __future__ import annotations

import asyncio
import time

from rig import Rig, case, check, cross_signing, device, device_gone, equal, matrix, meet, unreached, until, user
from rig.lists import Scene, scene

DEVICES = "/_matrix/federation/v1/user/devices/"


async def ours(rig: Rig) -> Scene:
    """alice with two devices and cross-signing keys; nobody asked for bob yet."""
    s = await scene(rig, cached=False)
    await s.engine.feed(device(s.alice, "A1", name="phone"), device(s.alice, "A2"), cross_signing(s.alice))
    return s


@case("query-own")
async def own(rig: Rig) -> None:
    """Our own users: keys as uploaded with the name in unsigned; the user-signing key for the requester alone (F5)."""
    s = await ours(rig)
    status, body = await s.engine.host("POST", "/keys/query", {
        "device_keys": {s.alice: [], user(s.engine, "nobody"): []}})
    equal(status, 200, "the status")
    got = body["device_keys"][s.alice]
    equal(set(got), {"A1", "A2"}, "the devices")
    equal(got["A1"].pop("unsigned"), {"device_display_name": "phone"}, "unsigned")
    equal(got["A1"], matrix.device_keys(s.alice, "A1"), "the keys")
    keys = matrix.cross_signing_keys(s.alice)
    equal([body["master_keys"], body["self_signing_keys"]],
          [{s.alice: keys["master_key"]}, {s.alice: keys["self_signing_key"]}], "the cross-signing keys")
    equal([body["failures"], body.get("user_signing_keys", {})], [{}, {}], "failures and user-signing keys")
    check(not body["device_keys"].get(user(s.engine, "nobody")), "an unknown user has devices")
    _, body = await s.engine.host("POST", "/keys/query?requester=" + s.alice.replace("@", "%40"),
                                  {"device_keys": {s.alice: ["A2", "A9"]}})
    equal(set(body["device_keys"][s.alice]), {"A2"}, "the devices when two are asked for")
    equal(body["user_signing_keys"], {s.alice: keys["user_signing_key"]}, "the requester's own key")


@case("Complement_TestKeysQueryWithDeviceIDAsObjectFails")
async def bad_bodies(rig: Rig) -> None:
    """A device list given as an object is 400 M_BAD_JSON on both sides, as other shapes are (F3)."""
    s = await scene(rig, cached=False)
    for body in ({"device_keys": {s.alice: {}}}, {"device_keys": []}, {}, {"device_keys": {s.alice: [1]}}):
        status, got = await s.engine.host("POST", "/keys/query", body)
        equal([status, got.get("errcode")], [400, "M_BAD_JSON"], f"the host's {body}")
        status, got = await s.peer.request("POST", "/_matrix/federation/v1/user/keys/query", body)
        equal([status, got.get("errcode")], [400, "M_BAD_JSON"], f"the peer's {body}")
    for body in ({"one_time_keys": {s.alice: []}}, {"one_time_keys": {s.alice: {"A1": 7}}}, {}):
        status, got = await s.engine.host("POST", "/keys/claim", body)
        equal([status, got.get("errcode")], [400, "M_BAD_JSON"], f"the host's claim {body}")
    status, _ = await s.engine.host("POST", "/keys/query", {"device_keys": {}, "timeout": "soon"})
    equal(status, 400, "a timeout that is no number")


@case("SyTest_query_remote_device_and_signing_keys")
async def served(rig: Rig) -> None:
    """SyTest 04, 08: another server queries without sharing a room: keys, names, cross-signing; unsigned asking is
    401."""
    s = await ours(rig)
    stranger = rig.peer(2)
    status, body = await stranger.keys_query({s.alice: [], "@x:elsewhere.test": []})
    equal(status, 200, "the status")
    equal(set(body["device_keys"]), {s.alice}, "the users")
    got = body["device_keys"][s.alice]["A1"]
    equal(got.pop("unsigned"), {"device_display_name": "phone"}, "unsigned")
    equal(got, matrix.device_keys(s.alice, "A1"), "the keys")
    keys = matrix.cross_signing_keys(s.alice)
    equal([body["master_keys"][s.alice], body["self_signing_keys"][s.alice]],
          [keys["master_key"], keys["self_signing_key"]], "the cross-signing keys")
    check("user_signing" not in matrix.dumps(body), "a user-signing key was told")
    status, body = await stranger.user_devices(s.alice)
    equal([status, body["user_id"], {d["device_id"] for d in body["devices"]}], [200, s.alice, {"A1", "A2"}],
          "GET /user/devices")
    check(isinstance(body["stream_id"], int), f"stream_id is {body['stream_id']}")
    for uri in (DEVICES + "%40nobody%3A" + s.engine.name.replace(":", "%3A"), DEVICES + "%40a%3Ax.test"):
        equal((await stranger.request("GET", uri))[0], 404, f"the status of {uri}")
    equal((await stranger.request("GET", DEVICES + "x", header=""))[0], 401, "the status without a signature")
    equal((await stranger.request("POST", "/_matrix/federation/v1/user/keys/query", {"device_keys": {}}, header=""))[0],
          401, "the status of an unsigned query")


@case("Complement_query_remote_device_keys_after_rename")
async def renamed(rig: Rig) -> None:
    """Complement, SyTest 06: an upload and a rename each reach the room-mate's server; it then asks and gets both."""
    s = await ours(rig)
    await until(lambda: s.peer.device_edus(s.alice), 8, "the first updates")
    before = len(s.peer.device_edus(s.alice))
    await s.engine.feed({"kind": "device", "user_id": s.alice, "device_id": "A1", "display_name": "new"})
    await until(lambda: len(s.peer.device_edus(s.alice)) > before, 8, "the update of the rename")
    _, body = await s.peer.keys_query({s.alice: ["A1"]})
    equal(body["device_keys"][s.alice]["A1"]["unsigned"], {"device_display_name": "new"}, "unsigned")
    await s.engine.feed(device_gone(s.alice, "A1"), device_gone(s.alice, "A2"))
    _, body = await s.peer.keys_query({s.alice: []})
    equal(body["device_keys"].get(s.alice, {}), {}, "the devices when all are deleted")


@case("SyTest_self_signing_key_and_signed_devices_propagate")
async def cross_signing_in(rig: Rig) -> None:
    """SyTest 08: uploading a self-signing key notifies over federation; a device that it signs comes with the new
    signature, the master key is still there."""
    s = await scene(rig)
    await s.send(s.book.sign_in_cross())
    await s.announced()
    body = await s.query()
    equal(body["self_signing_keys"][s.bob], s.book.cross["self_signing_key"], "the self-signing key")
    edu = s.book.set("B1", name="one")
    signed = {**edu["content"]["keys"], "signatures": {s.bob: {**edu["content"]["keys"]["signatures"][s.bob],
                                                               "ed25519:self": "c2ln"}}}
    s.book.devices["B1"].keys = edu["content"]["keys"] = signed
    s.stream.forget()
    await s.send(edu)
    await s.announced()
    body = await s.query()
    equal(body["device_keys"][s.bob]["B1"]["signatures"], signed["signatures"], "the signatures")
    equal(body["master_keys"][s.bob], s.book.cross["master_key"], "the master key")


@case("SyTest_resyncs_when_there_is_no_remote_cache")
async def no_cache(rig: Rig) -> None:
    """SyTest 40: a query for an uncached room-mate is one GET /user/devices and nothing else (W5); again it is none."""
    s = await scene(rig, cached=False)
    s.book.set("B2")
    body = await s.query()
    equal(set(body["device_keys"][s.bob]), {"B1", "B2"}, "the devices")
    equal(body["device_keys"][s.bob]["B1"]["unsigned"], {"device_display_name": "one"}, "unsigned")
    equal([s.fetches(), s.asked()], [1, 1], "fetches and all requests")
    equal(set(await s.devices()), {"B1", "B2"}, "the devices again")
    equal(s.asked(), 1, "requests after a second query")


@case("query-single-flight")
async def single_flight(rig: Rig) -> None:
    """Many queries at once for one user, held or not: one request."""
    s = await scene(rig, cached=False)
    stranger = s.peer.user("stranger")
    s.peer.book(stranger).set("S1")
    hold = s.peer.hold("/user/")
    waiting = [asyncio.create_task(s.query(s.bob, stranger)) for _ in range(12)]
    await until(lambda: hold.arrived == 2, 5, "one request each way")
    await asyncio.sleep(0.5)
    hold.release()
    for body in await asyncio.gather(*waiting):
        equal([set(body["device_keys"][s.bob]), set(body["device_keys"][stranger]), body["failures"]],
              [{"B1"}, {"S1"}, {}], "what each got")
    equal([s.fetches(), len(s.peer.asked("/user/keys/query"))], [1, 1], "requests")


@case("SyTest_resyncs_when_server_leaves_and_rejoins")
async def rejoined(rig: Rig) -> None:
    """SyTest 40: we leave and come back, or they do: the next query fetches again, and gets what changed meanwhile."""
    s = await scene(rig)
    for who, wanted in ((s.alice, {"B1", "B2"}), (s.bob, {"B1", "B2", "B3"})):
        await s.leaves(who)
        s.book.set(max(wanted))
        await s.joins(who)
        await s.announced()
        equal(set(await s.devices()), wanted, f"the devices after {who} came back")
        await s.quiet()


@case("Complement_when_remote_user_leaves")
async def left(rig: Rig) -> None:
    """Complement: who left is `left`; later updates aren't announced, and a query returns fresh keys, not the cache."""
    s = await scene(rig)
    await s.leaves(s.bob)
    await s.stream.until(lambda i: i["kind"] == "device_lists" and s.bob in i.get("left", []), 5, "bob left")
    s.stream.forget()
    await s.send(s.book.set("B2"))
    await s.stream.settle(1.0)
    equal(s.stream.changed(s.bob), 0, "announcements of somebody who left")
    equal(set(await s.devices()), {"B1", "B2"}, "the devices")
    s.book.set("B3")
    equal(set(await s.devices()), {"B1", "B2", "B3"}, "the devices of the next query")


@case("SyTest_list_unchanged_if_remote_is_down")
async def fresh_though_down(rig: Rig) -> None:
    """SyTest 40: a list that is true is given though its server is broken or gone: the same, no failures (F4)."""
    s = await scene(rig)
    before = await s.query()
    s.peer.answer("/user/", 400)
    equal(await s.query(), before, "the answer while the server answers 400")
    s.peer.down()
    equal(await s.query(), before, "the answer while the server is down")
    equal(before["failures"], {}, "failures")


@case("B77_parallel_and_bounded", timeout=60)
async def parallel(rig: Rig) -> None:
    """Servers are asked at the same time within the caller's time; what is known is given, who failed is named, a
    server that waits isn't asked; lists that are true cost no request."""
    s = await scene(rig, backoff={"first": "1h"})
    slow, dead = rig.peer(2), rig.peer(3)
    await rig.shared(s.engine, slow, dead)
    await meet(slow, dead)
    for peer in (slow, dead):
        peer.book(peer.user("bob")).set("X1")
    equal(set((await s.query(slow.user("bob")))["device_keys"][slow.user("bob")]), {"X1"}, "the slow one's at first")
    dead.down()
    await s.query(dead.user("bob"), timeout_ms=3000)
    await unreached(s.engine, dead)
    slow.hold("/user/devices/")
    slow.book(slow.user("bob")).set("X2")
    await s.send(slow.book(slow.user("bob")).set("X3"), peer=slow)
    s.book.set("B2")
    await s.send(s.book.set("B3"))
    contacts, start = dead.contacts(), time.monotonic()
    body = await s.query(s.bob, slow.user("bob"), dead.user("bob"), timeout_ms=2000)
    took = time.monotonic() - start
    check(1.8 < took < 2.5, f"the answer came after {took:.2f} s")
    equal([set(body["device_keys"].get(u, {})) for u in (s.bob, slow.user("bob"), dead.user("bob"))],
          [{"B1", "B2", "B3"}, {"X1"}, set()], "the devices")
    equal(set(body["failures"]), {slow.name, dead.name}, "failures")
    check(all(f.get("error") for f in body["failures"].values()), "a failure has no reason")
    equal(dead.contacts(), contacts, "contacts of the dead server")
    requests, start = s.asked(), time.monotonic()
    equal((await s.query())["failures"], {}, "failures of a list that is true")
    check(time.monotonic() - start < 1.0, "a list that is true took long")
    equal(s.asked(), requests, "requests for a list that is true")


@case("query-unknown-user")
async def unknown_user(rig: Rig) -> None:
    """F2: a room-mate whom its server doesn't know is absent, and no failure; if a list of it is held it is one."""
    s = await scene(rig)
    nobody = s.peer.user("nobody")
    await s.joins(nobody)
    body = await s.query(nobody, s.bob)
    equal([set(body["device_keys"]), body["failures"]], [{s.bob}, {}], "users and failures")
    s.book.set("B2")
    del s.peer.books[s.bob]
    await s.send(s.book.set("B3"))
    body = await s.query()
    equal([set(body["device_keys"][s.bob]), set(body["failures"])], [{"B1"}, {s.peer.name}], "the last list and why")


@case("query-odd-answers")
async def odd_answers(rig: Rig) -> None:
    """What a server says of other servers' users, or under a wrong name, isn't believed; one bad device costs only
    itself; an answer that can't be used is a failure of that server alone."""
    s = await scene(rig, cached=False)
    other = rig.peer(2)
    await rig.shared(s.engine, other)
    other.book(other.user("bob")).set("X1")
    stranger = s.peer.user("stranger")
    good = matrix.device_keys(stranger, "S1")
    s.peer.answer("/user/keys/query", 200, {
        "device_keys": {stranger: {"S1": good, "S2": good, "S3": 7}, other.user("bob"): {"E": good}},
        "master_keys": {stranger: {"user_id": other.user("bob"), "keys": {}}}})
    full = s.book.full()
    full["devices"] += [{"device_id": "B2", "keys": {**matrix.device_keys(s.bob, "B2"), "user_id": stranger}}, 7]
    s.peer.answer("/user/devices/", 200, full)
    body = await s.query(stranger, s.bob, other.user("bob"))
    equal({u: set(d) for u, d in body["device_keys"].items()},
          {stranger: {"S1"}, s.bob: {"B1"}, other.user("bob"): {"X1"}}, "the devices")
    equal([body["master_keys"], body["failures"]], [{}, {}], "master keys and failures")
    s.peer.answer("/user/keys/query", 200, raw=b"{")
    body = await s.query(s.peer.user("else"), s.bob)
    equal([set(body["device_keys"]), set(body["failures"])], [{s.bob}, {s.peer.name}], "users and failures")


@case("query-too-large")
async def too_large(rig: Rig) -> None:
    """A list over the limit isn't kept: queries go out, and the user is listed with that cause."""
    s = await scene(rig, cached=False, limits={"devices_per_user": 5})
    for i in range(8):
        s.book.set(f"D{i}")
    equal(len(await s.devices()), 9, "the devices of a first query")
    equal(len(await s.devices()), 9, "the devices of a second query")
    equal([s.fetches(), len(s.peer.asked("/user/keys/query"))], [1, 2], "fetches and queries")
    listed = (await s.stale())[s.bob]
    check("5 devices" in listed["cause"] + str(listed["problem"]), f"the cause is {listed}")


@case("query-counts-and-changes")
async def counts_and_changes(rig: Rig) -> None:
    """one_time_keys/counts counts down; device_lists/changes gives what the stream said; bad parameters are 400."""
    s = await ours(rig)
    await s.engine.feed({"kind": "one_time_keys", "user_id": s.alice, "device_id": "A1", "one_time_keys": {
        f"signed_curve25519:{i}": matrix.one_time_key(s.alice, "A1", str(i)) for i in range(3)}})
    where = "/one_time_keys/counts?user_id=" + s.alice.replace("@", "%40")
    status, body = await s.engine.host("GET", where + "&device_id=A1")
    equal([status, body], [200, {"counts": {"signed_curve25519": 3}, "unused_fallback_key_types": []}], "the counts")
    await s.engine.keys_claim(s.alice, "A1")
    equal((await s.engine.host("GET", where + "&device_id=A1"))[1]["counts"], {"signed_curve25519": 2}, "then")
    for bad in (where, "/one_time_keys/counts?user_id=%40a%3Ax.test&device_id=A1",
                "/device_lists/changes?user_id=%40a%3Ax.test&from=0&to=1",
                where.replace("one_time_keys/counts", "device_lists/changes") + "&from=3&to=2"):
        equal((await s.engine.host("GET", bad))[0], 400, f"the status of {bad}")
    await s.stream.settle(0.5)
    start = s.stream.next or 0
    await s.send(s.book.set("B2"))
    await s.announced()
    await s.send(s.book.set("B3"))
    await s.becomes({"B1", "B2", "B3"})
    await s.stream.settle(0.5)
    changes = "/device_lists/changes?user_id=" + s.alice.replace("@", "%40")
    status, body = await s.engine.host("GET", f"{changes}&from={start}&to={s.stream.next}")
    equal([status, body["changed"], body["left"], body["limited"]], [200, [s.bob], [], False], "the changes")
