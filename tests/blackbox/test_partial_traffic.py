"""What passes while a room is partial, being asked, waiting for the end and leaving (CONFORMANCE 4a, 4b, 4c, 4f), each
test under its public name."""
from __future__ import annotations

import asyncio
import time
from typing import Any

from rig import Engine, Peer, Rig, case, check, equal, has, matrix, quote, steady, until, until_async, user
from rig.matrix import Json
from rig.records import membership, pdu
from rig.rooms import Joined, Room, join, partial_join, room_state, view


async def charlie_and_derek(rig: Rig, **overrides: Any) -> tuple[Engine, Peer, Joined]:
    """The public suite's fixture: a server with charlie and derek, our alice in their room, the state held."""
    engine = await rig.engine(**overrides)
    owner = rig.peer(1)
    joined = await partial_join(engine, owner, [owner.user("charlie"), owner.user("derek")], user_id=user(engine))
    await joined.held()
    return engine, owner, joined


def ours(engine: Engine, room: Room, kind: str = "m.room.message", content: Json | None = None,
         state_key: str | None = None, who: str = "alice") -> Json:
    return pdu(matrix.build_event(engine.key, engine.name, room.room_id, user(engine, who), kind,
                                  {"body": "hello"} if content is None else content, state_key=state_key,
                                  prev=room.head, depth=room.depth + 1))


async def is_full(engine: Engine, joined: Joined, within: float = 20) -> Json:
    async def full() -> Any:
        seen = await view(engine, joined.room.room_id)
        return seen if seen["partial"] is False else None
    return await until_async(full, within, "the room is full")


@case("EagerLongPollingSyncWokenWhenResyncCompletes")
async def woken(rig: Rig) -> None:
    """A state call that waits 10 s answers as soon as the join completes, with every member (also
    MembersRequestBlocksDuringPartialStateJoin, "joined_members blocks during partial state join")."""
    engine, owner, joined = await charlie_and_derek(rig)
    asking = asyncio.create_task(room_state(engine, joined.room.room_id, 10_000))
    await asyncio.sleep(0.7)
    check(not asking.done(), "it answered while the room is partial")
    begun = time.monotonic()
    joined.release()
    status, body = await asking
    check(time.monotonic() - begun < 3, f"it was woken after {time.monotonic() - begun:.1f} s")
    members = {e["state_key"] for e in body["state"] if e["type"] == "m.room.member"}
    equal([status, members], [200, {joined.room.creator, owner.user("charlie"), owner.user("derek")}], "the members")


@case("EagerInitialSyncDuringPartialStateJoin")
async def eager(rig: Rig) -> None:
    """The room says that it is partial until it is full (a host leaves it out of eager syncs by that), then it has both
    members; a message sent meanwhile arrives (also EagerIncremental..., CanLazyLoadingSync..., room stats)."""
    engine, owner, joined = await charlie_and_derek(rig)
    seen = await view(engine, joined.room.room_id)
    equal([seen["partial"], seen["members"]], [True, {user(engine): "join"}], "the room while partial")
    message = ours(engine, joined.room)
    await engine.feed(message)
    await has(owner, [message], 2)
    joined.release()
    seen = await is_full(engine, joined)
    equal({u for u, m in seen["members"].items() if m == "join"},
          {user(engine), joined.room.creator, owner.user("charlie"), owner.user("derek")}, "the members when full")


@case("Room_aliases_can_be_added_and_queried_during_a_resync")
async def aliases(rig: Rig) -> None:
    """The room's servers, which an alias lookup tells, are those of servers_in_room while it is partial."""
    engine = await rig.engine()
    owner, other = rig.peers(2)
    joined = await partial_join(engine, owner, [other.user("derek")], others=[other], user_id=user(engine))
    equal(sorted((await view(engine, joined.room.room_id))["servers"]), sorted([owner.name, other.name]), "the servers")


