"""Joins of ours over federation: over candidates, checked, recorded, and what is seen while they are partial (API 3.3,
PROTOCOL 14; CASES B92, B94; CONFORMANCE 4c, 5, 10)."""
from __future__ import annotations

import asyncio
import time
from typing import Any, Callable

from rig import Engine, Peer, Rig, Rule, case, check, device, equal, error, has, matrix, quote, until, user
from rig.matrix import Json
from rig.records import pdu
from rig.rooms import Room, join, partial_join, room_state, view


def refused(got: tuple[int, Any], status: int, errcode: str, *names: str) -> None:
    equal([got[0], got[1].get("errcode") if isinstance(got[1], dict) else got[1]], [status, errcode], "the answer")
    for name in names:
        check(name in got[1]["error"], f"{name} isn't named in: {got[1]['error']}")


async def unjoined(engine: Engine, room: Room) -> None:
    """A failed join leaves nothing behind (B92)."""
    status, body = await engine.host("GET", f"/rooms/{quote(room.room_id)}")
    check(status == 404 or (body["partial"] is False and user(engine) not in body["members"]), f"the room is {body}")


@case("join-full")
async def full(rig: Rig) -> None:
    """A full join: the join event is well-formed, the answer has the whole state, members and servers are known at
    once, and an event of ours reaches every server of the room."""
    engine = await rig.engine()
    owner, other = rig.peers(2)
    room = Room(owner, [owner.user("charlie"), other.user("derek")])
    status, answer = await join(engine, room.room_id, user(engine), [owner.name], partial=False,
                                content={"displayname": "Alice"})
    equal(status, 200, f"the join ({str(answer)[:200]})")
    equal(room.problems, [], "what is wrong with the join event")
    equal([answer[k] for k in ("room_id", "event_id", "room_version", "joined_via", "partial")],
          [room.room_id, matrix.event_id(room.joins[0]), "10", owner.name, False], "the answer")
    equal(matrix.event_id(answer["event"]), answer["event_id"], "the id of the answer's event")
    equal(answer["event"]["content"], {"membership": "join", "displayname": "Alice"}, "the content")
    equal(sorted(matrix.event_id(e) for e in answer["state"]), sorted(room.before[answer["event_id"]].values()),
          "the state")
    check(answer["auth_chain"], "no auth_chain")
    equal(sorted(answer["servers_in_room"]), sorted([owner.name, other.name]), "servers_in_room")
    made = owner.asked("/make_join/")[0]
    equal(made.query["ver"], [str(v) for v in range(1, 13)], "the versions offered")
    check("/v2/send_join/" in owner.asked("/send_join/")[0].path, "it isn't send_join v2")
    seen = await view(engine, room.room_id)
    equal([seen["partial"], seen["partial_join"], seen["room_version"]], [False, None, "10"], "the room")
    everybody = [room.creator, owner.user("charlie"), other.user("derek"), user(engine)]
    equal(seen["members"], {m: "join" for m in everybody}, "the members")
    equal(sorted(seen["servers"]), sorted([owner.name, other.name]), "the room's servers")
    event = matrix.build_event(engine.key, engine.name, room.room_id, user(engine), "m.room.message", {"body": "hi"},
                               prev=room.head, depth=room.depth + 1)
    await engine.feed(pdu(event))
    await has(owner, [pdu(event)])
    await has(other, [pdu(event)])


