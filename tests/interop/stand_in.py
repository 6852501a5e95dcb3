"""A script that stands in for the host: joins a room over plain federation HTTP, feeds the engine, says things."""
from __future__ import annotations

from typing import Any, Awaitable, Callable, Protocol

from rig import Json, Network, matrix, quote
from rig.matrix import Key

ROOM_VERSION = "10"  # the one whose rules the rig knows


class Ours(Protocol):
    """Our side of the federation: the engine, or the rig's stand-in for it."""
    name: str
    key: Key
    sign_event: Callable[[str, Json], Awaitable[tuple[str, Json]]]


class StandIn:
    """One local user in one room of another server."""

    def __init__(self, ours: Ours, net: Network, local: str = "alice") -> None:
        self.ours, self.net = ours, net
        self.user_id = f"@{local}:{ours.name}"
        self.room_id = ""
        self.room_version = ""
        self.members: dict[str, str] = {}
        self.auth: dict[tuple[str, str], str] = {}  # (type, state_key) -> event id
        self.head: list[str] = []
        self.depth = 0

    async def request(self, server: str, method: str, uri: str, content: Any = None) -> Json:
        """A federation request signed with our key; anything but 200 fails."""
        headers = {"Authorization": matrix.x_matrix(self.ours.key, method, uri, self.ours.name, server, content),
                   "Host": server, "Content-Type": "application/json"}
        data = None if content is None else matrix.canonical(content)
        status, body = await self.net.http(method, f"https://{server}{uri}", data, headers, 30.0)
        if status != 200 or not isinstance(body, dict):
            raise AssertionError(f"{server} answered {method} {uri} with {status}: {str(body)[:300]}")
        return body

    async def join(self, room_id: str, server: str) -> list[Json]:
        """make_join, sign, send_join. The roster as a record of the feed."""
        made = await self.request(server, "GET", f"/_matrix/federation/v1/make_join/{quote(room_id)}/"
                                                 f"{quote(self.user_id)}?ver={ROOM_VERSION}")
        template = made["event"]
        if [template["room_id"], template["sender"], template["type"]] != [room_id, self.user_id, "m.room.member"]:
            raise AssertionError(f"make_join gave an odd template: {template}")
        self.room_id, self.room_version = room_id, made["room_version"]
        template["origin"], template["origin_server_ts"] = self.ours.name, matrix.now_ms()
        event_id, event = await self.ours.sign_event(self.room_version, template)
        answer = await self.request(server, "PUT", f"/_matrix/federation/v2/send_join/{quote(room_id)}/"
                                                   f"{quote(event_id)}", event)
        for state in [*answer["state"], event]:
            self._note(state)
        self.head, self.depth = [event_id], event["depth"]
        return [{"kind": "roster", "room_id": room_id, "room_version": self.room_version,
                 "members": dict(self.members)}]

    def _note(self, event: Json) -> None:
        key = (event["type"], event["state_key"])
        if event["type"] == "m.room.member":
            self.members[event["state_key"]] = event["content"]["membership"]
        if event["type"] in ("m.room.create", "m.room.power_levels") or key == ("m.room.member", self.user_id):
            self.auth[key] = matrix.event_id(event)

    async def say(self, text: str) -> Json:
        """A message of ours, signed by the engine, as a record of the feed."""
        self.depth += 1
        event_id, event = await self.ours.sign_event(self.room_version, {
            "room_id": self.room_id, "sender": self.user_id, "type": "m.room.message", "origin": self.ours.name,
            "content": {"msgtype": "m.text", "body": text}, "origin_server_ts": matrix.now_ms(), "depth": self.depth,
            "prev_events": self.head, "auth_events": list(self.auth.values())})
        self.head = [event_id]
        return {"kind": "pdu", "event_id": event_id, "event": event, "room_version": self.room_version}
