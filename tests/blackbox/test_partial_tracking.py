"""Device lists of others while a room is partial: what is cached, kept, announced and doubted (CONFORMANCE 4e, W4, W5,
W9, W11; CASES B97, B98; PROTOCOL P11, P12), each test under its public name."""
from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Iterable

from rig import Engine, Peer, Rig, case, check, equal, quote, until_async, user
from rig.books import DeviceBook
from rig.collector import Collector
from rig.matrix import Json
from rig.records import membership
from rig.rooms import Joined, Room, join, partial_join, view


@dataclass
class Scene:
    """charlie and derek are in the owner's room; elsie may join it. Everybody has a device, and makes new ones."""
    engine: Engine
    owner: Peer
    joined: Joined
    stream: Collector
    count: dict[str, int] = field(default_factory=dict)

    @property
    def alice(self) -> str:
        return user(self.engine)

    @property
    def room_id(self) -> str:
        return self.joined.room.room_id

    def who(self, local: str) -> str:
        return self.owner.user(local)

    def book(self, local: str) -> DeviceBook:
        return self.owner.book(self.who(local))

    def asked(self) -> int:
        return len(self.owner.asked("/user/"))

    async def query(self, local: str, requests: int) -> None:
        """keys/query says what is true, at the cost of exactly so many requests."""
        before = self.asked()
        got = (await self.engine.keys_query(self.who(local)))["device_keys"].get(self.who(local), {})
        equal([set(got), self.asked() - before], [set(self.book(local).devices), requests],
              f"devices of {local}, and requests for them")

    async def update(self, local: str) -> None:
        """A new device; the one before it was never told, so something is missing."""
        book = self.book(local)
        book.set(f"D{book.stream_id}")
        equal((await self.owner.send(edus=[book.set(f"D{book.stream_id}")]))[0], 200, "our answer to an update")

    async def says(self, local: str, value: str, room_id: str = "") -> None:
        """The host accepted a membership event."""
        await self.engine.feed(membership(room_id or self.room_id, self.who(local), value))

    async def is_changed(self, local: str, within: float = 8) -> None:
        """Announced on the stream, and in what an alice asks for of that stretch."""
        start = self.stream.next or 0
        item = await self.stream.until(
            lambda i: i["kind"] == "device_lists" and self.who(local) in i["changed"], within, f"{local} changed")
        await self.in_changes(local, "changed", min(start, item["position"] - 1))

    async def is_left(self, local: str) -> None:
        start = self.stream.next or 0
        item = await self.stream.until(
            lambda i: i["kind"] == "device_lists" and self.who(local) in i["left"], 8, f"{local} left")
        await self.in_changes(local, "left", min(start, item["position"] - 1))

    async def in_changes(self, local: str, which: str, start: int) -> None:
        status, body = await self.engine.host(
            "GET", f"/device_lists/changes?user_id={quote(self.alice)}&from={start}&to={self.stream.next}")
        equal([status, self.who(local) in body[which]], [200, True], f"{local} in {which} of the range: {body}")

    def changed(self) -> list[str]:
        return sorted({u for i in self.stream.of("device_lists") for u in i["changed"]} - {self.alice})

    async def quiet(self) -> None:
        await self.stream.settle(0.6)
        self.stream.forget()

    async def complete(self) -> None:
        self.joined.release()
        await self.stream.until(lambda i: i["kind"] == "partial_join", 15, "completion")
        await self.stream.settle(0.5)


async def scene(rig: Rig, members: Iterable[str] = ("charlie", "derek"), hold: bool = True, **overrides: Any) -> Scene:
    engine = await rig.engine(**overrides)
    owner = rig.peer(1)
    for local in (*members, "elsie"):
        owner.book(owner.user(local)).set("FIRST")
    if not hold:
        owner.answer("/state", 403)
    joined = await partial_join(engine, owner, [owner.user(m) for m in members], user_id=user(engine), hold=hold)
    if hold:
        await joined.held()
    made = Scene(engine, owner, joined, rig.collector(engine))
    await made.quiet()
    equal(made.asked(), 0, "requests for lists because of the join (W9)")
    return made