@case("join-partial-answer")
async def partial(rig: Rig) -> None:
    """A partial join: well-formed requests, the answer's fields; the room is partial with its servers; its state is 409
    M_RANVIER_PARTIAL; events and device changes of ours go to every listed server meanwhile."""
    engine = await rig.engine()
    owner, other = rig.peers(2)
    joined = await partial_join(engine, owner, [owner.user("charlie"), other.user("derek")], others=[other],
                                user_id=user(engine))
    room, answer = joined.room, joined.answer
    equal(room.problems, [], "what is wrong with the join event")
    equal(owner.asked("/send_join/")[0].query.get("omit_members"), ["true"], "omit_members")
    equal([answer["room_id"], answer["event_id"], answer["room_version"], answer["joined_via"]],
          [room.room_id, matrix.event_id(room.joins[0]), "10", owner.name], "the answer")
    equal(sorted(answer["servers_in_room"]), sorted([owner.name, other.name]), "servers_in_room")
    check(not [e for e in answer["state"] if e["type"] == "m.room.member"], "there are members in the state")
    seen = await view(engine, room.room_id)
    equal([seen["partial"], seen["members"], sorted(seen["servers"])],
          [True, {user(engine): "join"}, sorted([owner.name, other.name])], "the room")
    facts = seen["partial_join"]
    equal([facts["joined_via"], sorted(facts["servers"])], [owner.name, sorted([owner.name, other.name])], "its join")
    check(isinstance(facts["since_ms"], int) and facts["state"], "since_ms or state is missing")
    status, body = await room_state(engine, room.room_id)
    equal([status, body.get("errcode")], [409, "M_RANVIER_PARTIAL"], "state while partial")
    event = matrix.build_event(engine.key, engine.name, room.room_id, user(engine), "m.room.message", {"body": "hi"},
                               prev=room.head, depth=room.depth + 1)
    await engine.feed(pdu(event), device(user(engine), "A", name="phone"))
    for peer in (owner, other):
        await has(peer, [pdu(event)])
        await until(lambda: peer.device_edus(user(engine)), 10, f"a device update at {peer.name}")


@case("join-partial-survives-kill")
async def survives(rig: Rig) -> None:
    """The room is recorded before the host is told: after kill -9 right behind the answer it is still partial, with
    servers and member, and events still go to all of the list."""
    engine = await rig.engine()
    owner, other = rig.peers(2)
    joined = await partial_join(engine, owner, [other.user("derek")], others=[other], user_id=user(engine))
    await engine.restart(kill=True)
    seen = await view(engine, joined.room.room_id)
    equal([seen["partial"], seen["members"], sorted(seen["servers"])],
          [True, {user(engine): "join"}, sorted([owner.name, other.name])], "the room after kill -9")
    event = matrix.build_event(engine.key, engine.name, joined.room.room_id, user(engine), "m.room.message",
                               {"body": "hi"}, prev=joined.room.head, depth=joined.room.depth + 1)
    await engine.feed(pdu(event))
    await has(other, [pdu(event)])


@case("join-fails-over")
async def fails_over(rig: Rig) -> None:
    """Of several candidates the first that can is joined through, whatever the others answer (Complement
    TestJoinViaRoomIDAndServerName, TestJoinFederatedRoomFailOver); one that is down costs a try, not the join."""
    engine = await rig.engine()
    owner, a, b, dead = rig.peers(4)
    a.answer("/make_join/", 502)
    b.answer("/make_join/", 404, error(404))
    dead.down()
    room = Room(owner, [owner.user("charlie")])
    status, answer = await join(engine, room.room_id, user(engine), [dead.name, a.name, b.name, owner.name])
    equal([status, answer.get("joined_via")], [200, owner.name], f"the join ({str(answer)[:200]})")
    equal([len(a.asked("/make_join/")), len(b.asked("/make_join/"))], [1, 1], "questions to the others")


@case("join-open-gates-first")
async def open_first(rig: Rig) -> None:
    """A candidate whose gate is closed is asked after the others, and then as a probe: a user waits."""
    engine = await rig.engine(backoff={"first": "1h"})
    owner, shut = rig.peers(2)
    shut.down()
    other = Room(shut)
    got = await join(engine, other.room_id, user(engine), [shut.name])
    refused(got, 502, "M_RANVIER_UNREACHABLE", shut.name)
    shut.up()
    room = Room(owner)
    room.serve_on(shut)
    status, answer = await join(engine, room.room_id, user(engine), [shut.name, owner.name])
    equal([status, answer.get("joined_via"), len(shut.requests)], [200, owner.name, 0], "the join")
    status, answer = await join(engine, other.room_id, user(engine), [shut.name])
    equal([status, answer.get("joined_via")], [200, shut.name], f"the join through the one that is back ({answer})")


