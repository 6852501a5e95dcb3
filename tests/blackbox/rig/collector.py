"""The host's reader of the stream."""
from __future__ import annotations

import asyncio
import time
from typing import Callable

from .engine import Engine
from .matrix import Json


class Collector:
    """Reads the host stream in order and keeps what came (acknowledging as it reads)."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.next: int | None = None
        self.items: list[Json] = []

    async def pull(self, timeout_ms: int = 0) -> list[Json]:
        body = await self.engine.stream(self.next, timeout_ms)
        self.items += body["items"]
        if body["items"] or self.next is None:
            self.next = body.get("next", self.next)
        return body["items"]

    async def until(self, wanted: Callable[[Json], bool], within: float, what: str) -> Json:
        """The first item, old or new, for which `wanted` holds."""
        end = time.monotonic() + within
        while True:
            for item in self.items:
                if wanted(item):
                    return item
            left = end - time.monotonic()
            if left <= 0:
                kinds = [i.get("kind") for i in self.items]
                raise AssertionError(f"the stream has no {what} within {within:.0f} s (it has {kinds[-8:]})")
            if not await self.pull(int(min(left, 2.0) * 1000)):
                await asyncio.sleep(0.05)

    async def settle(self, quiet: float = 1.0) -> None:
        """Reads until nothing came for `quiet` seconds."""
        end = time.monotonic() + quiet
        while time.monotonic() < end:
            if await self.pull(int(quiet * 500)):
                end = time.monotonic() + quiet
            else:
                await asyncio.sleep(0.05)

    def of(self, kind: str) -> list[Json]:
        return [i for i in self.items if i.get("kind") == kind]

    def changed(self, user_id: str) -> int:
        """How many device_lists items name the user as changed."""
        return sum(user_id in i.get("changed", []) for i in self.of("device_lists"))

    def left(self, user_id: str) -> int:
        return sum(user_id in i.get("left", []) for i in self.of("device_lists"))

    def forget(self) -> None:
        self.items.clear()
