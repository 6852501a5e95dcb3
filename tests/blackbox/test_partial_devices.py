"""Device lists of ours that go out while a room is partial and at its end (CONFORMANCE 4d, W1, W6; PROTOCOL P9, P10,
P13), each test under its public name. The update that a join itself causes (W1) is drained first."""
from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Iterable

from rig import Engine, Peer, Rig, case, check, device, equal, quote, until, until_async, user
from rig.records import membership
from rig.rooms import Joined, partial_join, view


@dataclass
class Scene:
    """alice has a phone, which she renames; server 1 owns the room, server 2 may be in it."""
    engine: Engine
    joined: Joined
    first: Peer
    second: Peer
    names: int = 0

    @property
    def alice(self) -> str:
        return user(self.engine)

    @property
    def room_id(self) -> str:
        return self.joined.room.room_id

    def got(self, peer: Peer, name: str) -> int:
        return sum(e.get("device_display_name") == name for e in peer.device_edus(self.alice))

    async def rename(self, reached: Iterable[Peer], not_reached: Iterable[Peer] = ()) -> str:
        """A rename; who is reached gets it once, within 2 s; who isn't, gets nothing for 1 s."""
        self.names += 1
        name = f"phone {self.names}"
        counts = {p.name: len(p.device_edus(self.alice)) for p in not_reached}
        await self.engine.feed({"kind": "device", "user_id": self.alice, "device_id": "PHONE", "display_name": name})
        for peer in reached:
            await until(lambda: self.got(peer, name), 2, f"{name} at {peer.name}")
        await asyncio.sleep(1)
        for peer in reached:
            equal(self.got(peer, name), 1, f"how often {name} came to {peer.name}")
        for peer in not_reached:
            equal(len(peer.device_edus(self.alice)), counts[peer.name], f"updates at {peer.name} after {name}")
        return name

    async def complete(self) -> None:
        self.joined.release()

        async def full() -> bool:
            return (await view(self.engine, self.room_id))["partial"] is False
        await until_async(full, 20, "the room is full")

    async def says(self, who: str, value: str) -> None:
        """The host accepted a membership event of the room."""
        await self.engine.feed(membership(self.room_id, who, value))


async def scene(rig: Rig, members: Iterable[str] = (), second_in_room: bool = False, listed: bool = True) -> Scene:
    engine = await rig.engine(delivery={"join_update_delay": "0s"})
    first, second = rig.peers(2)
    there = [first.user("charlie"), first.user("derek"), *members] + ([second.user("elsie")] if second_in_room else [])
    await engine.feed(device(user(engine), "PHONE", name="phone"))
    joined = await partial_join(engine, first, there, others=[second], user_id=user(engine),
                                listed=None if listed else [first.name])
    await joined.held()
    made = Scene(engine, joined, first, second)
    for peer in [first] + ([second] if second_in_room and listed else []):
        await until(lambda: peer.device_edus(made.alice), 5, f"the join's own update at {peer.name}")
    return made


@case("Device_list_updates_reach_all_servers_in_partial_state_rooms")
async def all_servers(rig: Rig) -> None:
    """Both servers get an update while partial, and both after completion; completion itself sends nothing again."""
    at = await scene(rig, second_in_room=True)
    await at.rename([at.first, at.second])
    counts = [len(p.device_edus(at.alice)) for p in (at.first, at.second)]
    await at.complete()
    await asyncio.sleep(1)
    equal([len(p.device_edus(at.alice)) for p in (at.first, at.second)], counts, "updates after completion")
    await at.rename([at.first, at.second])


@case("Device_list_updates_reach_newly_joined_servers_in_partial_state_rooms")
async def newly_joined(rig: Rig) -> None:
    """Server 2 gets nothing before its user joins, then every update, after completion too."""
    at = await scene(rig)
    await at.rename([at.first], [at.second])
    at.joined.room.join(at.second.user("elsie"))
    await at.says(at.second.user("elsie"), "join")
    await at.rename([at.first, at.second])
    counts = [len(p.device_edus(at.alice)) for p in (at.first, at.second)]
    await at.complete()
    await asyncio.sleep(1)
    equal([len(p.device_edus(at.alice)) for p in (at.first, at.second)], counts, "updates after completion")
    await at.rename([at.first, at.second])