@case("join-errors-told")
async def errors(rig: Rig) -> None:
    """When nobody helps, `error` has every server's words and the errcode is that of the last meaningful answer; a test
    errcode and an unsupported version are passed on as they came (SyTest)."""
    engine = await rig.engine()
    a, b, c = rig.peers(3)
    room = Room(a)
    room.serve_on(b, c)
    a.answer("/make_join/", 500)
    b.answer("/make_join/", 403, {"errcode": "M_FORBIDDEN", "error": "no, not you"})
    c.down()
    got = await join(engine, room.room_id, user(engine), [a.name, b.name, c.name])
    refused(got, 403, "M_FORBIDDEN", a.name, b.name, c.name, "no, not you")
    b.answer("/make_join/", 400, {"errcode": "M_TEST_ERROR", "error": "scripted"})
    refused(await join(engine, room.room_id, user(engine), [b.name]), 400, "M_TEST_ERROR", "scripted")
    b.answer("/make_join/", 400, {"errcode": "M_INCOMPATIBLE_ROOM_VERSION", "error": "too new", "room_version": "x"})
    got = await join(engine, room.room_id, user(engine), [b.name])
    refused(got, 400, "M_INCOMPATIBLE_ROOM_VERSION")
    equal(got[1].get("room_version"), "x", "the room version")
    b.answer("/make_join/", 404)
    refused(await join(engine, room.room_id, user(engine), [a.name, b.name]), 404, "M_NOT_FOUND", a.name)
    failing = rig.peer(4)  # its gate is open still
    failing.answer("/make_join/", 500)
    refused(await join(engine, room.room_id, user(engine), [failing.name]), 502, "M_UNKNOWN", failing.name)
    await unjoined(engine, room)


@case("join-old-send-join")
async def old_path(rig: Rig) -> None:
    """send_join v1 is used after a 404 to v2 (SyTest), and its answer in a list is understood."""
    engine = await rig.engine()
    owner = rig.peer(1)
    room = Room(owner, [owner.user("charlie")])
    owner.answer("/v2/send_join/", 404, {"errcode": "M_UNRECOGNIZED", "error": "no such path"})
    status, answer = await join(engine, room.room_id, user(engine), [owner.name])
    equal([status, answer.get("partial")], [200, False], f"the join ({str(answer)[:200]})")
    equal(["/v2/" in r.path for r in owner.asked("/send_join/")], [True, False], "the paths that were tried")
    check("omit_members" not in owner.asked("/v1/send_join/")[0].query, "the old path knows no omit_members")
    check((await view(engine, room.room_id))["members"].get(owner.user("charlie")) == "join", "charlie isn't there")


@case("join-restricted")
async def restricted(rig: Rig) -> None:
    """A restricted join: the event that the resident returned, with its signature, is the one that counts; without it,
    or without our signature on it, the join isn't valid (J6, J7)."""
    engine = await rig.engine()
    owner = rig.peer(1)
    room = Room(owner, restricted=True)
    status, answer = await join(engine, room.room_id, user(engine), [owner.name])
    equal(status, 200, f"the join ({str(answer)[:200]})")
    equal(sorted(answer["event"]["signatures"]), sorted([owner.name, engine.name]), "who signed the event")
    equal(answer["event"]["content"].get("join_authorised_via_users_server"), room.creator, "who authorised it")
    for name, spoil in (("without an event", lambda a: a.pop("event")),
                        ("without our signature", lambda a: a["event"]["signatures"].pop(engine.name)),
                        ("without its own signature", lambda a: a["event"]["signatures"].pop(owner.name))):
        bad = Room(owner, restricted=True)
        bad.spoil_answer = spoil
        got = await join(engine, bad.room_id, user(engine), [owner.name])
        equal(got[0], 502, f"a restricted join {name}")
        await unjoined(engine, bad)


def _event(kind: str, change: Callable[[Json], Any]) -> Callable[[Json], None]:
    def spoil(answer: Json) -> None:
        answer["state"] = [dict(e) for e in answer["state"]]
        for event in answer["state"]:
            if event["type"] == kind:
                change(event)
    return spoil


def _forge(event: Json) -> None:
    """Another content under the old signature, its hash made to fit."""
    event["content"] = {"join_rule": "invite"}
    event["hashes"] = {"sha256": matrix.content_hash(event)}


