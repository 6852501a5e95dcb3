"""What a test gets: a network of scripted servers, engines, and cleaning up."""
from __future__ import annotations

from typing import Any, Callable, Iterable

from .cases import equal, until, until_async
from .collector import Collector
from .engine import Engine
from .matrix import Json
from .network import Network
from .peer import Peer
from .records import HostRoom
from .tls import Authority


class Rig:
    """What a test gets: a network of fake servers, engines, and cleaning up."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self.net = Network(authority)
        self.engines: list[Engine] = []
        self.closers: list[Callable[[], None]] = []
        self.notes: list[str] = []  # shown with a failure (a seed, for example)

    async def begin(self) -> None:
        await self.net.start()

    async def end(self, keep: bool) -> list[str]:
        """Cleans up; the folders that were kept."""
        kept = []
        for engine in self.engines:
            await engine.close(keep)
            if keep:
                kept.append(str(engine.folder))
        for close in self.closers:
            close()
        await self.net.close()
        return kept

    def peer(self, number: int) -> Peer:
        return self.net.peer(number)

    def peers(self, count: int, first: int = 1) -> list[Peer]:
        return [self.net.peer(n) for n in range(first, first + count)]

    def make_engine(self, **overrides: Any) -> Engine:
        """An engine that is configured but not started."""
        made = Engine(self.net, self.authority, overrides)
        self.engines.append(made)
        return made

    async def engine(self, **overrides: Any) -> Engine:
        """A started engine; keywords are sections of the configuration."""
        made = self.make_engine(**overrides)
        await made.start()
        return made

    async def shared(self, engine: Engine, *peers: Peer, local: str = "alice", remote: str = "bob") -> HostRoom:
        """A host room with one local user and one user on each peer, already fed."""
        room = HostRoom(engine, *(p.user(remote) for p in peers), user(engine, local))  # ours joins last
        await engine.feed(*room.roster())
        return room

    def collector(self, engine: Engine) -> Collector:
        return Collector(engine)


async def meet(*peers: Peer) -> None:
    """A signed transaction of each, so that the engine knows its key (a server that is down can't serve it later)."""
    for peer in peers:
        status, body = await peer.send()
        equal(status, 200, f"our answer to a first transaction ({str(body)[:80]})")


def user(engine: Engine, local: str = "alice") -> str:
    return f"@{local}:{engine.name}"


def ids_of(records: Iterable[Json]) -> list[str]:
    """Event ids of pdu records."""
    return [r["event_id"] for r in records if r.get("kind") == "pdu"]


async def has(peer: Peer, records: Iterable[Json], within: float = 10.0, what: str = "delivery") -> float:
    """Waits until the peer has taken every pdu record."""
    wanted = ids_of(records)
    return await until(lambda: peer.has(*wanted), within, f"{what} of {len(wanted)} PDUs to {peer.name}")


async def failing(engine: Engine, peer: Peer, within: float = 10.0) -> Json:
    """Waits until the engine says that a delivery or connection failed (the push lane's figures); its gate."""
    async def closed() -> Any:
        gate = await engine.gate(peer.name)
        return gate if gate.get("consecutive_failures", 0) >= 1 and gate.get("next_attempt_ms") else None
    return await until_async(closed, within, f"the gate of {peer.name} is closed")


async def unreached(engine: Engine, peer: Peer, within: float = 10.0) -> Json:
    """Waits until a pull has failed there (a lane is not open: both after a failure to connect, else the pull lane)."""
    async def closed() -> Any:
        gate = await engine.gate(peer.name)
        return gate if {gate["lanes"]["push"], gate["lanes"]["pull"]} != {"open"} else None
    return await until_async(closed, within, f"a lane to {peer.name} is closed")
