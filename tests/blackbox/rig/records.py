"""Records of the feed, and a room that lives at the host."""
from __future__ import annotations

from typing import Any

from . import matrix
from .engine import Engine
from .matrix import Json


def membership(room_id: str, user_id: str, value: str = "join") -> Json:
    return {"kind": "membership", "room_id": room_id, "user_id": user_id, "membership": value, "room_version": "10"}


def roster(room_id: str, *joined: str) -> Json:
    """A room's whole roster, of joined users."""
    return {"kind": "roster", "room_id": room_id, "room_version": "10", "members": dict.fromkeys(joined, "join")}


def pdu(event: Json, **extra: Any) -> Json:
    return {"kind": "pdu", "event_id": matrix.event_id(event), "event": event, **extra}


def edu(edu_type: str, content: Json, **where: Any) -> Json:
    return {"kind": "edu", "edu_type": edu_type, "content": content, **where}


def typing(room_id: str, user_id: str, on: bool = True) -> Json:
    return edu("m.typing", {"room_id": room_id, "user_id": user_id, "typing": on}, room_id=room_id,
               key=f"typing|{room_id}|{user_id}")


def receipt(room_id: str, user_id: str, event_id: str) -> Json:
    return edu("m.receipt", {room_id: {"m.read": {user_id: {"event_ids": [event_id], "data": {"ts": 1}}}}},
               room_id=room_id, key=f"receipt|{room_id}|{user_id}")


def to_device(sender: str, message_id: str, messages: Json, kind: str = "m.room_key_request") -> Json:
    return {"kind": "to_device", "sender": sender, "type": kind, "message_id": message_id, "messages": messages}


def device(user_id: str, device_id: str, salt: str = "", name: str | None = None, **extra: Any) -> Json:
    out: Json = {"kind": "device", "user_id": user_id, "device_id": device_id,
                 "keys": matrix.device_keys(user_id, device_id, salt), **extra}
    if name is not None:
        out["display_name"] = name
    return out


def device_gone(user_id: str, device_id: str) -> Json:
    return {"kind": "device", "user_id": user_id, "device_id": device_id, "deleted": True}


def cross_signing(user_id: str, salt: str = "") -> Json:
    return {"kind": "cross_signing", "user_id": user_id, **matrix.cross_signing_keys(user_id, salt)}


class HostRoom:
    """A room that lives at the host: it makes signed events and the feed records for them."""

    def __init__(self, engine: Engine, *members: str) -> None:
        self.engine = engine
        self.room_id = f"!{matrix.unique('h')}:{engine.name}"
        self.members = list(members)
        self.head: list[str] = []
        self.depth = 0

    def roster(self) -> list[Json]:
        return [membership(self.room_id, m) for m in self.members]

    def event(self, sender: str, kind: str = "m.room.message", content: Json | None = None, **kw: Any) -> Json:
        """A new event of one of our users, on top of the last."""
        self.depth += 1
        made = matrix.build_event(self.engine.key, self.engine.name, self.room_id, sender, kind,
                                  {"msgtype": "m.text", "body": f"n{self.depth}"} if content is None else content,
                                  prev=self.head, depth=self.depth, **kw)
        self.head = [matrix.event_id(made)]
        return made

    def messages(self, sender: str, count: int) -> list[Json]:
        """Feed records of that many messages."""
        return [pdu(self.event(sender)) for _ in range(count)]