@case("join-bad-answers", weight=2)
async def bad_answers(rig: Rig) -> None:
    """B92 and J8: whatever is wrong with a send_join answer, the join fails with a clear error, leaves nothing behind,
    and a join through another server works right after."""
    engine = await rig.engine()
    liar, honest = rig.peers(2)

    def foreign(answer: Json) -> None:
        answer["state"].append(liar.event("!other:" + liar.name, liar.user("creator"), "m.room.topic", {"topic": "x"},
                                          state_key=""))

    def twice(answer: Json) -> None:
        answer["state"].append(liar.event(room.room_id, room.creator, "m.room.join_rules", {"join_rule": "invite"},
                                          state_key=""))

    def version(answer: Json) -> None:
        answer["state"][0] = liar.event(room.room_id, room.creator, "m.room.create",
                                        {"creator": room.creator, "room_version": "no-such"}, state_key="")
    spoils: dict[str, Callable[[Json], Any]] = {
        "a wrong signature": _event("m.room.join_rules", _forge),
        "no create event": lambda a: a.update(state=[e for e in a["state"] if e["type"] != "m.room.create"]),
        "an event of another room": foreign,
        "an unknown room version": version,
        "two events for one place": twice,
        "no servers": lambda a: a.pop("servers_in_room"),
        "no list of servers": lambda a: a.update(servers_in_room="x"),
        "no state": lambda a: a.pop("state"),
        "no auth_chain": lambda a: a.pop("auth_chain"),
        "an unsigned create event": _event("m.room.create", lambda e: e.update(signatures={})),
    }
    for name, spoil in spoils.items():
        room = Room(liar, [liar.user("charlie")])
        room.spoil_answer = spoil
        got = await join(engine, room.room_id, user(engine), [liar.name], timeout=30)
        equal(got[0], 502, f"a join with {name} ({str(got[1])[:160]})")
        said = got[1]["error"]
        check(liar.name in said and "send_join" in said, f"{name}: the error says {said}")
        await unjoined(engine, room)
        room.spoil_answer = lambda answer: None
        room.serve_on(honest)
        status, answer = await join(engine, room.room_id, user(engine), [honest.name])
        equal([status, answer.get("joined_via")], [200, honest.name], f"the join after {name}")


@case("join-cut-answer")
async def cut(rig: Rig) -> None:
    """B92 (d): a send_join answer that is cut, breaks off or is no JSON fails the join and leaves nothing behind."""
    engine = await rig.engine()
    owner = rig.peer(1)
    room = Room(owner)
    ways: list[Callable[[], Rule]] = [
        lambda: owner.answer("/send_join/", 200, raw=b'{"state":[{"type":"m.room.create","content":{', times=1),
        lambda: owner.answer("/send_join/", 200, raw=b"<html>", content_type="text/html", times=1),
        lambda: owner.drop("/send_join/", times=1, process=True)]
    for way in ways:
        rule = way()
        got = await join(engine, room.room_id, user(engine), [owner.name], timeout=30)
        equal([got[0], rule.hits, owner.name in got[1]["error"]], [502, 1, True], f"the join ({got[1]})")
        await unjoined(engine, room)
        await asyncio.sleep(1.5)  # an answer that broke off closes the gate for a moment
    equal((await join(engine, room.room_id, user(engine), [owner.name]))[0], 200, "the join after them")


@case("join-unverifiable-events")
async def unverifiable(rig: Rig) -> None:
    """An event that can't be verified because its server is gone is passed on; one that nobody signed, or that isn't a
    usable event, is left out; neither fails the join (J8, SyTest). A wrong hash gives the redacted copy."""
    engine = await rig.engine()
    owner, gone = rig.peers(2)
    room = Room(owner, [gone.user("ghost"), owner.user("bare"), owner.user("long")])
    topic = room.add(room.creator, "m.room.topic", {"topic": "shown"}, "")
    gone.down()
    owner.answer("/key/v2/query", 404)

    def spoil(answer: Json) -> None:
        answer["state"] = [dict(e) for e in answer["state"]]
        for event in answer["state"]:
            if event.get("state_key") == owner.user("bare"):
                event["signatures"] = {}
            if event.get("state_key") == owner.user("long"):
                event["content"] = {"membership": "join", "displayname": "x" * 70_000}
            if event["type"] == "m.room.topic":
                event["content"] = {"topic": "something else"}
    room.spoil_answer = spoil
    status, answer = await join(engine, room.room_id, user(engine), [owner.name], partial=False)
    equal(status, 200, f"the join ({str(answer)[:200]})")
    told = {(e["type"], e["state_key"]): e for e in answer["state"]}
    check(("m.room.member", gone.user("ghost")) in told, "the event of the server that is gone is missing")
    check(("m.room.member", owner.user("bare")) not in told, "an event that nobody signed is passed on")
    check(("m.room.member", owner.user("long")) not in told, "an event beyond all sizes is passed on")
    equal([told[("m.room.topic", "")]["content"], told[("m.room.topic", "")]["hashes"]], [{}, topic["hashes"]],
          "the event with the wrong hash")


