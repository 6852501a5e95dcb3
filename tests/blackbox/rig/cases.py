"""The register of tests and the small assertions that they share."""
from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Iterable

if TYPE_CHECKING:
    from .fixture import Rig


class Failure(AssertionError):
    """A test's own words for what is wrong."""


@dataclass
class Case:
    id: str
    run: Callable[["Rig"], Awaitable[None]]
    timeout: float
    solo: bool
    weight: int
    tolerate: tuple[str, ...]
    module: str
    waits_for: str

    @property
    def says(self) -> str:
        return " ".join((self.run.__doc__ or "").split())


CASES: dict[str, Case] = {}


def case(case_id: str, *, timeout: float = 45.0, solo: bool = False, weight: int = 1,
         tolerate: Iterable[str] = (), waits_for: str = "") -> Callable[[Callable[["Rig"], Awaitable[None]]], Any]:
    """Registers a test. `tolerate`: violations (part of the text) that this test provokes; `solo`: runs alone;
    `waits_for`: what the engine lacks for it; such a test is named in each run, and run if asked for by name."""
    def add(run: Callable[["Rig"], Awaitable[None]]) -> Callable[["Rig"], Awaitable[None]]:
        if case_id in CASES:
            raise ValueError(f"two tests are called {case_id}")
        if not run.__doc__:
            raise ValueError(f"{case_id} has no docstring")
        CASES[case_id] = Case(case_id, run, timeout, solo, weight, tuple(tolerate), run.__module__, waits_for)
        return run
    return add


# A refused transaction may be split, so another id may come before the first was answered 200.
SPLITS = ("before",)


def check(condition: Any, says: str) -> None:
    if not condition:
        raise Failure(says)


def equal(got: Any, wanted: Any, what: str) -> None:
    if got != wanted:
        raise Failure(f"{what} is {str(got)[:160]}, not {str(wanted)[:160]}")


def in_order(wanted: list[str], got: list[str], what: str) -> None:
    """Each of `wanted` is there, and (first appearances) in this order."""
    missing = [w for w in wanted if w not in got]
    check(not missing, f"{what}: {len(missing)} of {len(wanted)} never came")
    places = [got.index(w) for w in wanted]
    check(places == sorted(places), f"{what}: out of order")


async def until(condition: Callable[[], Any], within: float, what: str) -> float:
    """Waits; the seconds it took. Fails with '<what> not within N s'."""
    start = time.monotonic()
    while True:
        if condition():
            return time.monotonic() - start
        if time.monotonic() - start > within:
            raise Failure(f"{what}: not within {within:g} s")
        await asyncio.sleep(0.03)


async def until_async(condition: Callable[[], Awaitable[Any]], within: float, what: str) -> Any:
    """As `until`, with a condition that asks; its first true value."""
    end = time.monotonic() + within
    while True:
        value = await condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f"{what}: not within {within:g} s")
        await asyncio.sleep(0.15)


async def steady(count: Callable[[], int], seconds: float, what: str, allowed: int = 0) -> None:
    """Over the next seconds the count grows by at most `allowed`."""
    first = count()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        grown = count() - first
        if grown > allowed:
            raise Failure(f"{what}: {grown} where at most {allowed} may come within {seconds:g} s")
        await asyncio.sleep(0.05)