@case("Purge_during_resync")
async def purge(rig: Rig) -> None:
    """The room is forgotten while /state_ids is held: the late answer is ignored, nothing more is asked."""
    engine, owner, joined = await charlie_and_derek(rig)
    await engine.feed({"kind": "room_forgotten", "room_id": joined.room.room_id, "now": True})
    asked = joined.asked
    joined.release()
    await steady(lambda: joined.asked - asked, 2, "state questions after the room was forgotten")
    equal((await engine.host("GET", f"/rooms/{quote(joined.room.room_id)}"))[0], 404, "the room")


@case("Can_change_display_name_during_partial_state_join")
async def display_name(rig: Rig) -> None:
    """A member event of ours (join to join) is sent while the room is partial."""
    engine, owner, joined = await charlie_and_derek(rig)
    event = ours(engine, joined.room, "m.room.member", {"membership": "join", "displayname": "A"}, user(engine))
    await engine.feed(membership(joined.room.room_id, user(engine)), event)
    await has(owner, [event], 2)


@case("CanSendEventsDuringPartialStateJoin")
async def sends(rig: Rig) -> None:
    """A message is taken within 2 s and reaches the server within another."""
    engine, owner, joined = await charlie_and_derek(rig)
    message = ours(engine, joined.room)
    begun = time.monotonic()
    await engine.feed(message)
    check(time.monotonic() - begun < 2, "the feed waited")
    await has(owner, [message], 1.5)


@case("CanReceiveTypingDuringPartialStateJoin")
async def typing(rig: Rig) -> None:
    """Typing is passed on while partial, an event after it too, and the stop after completion."""
    engine, owner, joined = await charlie_and_derek(rig)
    derek, stream = owner.user("derek"), rig.collector(engine)

    async def types(on: bool) -> None:
        content = {"room_id": joined.room.room_id, "user_id": derek, "typing": on}
        equal((await owner.send(edus=[{"edu_type": "m.typing", "content": content}]))[0], 200, "our answer")
        await stream.until(lambda i: i["kind"] == "edu" and i["content"] == content, 5, f"typing {on}")
    await types(True)
    event = joined.room.message(derek)
    equal((await owner.send([event]))[0], 200, "our answer to an event")
    item = await stream.until(lambda i: i["kind"] == "pdu", 5, "the event")
    equal([item["event_id"], item["verified"]], [matrix.event_id(event), True], "the event")
    joined.release()
    await stream.until(lambda i: i["kind"] == "partial_join", 10, "completion")
    await types(False)


@case("CanReceivePresenceDuringPartialStateJoin")
async def presence(rig: Rig) -> None:
    """Presence of a member whom we don't know yet is passed on while partial."""
    engine, owner, _ = await charlie_and_derek(rig)
    content = {"push": [{"user_id": owner.user("derek"), "presence": "online", "last_active_ago": 100}]}
    equal((await owner.send(edus=[{"edu_type": "m.presence", "content": content}]))[0], 200, "our answer")
    item = await rig.collector(engine).until(lambda i: i["kind"] == "edu", 5, "presence")
    equal([item["edu_type"], item["content"]], ["m.presence", content], "the item")


@case("CanReceiveToDeviceDuringPartialStateJoin")
async def to_device(rig: Rig) -> None:
    """A wildcard to-device message of derek is delivered while partial."""
    engine, owner, _ = await charlie_and_derek(rig)
    content = {"sender": owner.user("derek"), "type": "m.test", "message_id": "hiezohf6Hoo7kaev",
               "messages": {user(engine): {"*": {"n": 1}}}}
    equal((await owner.send(edus=[{"edu_type": "m.direct_to_device", "content": content}]))[0], 200, "our answer")
    item = await rig.collector(engine).until(lambda i: i["kind"] == "to_device", 5, "the message")
    equal([item["sender"], item["messages"]], [content["sender"], content["messages"]], "the item")


