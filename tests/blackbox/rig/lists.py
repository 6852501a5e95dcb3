"""A scene for device lists: one engine, one peer whose bob shares a room with our alice."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .cases import equal, until_async
from .collector import Collector
from .engine import Engine
from .fixture import Rig, meet, user
from .books import DeviceBook
from .matrix import Json
from .peer import Peer
from .records import HostRoom, membership


@dataclass
class Scene:
    rig: Rig
    engine: Engine
    peer: Peer
    room: HostRoom
    bob: str
    book: DeviceBook
    stream: Collector

    @property
    def alice(self) -> str:
        return user(self.engine)

    def fetches(self, who: str = "") -> int:
        """Requests for a device list."""
        return len(self.peer.asked("/user/devices/" + who))

    def asked(self) -> int:
        """Requests for lists and keys."""
        return len(self.peer.asked("/user/"))

    async def query(self, *users: str, timeout_ms: int = 8000) -> Json:
        return await self.engine.keys_query(*(users or (self.bob,)), timeout_ms=timeout_ms)

    async def devices(self, timeout_ms: int = 8000) -> Json:
        """What the engine says bob's devices are."""
        return (await self.query(timeout_ms=timeout_ms))["device_keys"].get(self.bob, {})

    async def becomes(self, wanted: set[str], within: float = 8) -> None:
        async def same() -> bool:
            return set(await self.devices()) == wanted
        await until_async(same, within, f"keys/query says {sorted(wanted)}")

    async def announced(self, who: str = "", within: float = 8) -> None:
        who = who or self.bob
        await self.stream.until(lambda i: i["kind"] == "device_lists" and who in i.get("changed", []), within,
                                f"device_lists with {who} changed")

    async def send(self, *edus: Json, peer: Peer | None = None) -> None:
        status, body = await (peer or self.peer).send(edus=list(edus))
        equal(status, 200, f"our answer to the update ({str(body)[:80]})")

    async def stale(self) -> dict[str, Json]:
        """The stale users that an operator sees."""
        status, body = await self.engine.admin("GET", "/stale_users")
        equal(status, 200, "GET /stale_users")
        return {u["user_id"]: u for u in body["stale_users"]}

    async def not_stale(self, within: float = 8) -> None:
        async def none() -> bool:
            return not await self.stale()
        await until_async(none, within, "no user is stale")

    async def leaves(self, who: str) -> None:
        await self.engine.feed(membership(self.room.room_id, who, "leave"))

    async def joins(self, who: str) -> None:
        await self.engine.feed(membership(self.room.room_id, who))

    async def quiet(self) -> None:
        """What came until now is forgotten."""
        await self.stream.settle(0.6)
        self.stream.forget()


async def scene(rig: Rig, cached: bool = True, shared: bool = True, **overrides: Any) -> Scene:
    """bob has B1; his list is cached unless said otherwise."""
    engine = await rig.engine(**overrides)
    peer = rig.peer(1)
    bob = peer.user("bob")
    room = await rig.shared(engine, peer) if shared else HostRoom(engine)
    made = Scene(rig, engine, peer, room, bob, peer.book(bob), rig.collector(engine))
    made.book.set("B1", name="one")
    await meet(peer)
    if cached:
        equal(set(await made.devices()), {"B1"}, "bob's devices at first")
        await made.quiet()
    return made


def gap(book: DeviceBook) -> Json:
    """An update whose predecessor never came."""
    book.set("Gap")
    return book.set("Gap2")
