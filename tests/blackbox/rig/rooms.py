"""A small model of a room (version 10) that scripted servers are in, and what a test asks the engine about rooms."""
from __future__ import annotations

import asyncio
from typing import Any, Callable, Iterable

from . import matrix
from .engine import Engine
from .exchange import Answer, Hold, Request, error, quote
from .matrix import Json
from .peer import Peer

Place = tuple[str, str]  # type and state key
VERSION = "10"


def denial(errcode: str, says: str, status: int = 403, **extra: Any) -> Answer:
    return Answer(status, {"errcode": errcode, "error": f"rig: {says}", **extra})


class Room:
    """A single line of events; the state before each is remembered. Peers that serve it answer as residents."""

    def __init__(self, owner: Peer, members: Iterable[str] = (), *, restricted: bool = False) -> None:
        self.net, self.owner = owner.net, owner
        self.room_id = f"!{matrix.unique('room')}:{owner.name}"
        self.creator = owner.user("creator")
        self.events: dict[str, Json] = {}
        self.before: dict[str, dict[Place, str]] = {}
        self.state: dict[Place, str] = {}
        self.head: list[str] = []
        self.depth = 0
        self.joins: list[Json] = []  # join events that were accepted
        self.problems: list[str] = []  # what was wrong with others
        self.listed: list[str] | None = None  # instead of the true servers_in_room
        self.restricted = restricted
        self.spoil_template: Callable[[Json], Any] = lambda template: None  # changes a make_join answer in place
        self.spoil_answer: Callable[[Json], Any] = lambda answer: None  # changes a send_join answer in place
        self._found(members)
        self.serve_on(owner)

    def _found(self, members: Iterable[str]) -> None:
        self.add(self.creator, "m.room.create", {"creator": self.creator, "room_version": VERSION}, "")
        self.add(self.creator, "m.room.member", {"membership": "join"}, self.creator)
        self.add(self.creator, "m.room.power_levels", {"users": {self.creator: 100}, "state_default": 50}, "")
        self.add(self.creator, "m.room.join_rules", {"join_rule": "restricted" if self.restricted else "public"}, "")
        self.add(self.creator, "m.room.history_visibility", {"history_visibility": "shared"}, "")
        for member in members:
            self.join(member)
        self.message()

    # --- making events ---
    def serve_on(self, *peers: Peer) -> None:
        for peer in peers:
            peer.endpoints.append(self.serve)

    def auth_for(self, kind: str, sender: str, state_key: str | None, state: dict[Place, str]) -> list[str]:
        if kind == "m.room.create":
            return []
        wanted: list[Place] = [("m.room.create", ""), ("m.room.power_levels", ""), ("m.room.member", sender)]
        if kind == "m.room.member":
            wanted += [("m.room.member", state_key or ""), ("m.room.join_rules", "")]
        return list(dict.fromkeys(state[place] for place in wanted if place in state))

    def add(self, sender: str, kind: str, content: Json, state_key: str | None = None) -> Json:
        """A new event on top, signed by its sender's server."""
        peer = self.net.peers[matrix.server_of(sender)]
        return self.accept(peer.event(self.room_id, sender, kind, content, state_key=state_key, prev=self.head,
                                      auth=self.auth_for(kind, sender, state_key, self.state), depth=self.depth + 1))

    def accept(self, event: Json) -> Json:
        event_id = matrix.event_id(event)
        self.events[event_id] = event
        self.before[event_id] = dict(self.state)
        if "state_key" in event:
            self.state[(event["type"], event["state_key"])] = event_id
        self.head, self.depth = [event_id], event["depth"]
        return event

    def join(self, user_id: str) -> Json:
        return self.add(user_id, "m.room.member", {"membership": "join"}, user_id)

    def leave(self, user_id: str, by: str | None = None, membership: str = "leave") -> Json:
        return self.add(by or user_id, "m.room.member", {"membership": membership}, user_id)

    def message(self, sender: str | None = None) -> Json:
        """Also what makes the state before and after the newest event the same."""
        return self.add(sender or self.creator, "m.room.message", {"msgtype": "m.text", "body": "hello"})

    # --- reading ---
    def joined(self, state: dict[Place, str] | None = None) -> list[str]:
        return [key for (kind, key), event_id in (self.state if state is None else state).items()
                if kind == "m.room.member" and self.events[event_id]["content"].get("membership") == "join"]

    def servers(self, state: dict[Place, str] | None = None) -> list[str]:
        return sorted({matrix.server_of(user) for user in self.joined(state)})

    def auth_chain(self, event_ids: Iterable[str]) -> list[str]:
        seen: dict[str, None] = {}
        todo = [a for event_id in event_ids for a in self.events[event_id]["auth_events"]]
        while todo:
            one = todo.pop()
            if one not in seen:
                seen[one] = None
                todo += self.events[one]["auth_events"]
        return list(seen)

    # --- serving ---
    def serve(self, peer: Peer, request: Request, parts: list[str]) -> Answer | None:
        """`parts` follow "federation". None: the request isn't about this room."""
        name, subject = (parts + ["", "", ""])[1:3]
        if name == "event" and subject in self.events:
            return Answer(200, {"origin": peer.name, "origin_server_ts": matrix.now_ms(),
                                "pdus": [self.events[subject]]})
        if subject != self.room_id:
            return None
        if name == "make_join":
            return self._make_join(peer, request, parts[3])
        if name == "send_join":
            return self._send_join(peer, request, parts)
        if name in ("state", "state_ids"):
            return self._state(name, (request.query.get("event_id") or [""])[0])
        return None

    def _state(self, name: str, at: str) -> Answer:
        if at not in self.before:
            return Answer(404, error(404))
        # As Complement has it: the state after the event that is asked about (P6), which for a message is that before.
        ids = list(self.before[at].values())
        chain = self.auth_chain(ids)
        if name == "state_ids":
            return Answer(200, {"pdu_ids": ids, "auth_chain_ids": chain})
        return Answer(200, {"pdus": [self.events[e] for e in ids], "auth_chain": [self.events[e] for e in chain]})

    def _make_join(self, peer: Peer, request: Request, user_id: str) -> Answer:
        if VERSION not in request.query.get("ver", ["1"]):
            return denial("M_INCOMPATIBLE_ROOM_VERSION", "this room is of version 10", 400, room_version=VERSION)
        member = self.state.get(("m.room.member", user_id))
        if member and self.events[member]["content"]["membership"] == "ban":
            return denial("M_FORBIDDEN", "you are banned")
        content = {"membership": "join"}
        if self.restricted:
            content["join_authorised_via_users_server"] = self.creator
        template = {"type": "m.room.member", "room_id": self.room_id, "sender": user_id, "state_key": user_id,
                    "content": content, "depth": self.depth + 1, "prev_events": list(self.head), "origin": peer.name,
                    "origin_server_ts": matrix.now_ms(),
                    "auth_events": self.auth_for("m.room.member", user_id, user_id, self.state)}
        answer = {"room_version": VERSION, "event": template}
        self.spoil_template(answer)
        return Answer(200, answer)

    def _problem_of(self, event: Json, event_id: str, origin: str) -> str:
        """What is wrong with a join event; empty: nothing."""
        sender = event.get("sender", "")
        if matrix.event_id(event) != event_id:
            return "the path has another event id"
        if not matrix.hash_ok(event):
            return "the content hash is wrong"
        if not matrix.event_signed_by(event, origin, self.net.engine_keys.get(origin, {})):
            return "its server's signature is missing or wrong"
        if event.get("type") != "m.room.member" or event["content"].get("membership") != "join":
            return "it is no join"
        if sender != event.get("state_key") or matrix.server_of(sender) != origin:
            return "sender, state_key and origin don't fit"
        return "" if event.get("room_id") == self.room_id else "it is for another room"

    def _send_join(self, peer: Peer, request: Request, parts: list[str]) -> Answer:
        event = request.json
        problem = self._problem_of(event, parts[3], request.origin)
        if problem:
            self.problems.append(problem)
            return denial("M_FORBIDDEN", problem)
        if self.restricted:
            event = matrix.add_event_signature(self.owner.key, self.owner.name, event)
        before = dict(self.state)
        self.accept(event)
        self.joins.append(event)
        omit = (request.query.get("omit_members") or ["false"])[0] == "true"
        body = self._join_answer(before, omit)
        body["event"] = event
        self.spoil_answer(body)
        return Answer(200, [200, body] if parts[0] == "v1" else body)

    def _join_answer(self, before: dict[Place, str], omit: bool) -> Json:
        chosen = [e for (kind, _), e in before.items() if not (omit and kind == "m.room.member")]
        chain = [e for e in self.auth_chain(chosen) if not (omit and e in chosen)]
        body: Json = {"state": [self.events[e] for e in chosen], "auth_chain": [self.events[e] for e in chain]}
        if omit:
            body["members_omitted"] = True
            body["servers_in_room"] = self.servers(before) if self.listed is None else self.listed
        return body