@case("Device_list_tracking_for_pre-existing_members_in_partial_state_room")
async def pre_existing(rig: Rig) -> None:
    """Each query goes out while partial, with one request (W5); an update fetches nothing and is announced at
    completion; after it the next query goes out, the one after is cached."""
    s = await scene(rig)
    await s.query("charlie", 1)
    await s.query("charlie", 1)
    before = s.asked()
    await s.update("charlie")
    await asyncio.sleep(1)
    equal(s.asked() - before, 0, "requests because of the update")
    await s.query("charlie", 1)
    await s.query("derek", 1)
    await s.complete()
    await s.is_changed("charlie")
    equal(s.changed(), [s.who("charlie")], "who changed at completion (W11)")
    await s.query("charlie", 1)
    await s.query("charlie", 0)
    await s.query("derek", 1)
    await s.query("derek", 0)


@case("Device_list_tracking_when_pre-existing_members_join_another_shared_room")
async def another_room(rig: Rig) -> None:
    """charlie joins a full room of ours meanwhile: changed, one request, then cached, also over completion."""
    s = await scene(rig)
    await s.query("charlie", 1)
    other = "!other:" + s.engine.name
    await s.engine.feed(membership(other, s.alice))
    await s.says("charlie", "join", other)
    await s.is_changed("charlie")
    await s.query("charlie", 1)
    await s.query("charlie", 0)
    await s.quiet()
    await s.update("charlie")
    await s.is_changed("charlie")
    await s.query("charlie", 0)
    await s.complete()
    await s.query("charlie", 0)


@case("Device_list_tracked_for_new_members_in_partial_state_room")
async def new_member(rig: Rig) -> None:
    """Who joins after us is changed, fetched once and cached; a gap is resynced; the cache outlives completion."""
    s = await scene(rig)
    s.joined.room.join(s.who("elsie"))
    await s.says("elsie", "join")
    await s.is_changed("elsie")
    await s.query("elsie", 1)
    await s.query("elsie", 0)
    await s.quiet()
    before = s.asked()
    await s.update("elsie")
    await s.is_changed("elsie")
    equal(s.asked() - before, 1, "requests for the update")
    await s.query("elsie", 0)
    await s.quiet()
    await s.complete()
    equal(s.changed(), [], "who changed at completion")
    await s.query("elsie", 0)
    await s.update("elsie")
    await s.is_changed("elsie")
    await s.query("elsie", 0)


@case("Device_list_no_longer_tracked_when_new_member_leaves_partial_state_room")
async def new_member_leaves(rig: Rig) -> None:
    """Who joined after us leaves: left, and queries go out again."""
    s = await scene(rig)
    await s.says("elsie", "join")
    await s.query("elsie", 1)
    await s.query("elsie", 0)
    await s.says("elsie", "leave")
    await s.is_left("elsie")
    await s.query("elsie", 1)
    await s.query("elsie", 1)


async def untracked_after(s: Scene, end: Any) -> None:
    await s.says("elsie", "join")
    await s.query("elsie", 1)
    await s.query("elsie", 0)
    await s.query("charlie", 1)
    await s.quiet()
    await end()
    await s.is_left("elsie")
    for local in ("elsie", "elsie", "charlie", "charlie"):
        await s.query(local, 1)
    await s.quiet()
    s.joined.release()
    await asyncio.sleep(0.7)
    await s.query("elsie", 1)
    status, _ = await s.owner.send(edus=[s.book("elsie").set("LATE")])
    equal(status, 200, "our answer")
    await s.stream.settle(0.7)
    equal(s.changed(), [], "who changed after the end")


@case("Device_list_no_longer_tracked_when_leaving_partial_state_room")
async def leaving(rig: Rig) -> None:
    """The last of ours leaves before completion (skipped for Synapse): left, nothing is cached any more."""
    s = await scene(rig)

    async def end() -> None:
        await s.engine.feed(membership(s.room_id, s.alice, "leave"))
    await untracked_after(s, end)