@case("CanReceiveReceiptDuringPartialStateJoin")
async def receipt(rig: Rig) -> None:
    """A receipt for an event that nobody here knows is passed on while partial."""
    engine, owner, joined = await charlie_and_derek(rig)
    content = {joined.room.room_id: {"m.read": {owner.user("derek"): {"event_ids": ["$nobody_knows_it"],
                                                                     "data": {"ts": 1436451550453}}}}}
    equal((await owner.send(edus=[{"edu_type": "m.receipt", "content": content}]))[0], 200, "our answer")
    item = await rig.collector(engine).until(lambda i: i["kind"] == "edu", 5, "the receipt")
    equal(item["content"], content, "the item")


@case("CanReceiveSigningKeyUpdateDuringPartialStateJoin")
async def signing_keys(rig: Rig) -> None:
    """A signing key update that names a user and nothing else is answered 200."""
    engine, owner, _ = await charlie_and_derek(rig)
    status, _ = await owner.send(edus=[{"edu_type": "m.signing_key_update",
                                        "content": {"user_id": owner.user("derek")}}])
    equal(status, 200, "our answer")


@case("CanReceiveEventsDuringPartialStateJoin")
async def events(rig: Rig) -> None:
    """An event of derek reaches the host while partial; we give nobody the room's state meanwhile (here: at all, that
    is the host's)."""
    engine, owner, joined = await charlie_and_derek(rig)
    event = joined.room.message(owner.user("derek"))
    equal((await owner.send([event]))[0], 200, "our answer")
    item = await rig.collector(engine).until(lambda i: i["kind"] == "pdu", 5, "the event")
    equal(item["event_id"], matrix.event_id(event), "the event")
    status, _ = await owner.request("GET", f"/_matrix/federation/v1/state_ids/{joined.room.room_id}"
                                           f"?event_id={matrix.event_id(event)}")
    check(status in (403, 404), f"our answer to state_ids is {status}")


@case("B91_refused_shortly_after_the_join", timeout=60)
async def refused_at_first(rig: Rig) -> None:
    """B91: the server that was joined through gives 504, the others 403 as they know of no join: none
    of it is final, they are asked again, and the room becomes full."""
    engine = await rig.engine()
    owner, *others = rig.peers(3)
    owner.answer("/state", 504)
    early = [peer.answer("/state", 403, times=1) for peer in others]
    joined = await partial_join(engine, owner, [p.user("derek") for p in others], others=others, user_id=user(engine),
                                hold=False)
    await until(lambda: all(rule.hits for rule in early), 10, "the others refuse")
    seen = await view(engine, joined.room.room_id)
    equal([seen["partial"], seen["partial_join"]["servers"][others[0].name]["verdict"]], [True, "refused"], "the room")
    await is_full(engine, joined, 30)
    check(len(owner.asked("/state_ids/")) >= 1, "the first wasn't asked")


# --- 4f: leaving during the resync ---
async def leaves(engine: Engine, room: Room, who: str = "alice", membership_: str = "leave") -> Json:
    """A leave of ours: event and roster line, taken at once."""
    event = ours(engine, room, "m.room.member", {"membership": membership_}, user(engine, who), who)
    begun = time.monotonic()
    await engine.feed(event, membership(room.room_id, user(engine, who), membership_))
    check(time.monotonic() - begun < 1, "the leave waited")
    room.accept(event["event"])
    return event


@case("LeaveDuringResync_is_seen_after_the_resync")
async def seen_after(rig: Rig) -> None:
    """A leave is sent and completion comes right after it: the leave arrives and counts."""
    engine, owner, joined = await charlie_and_derek(rig)
    event = await leaves(engine, joined.room)
    joined.release()
    await has(owner, [event], 2)
    await asyncio.sleep(0.7)
    seen = await view(engine, joined.room.room_id)
    equal([seen["partial"], seen["members"].get(user(engine), "leave")], [False, "leave"], "the room")