@case("join-bad-templates")
async def bad_templates(rig: Rig) -> None:
    """J2: a make_join template that isn't our join of this room is never signed; the next candidate is tried."""
    engine = await rig.engine()
    liar, honest = rig.peers(2)
    changes: list[tuple[str, Any]] = [
        ("room_id", "!other:" + liar.name), ("sender", liar.user("eve")), ("state_key", liar.user("eve")),
        ("type", "m.room.message"), ("content", {"membership": "ban"}), ("prev_events", "x"), ("prev_events", []),
        ("depth", -1)]
    for name, value in changes:
        room = Room(liar)
        room.spoil_template = lambda answer, name=name, value=value: answer["event"].update({name: value})
        got = await join(engine, room.room_id, user(engine), [liar.name])
        equal(got[0], 502, f"a template with {name} {value!r} ({str(got[1])[:160]})")
        equal(liar.asked(f"/send_join/{room.room_id}"), [], f"send_join after a template with {name} {value!r}")
    room.spoil_template = lambda answer: answer.update(room_version="13-alpha")
    got = await join(engine, room.room_id, user(engine), [liar.name])
    check(got[0] == 502 and "13-alpha" in got[1]["error"], f"an unknown version: {got}")
    other = Room(honest)
    other.serve_on(liar)
    liar.answer("/make_join/", 200, {"room_version": "10", "event": {"type": "m.room.member"}})
    status, answer = await join(engine, other.room_id, user(engine), [liar.name, honest.name])
    equal([status, answer.get("joined_via")], [200, honest.name], "the join over the next candidate")


@case("join-bad-requests")
async def bad_requests(rig: Rig) -> None:
    """What the host got wrong is refused in a sentence, without asking anybody."""
    engine = await rig.engine()
    owner = rig.peer(1)
    room = Room(owner)
    path = f"/rooms/{quote(room.room_id)}/join"
    good: Json = {"user_id": user(engine), "via": [owner.name]}
    for change in ({"user_id": owner.user("bob")}, {"user_id": "alice"}, {"user_id": None}, {"via": "x"},
                   {"via": ["not a name"]}, {"content": []}, {"partial": "yes"}):
        status, body = await engine.host("POST", path, {**good, **change})
        check(status == 400 and body.get("errcode") and body.get("error"), f"{change} gave {status} {body}")
    for raw in (b"[]", b"{", b""):
        status, body = await engine.host_raw("POST", "/_ranvier/v1" + path, raw)
        check(status == 400 and body.get("errcode"), f"{raw!r} gave {status} {body}")
    equal((await engine.host("POST", "/rooms/%21v12roomwithoutserver/join", {"user_id": user(engine)}))[1]["errcode"],
          "M_MISSING_PARAM", "a room that names no server, without via")
    equal(owner.requests, [], "requests to the server")
    status, answer = await engine.host("POST", path, {"user_id": user(engine)})
    equal([status, answer.get("joined_via"), answer.get("partial")], [200, owner.name, True], "without via and partial")


