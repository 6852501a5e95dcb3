"""kill -9 in every phase of a partial join, and over a restart of the servers: the same final state each time (issue 5,
"Must hold"; CONFORMANCE 12). In each, alice renames her phone and writes while the room is partial; one server of the
room was left out of the join's answer."""
from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from rig import Engine, Peer, Rig, case, check, device, equal, has, matrix, until, until_async, user
from rig.exchange import Hold
from rig.matrix import Json
from rig.records import pdu
from rig.rooms import Room, join, view


@dataclass
class Scene:
    rig: Rig
    engine: Engine
    owner: Peer
    absent: list[Peer]
    room: Room
    held: Hold  # the state, at the owner

    @property
    def alice(self) -> str:
        return user(self.engine)

    async def join(self) -> None:
        status, answer = await join(self.engine, self.room.room_id, self.alice, [self.owner.name])
        equal([status, answer.get("partial")], [200, True], f"the join ({str(answer)[:200]})")

    async def changes(self) -> Json:
        """What happens while partial: a rename and a message."""
        message = pdu(matrix.build_event(self.engine.key, self.engine.name, self.room.room_id, self.alice,
                                         "m.room.message", {"body": "meanwhile"}, prev=self.room.head,
                                         depth=self.room.depth + 1))
        await self.engine.feed({"kind": "device", "user_id": self.alice, "device_id": "PHONE",
                                "display_name": "renamed"}, message)
        await has(self.owner, [message])
        return message

    def renamed(self, peer: Peer) -> bool:
        return any(e.get("device_display_name") == "renamed" for e in peer.device_edus(self.alice))

    async def full(self) -> Any:
        return (await view(self.engine, self.room.room_id))["partial"] is False

    async def ends_well(self, message: Json) -> None:
        """The final state, the same whatever happened."""
        await until_async(self.full, 25, "the room is full")
        seen = await view(self.engine, self.room.room_id)
        wanted = {self.alice: "join", self.room.creator: "join", self.owner.user("charlie"): "join",
                  **{p.user("elsie"): "join" for p in self.absent}}
        equal(seen["members"], wanted, "the members")
        equal(sorted(seen["servers"]), sorted([self.owner.name, *(p.name for p in self.absent)]), "the servers")
        for peer in [self.owner, *self.absent]:
            await has(peer, [message], 15, "what was written meanwhile")
            await until(lambda: self.renamed(peer), 15, f"the rename at {peer.name}")
        items = [i for i in self.rig.collector(self.engine).items if i["kind"] == "partial_join"]
        check(all(i["state"] != "abandoned" for i in items), f"the stream says {items}")
        await asyncio.sleep(2)
        for peer in self.absent:  # once in the life that was killed, perhaps, and once in this
            check(len(peer.pdus) <= 2, f"{peer.name} got {len(peer.pdus)} events")
        counts = [len(p.transactions) for p in self.absent]
        await asyncio.sleep(1)
        equal([len(p.transactions) for p in self.absent], counts, "transactions when all is quiet")


async def scene(rig: Rig, absent: int = 1) -> Scene:
    engine = await rig.engine(delivery={"join_update_delay": "0s"}, backoff={"first": "1s", "max": "1s"})
    owner, *others = rig.peers(1 + absent)
    room = Room(owner, [owner.user("charlie"), *(p.user("elsie") for p in others)])
    room.listed = [owner.name]
    await engine.feed(device(user(engine), "PHONE", name="phone"))
    return Scene(rig, engine, owner, others, room, owner.hold("/state"))


@case("kill-before-the-answer-is-stored", timeout=60)
async def before_stored(rig: Rig) -> None:
    """The server accepted, its answer never came: `settled` is told, joining again gives the same end."""
    s = await scene(rig)
    answer = s.owner.hold("/send_join/", times=1, process_first=True)
    asking = asyncio.create_task(join(s.engine, s.room.room_id, s.alice, [s.owner.name]))
    await until(lambda: answer.arrived, 10, "send_join")
    await s.engine.kill9()
    await asyncio.gather(asking, return_exceptions=True)
    answer.release()
    await s.engine.start()
    item = await rig.collector(s.engine).until(lambda i: i["kind"] == "partial_join", 5, "settled item")
    equal([item["state"], item["users"]], ["settled", [s.alice]], "the item")
    s.room.message()
    await s.join()
    message = await s.changes()
    s.held.release()
    await s.ends_well(message)


@case("kill-after-the-answer-is-stored", timeout=60)
async def after_stored(rig: Rig) -> None:
    """Killed as soon as the host has its answer, before and after the changes."""
    s = await scene(rig)
    await s.join()
    await s.engine.restart(kill=True)
    message = await s.changes()
    await s.engine.restart(kill=True)
    s.held.release()
    await s.ends_well(message)


@case("kill-during-the-state-fetch", timeout=60)
async def during_fetch(rig: Rig) -> None:
    """Killed while /state_ids is held, then while /state is, then while a single event's keys are."""
    s = await scene(rig)
    await s.join()
    await until(lambda: s.held.arrived, 10, "/state_ids")
    message = await s.changes()
    await s.engine.kill9()
    whole = s.owner.hold(lambda r: "/state/" in r.path or "/event/" in r.path)
    s.held.release()
    await s.engine.start()
    await until(lambda: whole.arrived, 10, "the events")
    await s.engine.kill9()
    keys = s.owner.hold("/key/v2/query")
    whole.release()
    await s.engine.start()
    await until(lambda: keys.arrived, 15, "a question for keys")
    await s.engine.kill9()
    keys.release()
    await s.engine.start()
    await s.ends_well(message)


@case("kill-between-full-state-and-fan-out", timeout=60)
async def before_fan_out(rig: Rig) -> None:
    """Completion is stored, and nobody has what is owed yet."""
    s = await scene(rig, absent=3)
    await s.join()
    message = await s.changes()
    stuck = [peer.hold("/send/") for peer in s.absent]
    s.held.release()
    await until_async(s.full, 20, "the room is full")
    await s.engine.kill9()
    check(not any(p.pdus for p in s.absent), "somebody was served already")
    for one in stuck:
        one.release()
    for peer in s.absent:
        peer.pdus.clear()
        peer.edus.clear()
    await s.engine.start()
    await s.ends_well(message)


@case("kill-during-fan-out", timeout=90, weight=2)
async def during_fan_out(rig: Rig) -> None:
    """Of twelve servers that are owed something half are served when it is killed."""
    s = await scene(rig, absent=12)
    await s.join()
    message = await s.changes()
    stuck = [peer.hold("/send/") for peer in s.absent[6:]]
    s.held.release()
    for peer in s.absent[:6]:
        await has(peer, [message], 20)
    await s.engine.kill9()
    for one in stuck:
        one.release()
    await asyncio.sleep(0.3)
    await s.engine.start()
    await s.ends_well(message)