@case("Device_list_updates_no_longer_reach_departed_servers_after_partial_state_join_completes")
async def departed(rig: Rig) -> None:
    """Server 2's only user leaves: its updates go on while partial and end with it; completion sends nothing again."""
    at = await scene(rig, second_in_room=True)
    at.joined.room.leave(at.second.user("elsie"))
    await at.says(at.second.user("elsie"), "leave")
    await at.rename([at.first, at.second])
    counts = [len(p.device_edus(at.alice)) for p in (at.first, at.second)]
    await at.complete()
    await asyncio.sleep(1)
    equal([len(p.device_edus(at.alice)) for p in (at.first, at.second)], counts, "updates after completion")
    await at.rename([at.first], [at.second])


@case("Device_list_updates_reach_incorrectly_kicked_servers_once_partial_state_join_completes")
async def incorrectly_kicked(rig: Rig) -> None:
    """The host accepted a kick that it takes back when it has the state: server 2 missed nothing, and gets nothing
    twice (we let go of no server while partial)."""
    at = await scene(rig, second_in_room=True)
    elsie = at.second.user("elsie")
    await at.says(elsie, "leave")
    name = await at.rename([at.first])
    await at.complete()
    await at.says(elsie, "join")
    await until(lambda: at.got(at.second, name), 5, "the update of meanwhile")
    await asyncio.sleep(1)
    equal([at.got(p, name) for p in (at.first, at.second)], [1, 1], "how often it came")
    await at.rename([at.first, at.second])


@case("Device_list_updates_reach_incorrectly_kicked_servers_even_though_remote_server_left_room")
async def incorrectly_kicked_and_left(rig: Rig) -> None:
    """As above, but the user truly leaves before completion and shares another room: the update was theirs."""
    at = await scene(rig, second_in_room=True)
    elsie, other = at.second.user("elsie"), "!other:" + at.engine.name
    await at.says(elsie, "leave")
    name = await at.rename([at.first])
    await at.engine.feed(membership(other, at.alice), membership(other, elsie))
    await at.says(elsie, "join")
    await at.says(elsie, "leave")
    await at.complete()
    await until(lambda: at.got(at.second, name) or len(at.second.device_edus(at.alice)) > 1, 5, "the update")
    await asyncio.sleep(1)
    equal(at.got(at.first, name), 1, "how often it came to server 1")
    check(at.got(at.second, name) >= 1, "server 2 lacks the update")
    await at.rename([at.first, at.second])


@case("Device_list_updates_reach_incorrectly_absent_servers_once_partial_state_join_completes")
async def absent(rig: Rig) -> None:
    """The join's answer left server 2 out: it gets nothing while partial, what it missed at completion, then all."""
    at = await scene(rig, second_in_room=True, listed=False)
    name = await at.rename([at.first], [at.second])
    await at.complete()
    await until(lambda: at.got(at.second, name), 5, "the missed update")
    await asyncio.sleep(1)
    equal([at.got(at.first, name), at.got(at.second, name)], [1, 1], "how often it came")
    await at.rename([at.first, at.second])


@case("Device_list_updates_reach_incorrectly_absent_servers_even_though_remote_server_left_room")
async def absent_and_left(rig: Rig) -> None:
    """As above, but its user leaves before completion, and shares another room with ours: still owed what it missed."""
    at = await scene(rig, second_in_room=True, listed=False)
    elsie, other = at.second.user("elsie"), "!other:" + at.engine.name
    name = await at.rename([at.first], [at.second])
    at.joined.room.leave(elsie)
    await at.says(elsie, "leave")
    await at.engine.feed(membership(other, at.alice), membership(other, elsie))
    await at.complete()
    await until(lambda: at.got(at.second, name), 5, "the missed update")
    equal(at.got(at.first, name), 1, "how often it came to server 1")
    await at.rename([at.first, at.second])