@case("join-second-user")
async def second_user(rig: Rig) -> None:
    """B94, CanFastJoinDuringPartialStateJoin: while a join is partial another user of ours joins through a remote
    server, a banned one is refused by it, and the room stays one partial join. A further join into a full room leaves
    it full (P14)."""
    engine = await rig.engine()
    owner = rig.peer(1)
    joined = await partial_join(engine, owner, [owner.user("charlie")], user_id=user(engine))
    room = joined.room
    before = await view(engine, room.room_id)
    status, answer = await join(engine, room.room_id, user(engine, "bob"), [owner.name])
    equal([status, answer.get("partial")], [200, True], f"bob's join ({str(answer)[:200]})")
    room.leave(user(engine, "carol"), room.creator, "ban")
    refused(await join(engine, room.room_id, user(engine, "carol"), [owner.name]), 403, "M_FORBIDDEN", "banned")
    seen = await view(engine, room.room_id)
    equal(seen["members"], {user(engine): "join", user(engine, "bob"): "join"}, "the members")
    equal(seen["partial_join"]["since_ms"], before["partial_join"]["since_ms"], "when it began")
    whole = Room(owner, [owner.user("charlie")])
    equal((await join(engine, whole.room_id, user(engine), [owner.name], partial=False))[0], 200, "a full join")
    status, answer = await join(engine, whole.room_id, user(engine, "dave"), [owner.name])
    equal([status, answer.get("partial")], [200, False], f"dave's join ({str(answer)[:200]})")
    equal(owner.asked("/send_join/")[-1].query.get("omit_members"), ["false"], "omit_members of it")
    seen = await view(engine, whole.room_id)
    equal([seen["partial"], len(seen["members"])], [False, 4], "the full room")


@case("join-rejects-residents-calls")
async def residents(rig: Rig) -> None:
    """CONFORMANCE 4c: make_join, send_join, make_knock and send_knock for a partially joined room are 404 M_NOT_FOUND;
    of other rooms, M_UNRECOGNIZED; without a good signature 401."""
    engine = await rig.engine()
    owner, stranger = rig.peers(2)
    joined = await partial_join(engine, owner, user_id=user(engine))

    async def ask(peer: Peer, room_id: str, **kw: Any) -> list[Any]:
        out = []
        target, who = quote(room_id), quote(peer.user("bob"))
        for method, path in (("GET", f"v1/make_join/{target}/{who}?ver=10"), ("PUT", f"v1/send_join/{target}/%24x"),
                             ("PUT", f"v2/send_join/{target}/%24x"), ("GET", f"v1/make_knock/{target}/{who}?ver=10"),
                             ("PUT", f"v1/send_knock/{target}/%24x")):
            body = {"type": "m.room.member"} if method == "PUT" else None
            status, answer = await peer.request(method, f"/_matrix/federation/{path}", body, **kw)
            out.append((status, answer.get("errcode") if isinstance(answer, dict) else answer))
        return out
    equal(await ask(stranger, joined.room.room_id), [(404, "M_NOT_FOUND")] * 5, "calls for the partial room")
    equal(await ask(stranger, "!other:" + owner.name), [(404, "M_UNRECOGNIZED")] * 5, "calls for another room")
    equal({s for s, _ in await ask(stranger, joined.room.room_id, header="")}, {401}, "calls without a signature")


@case("join-intent-settled", timeout=60)
async def settled(rig: Rig) -> None:
    """kill -9 while send_join is on its way: at the next start the stream has one `settled` item that names room, user,
    event and server; nothing is half joined, and the user can join again."""
    engine = await rig.engine()
    owner = rig.peer(1)
    room = Room(owner)
    held = owner.hold("/send_join/")
    asking = asyncio.create_task(join(engine, room.room_id, user(engine), [owner.name]))
    await until(lambda: held.arrived, 10, "send_join")
    await engine.kill9()
    await asyncio.gather(asking, return_exceptions=True)
    held.release()
    await engine.start()
    item = await rig.collector(engine).until(lambda i: i["kind"] == "partial_join", 5, "settled item")
    equal([item["room_id"], item["state"], item["users"], list(item["servers"])],
          [room.room_id, "settled", [user(engine)], [owner.name]], "the item")
    check(item.get("reason") and item.get("event_id"), f"the item is {item}")
    await unjoined(engine, room)
    equal((await join(engine, room.room_id, user(engine), [owner.name]))[0], 200, "the join after it")
    await engine.restart()
    again = [i for i in (await engine.stream())["items"] if i["kind"] == "partial_join" and i["state"] == "settled"]
    check(len(again) <= 1, "it was settled twice")