@case("Device_list_no_longer_tracked_when_failing_to_complete_partial_state_join", timeout=60)
async def failing(rig: Rig) -> None:
    """The join is abandoned since every server refuses (a case without a body in the public suite): likewise."""
    s = await scene(rig, hold=False, partial_join={"abandon_after": "6s"})

    async def end() -> None:
        item = await s.stream.until(lambda i: i["kind"] == "partial_join", 30, "the end")
        equal(item["state"], "abandoned", "the end")
    await untracked_after(s, end)


async def wrongly_joined(s: Scene) -> None:
    """elsie is taken for joined, and her list is cached; in truth she was kicked, and her list goes on without us."""
    await s.says("elsie", "join")
    await s.is_changed("elsie")
    await s.query("elsie", 1)
    await s.query("elsie", 0)
    s.book("elsie").set("UNSEEN")
    await s.quiet()


@case("Device_list_no_longer_tracked_for_user_incorrectly_believed_to_be_in_room")
async def believed(rig: Rig) -> None:
    """The host takes the join back when it has the state: left, and the next query goes out."""
    s = await scene(rig)
    await wrongly_joined(s)
    await s.complete()
    await s.says("elsie", "leave")
    await s.is_left("elsie")
    await s.query("elsie", 1)


@case("B98_rejoined_before_the_partial_join_completes")
async def rejoin_before(rig: Rig) -> None:
    """B98 ("when they rejoin before partial state join completes", skipped for Synapse): the cache is flushed, elsie
    is changed, the first query after completion has both devices."""
    s = await scene(rig)
    await wrongly_joined(s)
    s.joined.room.join(s.who("elsie"))
    await s.says("elsie", "join")
    await s.complete()
    await s.is_changed("elsie")
    await s.query("elsie", 1)
    await s.query("elsie", 0)


@case("B98_rejoined_after_the_partial_join_completes")
async def rejoin_after(rig: Rig) -> None:
    """"... when they rejoin after partial state join completes": the cache is flushed."""
    s = await scene(rig)
    await wrongly_joined(s)
    await s.complete()
    await s.says("elsie", "leave")
    await s.is_left("elsie")
    await s.quiet()
    await s.says("elsie", "join")
    await s.is_changed("elsie")
    await s.query("elsie", 1)
    await s.query("elsie", 0)


@case("B98_joined_again_though_the_state_shows_a_member")
async def joined_again(rig: Rig) -> None:
    """elsie is a member in the state, and joins once more meanwhile: between the two we missed something, and what was
    cached then isn't trusted."""
    s = await scene(rig, ("charlie", "derek", "elsie"))
    await s.says("elsie", "join")
    await s.query("elsie", 1)
    await s.query("elsie", 0)
    s.book("elsie").set("NEW")  # her server doesn't tell us: she was kicked then
    await s.complete()
    await s.query("elsie", 1)
    await s.query("elsie", 0)


@case("B98_joined_another_shared_room_before_the_partial_join_completes")
async def another_before(rig: Rig) -> None:
    """"... when they join another shared room before partial state join completes" (skipped for Synapse): what was
    cached for a belief is flushed when a room that we know in full is shared."""
    s = await scene(rig)
    await wrongly_joined(s)
    other = "!other:" + s.engine.name
    await s.engine.feed(membership(other, s.alice))
    await s.says("elsie", "join", other)
    await s.complete()
    await s.says("elsie", "leave")
    await s.is_changed("elsie")
    await s.query("elsie", 1)
    await s.query("elsie", 0)