# --- what a test asks the engine ---
async def join(engine: Engine, room_id: str, user_id: str, via: list[str], *, partial: bool = True,
               timeout: float = 60.0, **extra: Any) -> tuple[int, Any]:
    return await engine.host("POST", f"/rooms/{quote(room_id)}/join",
                             {"user_id": user_id, "via": via, "partial": partial, **extra}, timeout=timeout)


async def view(engine: Engine, room_id: str) -> Json:
    status, body = await engine.host("GET", f"/rooms/{quote(room_id)}")
    if status != 200 or not isinstance(body, dict):
        raise AssertionError(f"GET room answered {status}: {str(body)[:200]}")
    return body


async def room_state(engine: Engine, room_id: str, wait_ms: int = 0) -> tuple[int, Any]:
    wait = f"?wait_ms={wait_ms}" if wait_ms else ""
    return await engine.host("GET", f"/rooms/{quote(room_id)}/state{wait}", timeout=wait_ms / 1000 + 30)


class Joined:
    """A partial join of ours that has been answered. While held, state questions wait at all servers."""

    def __init__(self, room: Room, answer: Json, holds: list[Hold], peers: list[Peer]) -> None:
        self.room, self.answer, self._holds, self.peers = room, answer, holds, peers

    @property
    def asked(self) -> int:
        """State questions so far."""
        return sum(len(peer.asked("/state")) + len(peer.asked("/event/")) for peer in self.peers)

    async def held(self, within: float = 10.0) -> None:
        """Waits until somebody was asked for the state."""
        for _ in range(int(within / 0.05)):
            if any(hold.arrived for hold in self._holds):
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"no state question within {within:g} s")

    def release(self) -> None:
        for hold in self._holds:
            hold.release()


async def partial_join(engine: Engine, owner: Peer, members: Iterable[str] = (), *, others: Iterable[Peer] = (),
                       user_id: str, hold: bool = True, listed: list[str] | None = None) -> Joined:
    """A room of `owner` and our user's partial join through it."""
    room = Room(owner, members)
    room.listed = listed
    room.serve_on(*others)
    peers = [owner, *others]
    holds = [peer.hold("/state") for peer in peers] if hold else []
    status, body = await join(engine, room.room_id, user_id, [owner.name])
    if status != 200 or not isinstance(body, dict) or body.get("partial") is not True:
        raise AssertionError(f"the partial join answered {status}: {str(body)[:200]}")
    return Joined(room, body, holds, peers)
