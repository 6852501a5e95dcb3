"""What goes over the wire between the engine and a scripted peer, and the rules that script a peer."""
from __future__ import annotations

import asyncio
import urllib.parse
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Union

from . import matrix
from .matrix import Json

if TYPE_CHECKING:
    from .peer import Peer

PDU_CAP, EDU_CAP = 50, 100
Matcher = Union[str, Callable[["Request"], bool]]


@dataclass
class Answer:
    """What goes back. `drop` closes the connection instead; `raw` replaces the JSON body."""
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    content_type: str = "application/json"
    drop: bool = False


@dataclass(eq=False)
class Request:
    """One request that a fake server got."""
    at: float
    peer: "Peer"
    method: str
    uri: str
    raw: bytes
    headers: dict[str, str]
    epoch: int
    json: Any = None
    origin: str = ""
    problem: str = ""  # why the X-Matrix header is not good; empty if it is or none is needed
    status: int | None = None
    ended: float | None = None
    transport: asyncio.BaseTransport | None = None

    @property
    def path(self) -> str:
        return self.uri.partition("?")[0]

    @property
    def query(self) -> dict[str, list[str]]:
        return urllib.parse.parse_qs(self.uri.partition("?")[2])

    @property
    def parts(self) -> list[str]:
        """Unquoted path segments after /_matrix/."""
        return [urllib.parse.unquote(p) for p in self.path.split("/")[2:]]

    @property
    def alive(self) -> bool:
        return self.ended is None and self.transport is not None and not self.transport.is_closing()


@dataclass(eq=False)
class Transaction:
    """One delivery attempt of a transaction."""
    at: float
    txn_id: str
    raw: bytes
    pdus: list[Json]
    edus: list[Json]
    epoch: int
    status: int | None = None
    repeat: bool = False

    @property
    def event_ids(self) -> list[str]:
        return [matrix.event_id(p) for p in self.pdus]


class Hold:
    """Requests that match wait here until release()."""

    def __init__(self) -> None:
        self.arrived = 0
        self._open = asyncio.Event()

    def release(self) -> None:
        self._open.set()

    async def wait(self) -> None:
        self.arrived += 1
        await self._open.wait()


@dataclass(eq=False)
class Rule:
    """The first matching rule with uses left handles a request; `proceed` gives the ordinary answer."""
    match: Callable[[Request], bool]
    act: Callable[[Request, Callable[[], Awaitable[Answer]]], Awaitable[Answer]]
    times: int | None = None
    hits: int = 0

    @property
    def live(self) -> bool:
        return self.times is None or self.hits < self.times


def error(status: int) -> Json:
    code = {403: "M_FORBIDDEN", 404: "M_NOT_FOUND", 401: "M_UNAUTHORIZED", 429: "M_LIMIT_EXCEEDED"}
    return {"errcode": code.get(status, "M_UNKNOWN"), "error": f"rig: scripted {status}"}


def quote(text: str) -> str:
    return urllib.parse.quote(text, safe="")