@case("B98_the_answer_showed_somebody_who_had_left")
async def stale_answer(rig: Rig) -> None:
    """The join's answer shows an old membership, the state doesn't: left, and not cached before or after."""
    engine = await rig.engine()
    owner = rig.peer(1)
    room = Room(owner, [owner.user("charlie")])
    owner.book(owner.user("elsie")).set("FIRST")
    old = room.join(owner.user("elsie"))
    room.leave(owner.user("elsie"))
    room.message()
    room.spoil_answer = lambda answer: answer["state"].append(old)
    hold = owner.hold("/state")
    status, answer = await join(engine, room.room_id, user(engine), [owner.name])
    equal([status, answer.get("partial")], [200, True], f"the join ({str(answer)[:200]})")
    s = Scene(engine, owner, Joined(room, answer, [hold], [owner]), rig.collector(engine))
    await s.joined.held()
    equal((await view(engine, room.room_id))["members"].get(s.who("elsie")), "join", "elsie while partial")
    await s.query("elsie", 1)
    await s.query("elsie", 1)
    await s.quiet()
    await s.complete()
    await s.is_left("elsie")
    await s.query("elsie", 1)
    await s.query("elsie", 1)


# --- kept updates ---
@case("B97_updates_of_members_not_yet_known_are_kept")
async def kept(rig: Rig) -> None:
    """B97: an update of somebody who isn't known yet is kept until the state shows them: changed then, and the query
    fetches the new list. Of somebody whom the state doesn't show it is dropped. Survives kill -9."""
    s = await scene(rig)
    await s.update("charlie")
    await s.update("elsie")  # isn't in the room
    await s.engine.restart(kill=True)
    await s.complete()
    await s.is_changed("charlie")
    equal(s.changed(), [s.who("charlie")], "who changed")
    await s.query("charlie", 1)
    await s.query("elsie", 1)


@case("partial-two-rooms-share-a-user", timeout=60)
async def two_rooms(rig: Rig) -> None:
    """Two partial rooms, one unknown user in both or in one: whichever ends first, the update is announced by the one
    that shows the user, and isn't lost by the other's end."""
    for first_has, abandon in ((False, False), (True, False), (False, True)):
        engine = await rig.engine()
        a, b = rig.peers(2)
        derek = b.user("derek")
        one = await partial_join(engine, a, [derek] if first_has else [], user_id=user(engine))
        two = await partial_join(engine, b, [derek], user_id=user(engine))
        await one.held()
        await two.held()
        stream = rig.collector(engine)
        await stream.settle(0.5)
        stream.forget()
        status, _ = await b.send(edus=[{"edu_type": "m.device_list_update", "content": {
            "user_id": derek, "device_id": "D", "stream_id": 1}}])
        equal(status, 200, "our answer")
        if abandon:
            await engine.host("POST", f"/rooms/{quote(one.room.room_id)}/partial_join/abandon", {})
        one.release()
        await stream.until(lambda i: i["kind"] == "partial_join" and i["room_id"] == one.room.room_id, 10, "its end")
        await stream.settle(0.5)
        equal(stream.changed(derek), int(first_has), "how often derek changed after the first end")
        two.release()
        await stream.until(lambda i: i["kind"] == "partial_join" and i["room_id"] == two.room.room_id, 10, "its end")
        await stream.settle(0.5)
        equal(stream.changed(derek), 1, "how often derek changed")
        check(not b.asked("/user/devices/"), "the list was fetched")
        await engine.kill9()


@case("W4_first_update_without_prev_id")
async def first_update(rig: Rig) -> None:
    """W4: the first update of somebody with whom a full room is shared is fetched at once, though another room is
    partial; of somebody who is only in the partial room nothing is."""
    s = await scene(rig)
    other = "!other:" + s.engine.name
    await s.engine.feed(membership(other, s.alice))
    await s.says("charlie", "join", other)
    await s.quiet()
    for local in ("charlie", "derek"):
        edu: Json = {"user_id": s.who(local), "device_id": "FIRST", "stream_id": 1}
        equal((await s.owner.send(edus=[{"edu_type": "m.device_list_update", "content": edu}]))[0], 200, "our answer")

    async def fetched() -> bool:
        return bool(s.owner.asked("/user/devices/" + s.who("charlie")))
    await until_async(fetched, 5, "charlie's list is fetched")
    await asyncio.sleep(1)
    equal(len(s.owner.asked("/user/devices/" + s.who("derek"))), 0, "requests for derek's list")
    await s.complete()
    await s.is_changed("derek")