@case("LeaveDuringResync_works_after_a_second_partial_join")
async def second_join(rig: Rig) -> None:
    """Two of ours joined while partial and one leaves: the resync goes on and completes for the other."""
    engine, owner, joined = await charlie_and_derek(rig)
    room = joined.room
    equal((await join(engine, room.room_id, user(engine, "bob"), [owner.name]))[0], 200, "bob's join")
    event = await leaves(engine, room)
    await has(owner, [event], 2)
    equal((await view(engine, room.room_id))["partial"], True, "still partial after the first one left")
    joined.release()
    seen = await is_full(engine, joined)
    equal([seen["members"].get(user(engine), "leave"), seen["members"][user(engine, "bob")],
           seen["members"][owner.user("charlie")]], ["leave", "join", "join"], "the members")
    message = ours(engine, room, who="bob")
    await engine.feed(message)
    await has(owner, [message], 2)


@case("LeaveDuringResync_rejoin_succeeds_without_resync_completing")
async def rejoins(rig: Rig) -> None:
    """Left while the state is held, and joined again: a new partial join. The old answer that comes now is ignored (its
    state would be the wrong one), the new join completes with its own."""
    engine, owner, joined = await charlie_and_derek(rig)
    room = joined.room
    await leaves(engine, room)
    room.leave(owner.user("derek"))
    room.message()
    again = owner.hold("/state")
    status, answer = await join(engine, room.room_id, user(engine), [owner.name])
    equal([status, answer["partial"]], [200, True], "the second join")
    await until(lambda: again.arrived, 10, "the second join's question")
    joined.release()
    await asyncio.sleep(1)
    seen = await view(engine, room.room_id)
    check(seen["partial"] and owner.user("charlie") not in seen["members"], f"the old answer counted: {seen}")
    again.release()
    seen = await is_full(engine, joined)
    equal([seen["members"].get(owner.user("charlie")), seen["members"].get(owner.user("derek"), "leave")],
          ["join", "leave"], "the members")


@case("LeaveDuringResync_another_user_can_join_without_resync_completing")
async def another_joins(rig: Rig) -> None:
    """The only one of ours leaves while partial and another joins: a partial join of its own, which completes."""
    engine, owner, joined = await charlie_and_derek(rig)
    await leaves(engine, joined.room)
    status, answer = await join(engine, joined.room.room_id, user(engine, "bob"), [owner.name])
    equal([status, answer["partial"]], [200, True], "bob's join")
    joined.release()
    seen = await is_full(engine, joined)
    equal([seen["members"].get(user(engine), "leave"), seen["members"][user(engine, "bob")]], ["leave", "join"],
          "the members")


async def removed(rig: Rig, how: str) -> None:
    engine, owner, joined = await charlie_and_derek(rig)
    room, stream = joined.room, rig.collector(engine)
    event = room.leave(user(engine), room.creator, how)
    equal((await owner.send([event]))[0], 200, "our answer")
    await stream.until(lambda i: i["kind"] == "pdu" and i["event_id"] == matrix.event_id(event), 3, f"the {how}")
    await engine.feed(membership(room.room_id, user(engine), how))  # as the host does then
    equal((await view(engine, room.room_id))["partial"], False, "partial")
    asked = joined.asked
    joined.release()
    await steady(lambda: joined.asked - asked, 1.5, "state questions afterwards")
    status, answer = await join(engine, room.room_id, user(engine), [owner.name])
    wanted = [403, "M_FORBIDDEN"] if how == "ban" else [200, None]
    equal([status, answer.get("errcode")], wanted, "a join after it")


@case("LeaveDuringResync_can_be_triggered_by_remote_kick")
async def kicked(rig: Rig) -> None:
    """A kick of ours that comes while partial reaches the host at once and ends the resync; joining again works."""
    await removed(rig, "leave")


@case("LeaveDuringResync_can_be_triggered_by_remote_ban")
async def banned(rig: Rig) -> None:
    """A ban of ours that comes while partial reaches the host at once and ends the resync; joining again is 403."""
    await removed(rig, "ban")