@case("absent-and-left-without-another-room")
async def absent_and_gone(rig: Rig) -> None:
    """P10: a server that was in the room unseen and left for good before completion gets what it missed, once."""
    at = await scene(rig, second_in_room=True, listed=False)
    name = await at.rename([at.first], [at.second])
    at.joined.room.leave(at.second.user("elsie"))
    await at.says(at.second.user("elsie"), "leave")
    await at.complete()
    await until(lambda: at.got(at.second, name), 5, "the missed update")
    await at.rename([at.first], [at.second])
    equal(at.got(at.second, name), 1, "how often it came")


@case("W1_the_update_of_the_join_itself", timeout=40)
async def own_update(rig: Rig) -> None:
    """W1: the join itself sends alice's list to the room's servers, once, collected for join_update_delay; a change
    before that travels with it."""
    engine = await rig.engine(delivery={"join_update_delay": "2s"})
    first = rig.peer(1)
    alice = user(engine)
    await engine.feed(device(alice, "PHONE", name="phone"))
    joined = await partial_join(engine, first, [first.user("charlie")], user_id=alice)
    await joined.held()
    await engine.feed({"kind": "device", "user_id": alice, "device_id": "PHONE", "display_name": "later"})
    await asyncio.sleep(1)
    equal(first.device_edus(alice), [], "updates before the delay is over")
    await until(lambda: first.device_edus(alice), 4, "the update")
    joined.release()
    await asyncio.sleep(2)
    equal([e.get("device_display_name") for e in first.device_edus(alice)], ["later"], "the updates")


async def pending_at_end(rig: Rig, end: Any) -> None:
    """Server 2 is down when alice renames; the partial join ends; server 2 comes back and gets the rename (P13)."""
    engine = await rig.engine(delivery={"join_update_delay": "0s"}, backoff={"first": "1s", "max": "1s"})
    first, second = rig.peers(2)
    alice = user(engine)
    await engine.feed(device(alice, "PHONE", name="phone"))
    joined = await partial_join(engine, first, [second.user("elsie")], others=[second], user_id=alice)
    await joined.held()
    await until(lambda: second.device_edus(alice), 5, "the join's own update")
    second.down()
    await engine.feed({"kind": "device", "user_id": alice, "device_id": "PHONE", "display_name": "pending"})
    await until(lambda: [e for e in first.device_edus(alice) if e.get("device_display_name") == "pending"], 5,
                "the rename at server 1")
    await end(engine, joined)
    _, room = await engine.host("GET", f"/rooms/{quote(joined.room.room_id)}")
    check(not room.get("partial"), f"the room is still partial: {room}")
    joined.release()
    await engine.restart(kill=True)
    second.up()
    await until(lambda: [e for e in second.device_edus(alice) if e.get("device_display_name") == "pending"], 10,
                "the rename at server 2")


@case("P13_pending_updates_outlive_an_abandoned_join", timeout=60)
async def abandoned(rig: Rig) -> None:
    """#13894: given up by hand with an update pending: it still reaches the candidate that was down, over a kill -9."""
    async def end(engine: Engine, joined: Joined) -> None:
        status, _ = await engine.host("POST", f"/rooms/{quote(joined.room.room_id)}/partial_join/abandon", {})
        equal(status, 200, "abandon")
    await pending_at_end(rig, end)


@case("P13_pending_updates_outlive_the_last_leave", timeout=60)
async def last_leave(rig: Rig) -> None:
    """#13894: the last of ours leaves with an update pending: likewise."""
    async def end(engine: Engine, joined: Joined) -> None:
        await engine.feed(membership(joined.room.room_id, user(engine), "leave"))
    await pending_at_end(rig, end)


@case("P13_pending_updates_outlive_a_purge", timeout=60)
async def purged(rig: Rig) -> None:
    """The room is forgotten while it is partial, with an update pending: likewise."""
    async def end(engine: Engine, joined: Joined) -> None:
        await engine.feed({"kind": "room_forgotten", "room_id": joined.room.room_id})
    await pending_at_end(rig, end)