@case("join-by-host")
async def by_host(rig: Rig) -> None:
    """A `partial_join` record: the host made the join itself. The room is partial, its servers get events and device
    changes; fed again it changes nothing."""
    engine = await rig.engine()
    owner, other = rig.peers(2)
    room = Room(owner, [other.user("derek")])
    event = matrix.build_event(engine.key, engine.name, room.room_id, user(engine), "m.room.member",
                               {"membership": "join"}, state_key=user(engine), prev=room.head, depth=room.depth + 1)
    record = {"kind": "partial_join", "room_id": room.room_id, "room_version": "10", "user_id": user(engine),
              "event_id": matrix.event_id(event), "event": event, "joined_via": owner.name,
              "servers_in_room": [owner.name, other.name]}
    room.accept(event)
    for peer in (owner, other):
        peer.hold("/state")
    await engine.feed(record)
    first = await view(engine, room.room_id)
    equal([first["partial"], first["members"], sorted(first["servers"])],
          [True, {user(engine): "join"}, sorted([owner.name, other.name])], "the room")
    await engine.feed(record, device(user(engine), "A", name="phone"))
    again = await view(engine, room.room_id)
    equal(again["partial_join"]["since_ms"], first["partial_join"]["since_ms"], "when it began, fed twice")
    for peer in (owner, other):
        await until(lambda: peer.device_edus(user(engine)), 10, f"a device update at {peer.name}")


@case("join-partial-keeps-departed")
async def departed(rig: Rig) -> None:
    """P9: while partial no server is let go because one of its members is seen leaving, and servers of members seen
    joining are added; a message of ours goes to all of them."""
    engine = await rig.engine()
    owner, other, late = rig.peers(3)
    joined = await partial_join(engine, owner, [other.user("derek")], others=[other, late], user_id=user(engine))
    room_id = joined.room.room_id
    await engine.feed({"kind": "membership", "room_id": room_id, "user_id": other.user("derek"), "membership": "join"},
                      {"kind": "membership", "room_id": room_id, "user_id": other.user("derek"), "membership": "leave"},
                      {"kind": "membership", "room_id": room_id, "user_id": late.user("elsie"), "membership": "join"})
    equal(sorted((await view(engine, room_id))["servers"]), sorted([owner.name, other.name, late.name]), "the servers")
    event = matrix.build_event(engine.key, engine.name, room_id, user(engine), "m.room.message", {"body": "hi"},
                               prev=joined.room.head, depth=joined.room.depth + 1)
    await engine.feed(pdu(event))
    for peer in (owner, other, late):
        await has(peer, [pdu(event)])


@case("join-state-waits")
async def state_waits(rig: Rig) -> None:
    """A state call waits its wait_ms for the join to be complete and is 409 then; the room forgotten meanwhile, 404."""
    engine = await rig.engine()
    owner = rig.peer(1)
    joined = await partial_join(engine, owner, user_id=user(engine))
    room_id = joined.room.room_id
    begun = time.monotonic()
    status, body = await room_state(engine, room_id, 1500)
    equal([status, body.get("errcode")], [409, "M_RANVIER_PARTIAL"], "the answer")
    check(1.4 <= time.monotonic() - begun <= 10, f"it came after {time.monotonic() - begun:.1f} s")
    check(room_id in body["error"], f"it says {body}")
    waiting = asyncio.create_task(room_state(engine, room_id, 1500))
    await asyncio.sleep(0.3)
    await engine.feed({"kind": "room_forgotten", "room_id": room_id, "now": True})
    equal((await waiting)[0], 404, "the state of a room that was forgotten meanwhile")
    equal((await engine.host("GET", f"/rooms/{quote(room_id)}"))[0], 404, "the room")


@case("join-state-of-full-room")
async def full_room_state(rig: Rig) -> None:
    """Of a room that was joined in full the host has the state already: its state call says so (404), an unknown room's
    likewise; a wait that isn't a number is 400."""
    engine = await rig.engine()
    owner = rig.peer(1)
    room = Room(owner)
    equal((await room_state(engine, room.room_id))[0], 404, "state of an unknown room")
    equal((await join(engine, room.room_id, user(engine), [owner.name], partial=False))[0], 200, "the join")
    status, body = await room_state(engine, room.room_id)
    equal([status, body["errcode"]], [404, "M_NOT_FOUND"], "state of a full room")
    equal((await engine.host("GET", f"/rooms/{quote(room.room_id)}/state?wait_ms=x"))[0], 400, "a wrong wait_ms")
