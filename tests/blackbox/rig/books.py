"""The devices of the users of a scripted peer."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import matrix
from .matrix import Json


@dataclass
class Device:
    keys: Json | None
    name: str | None = None


class DeviceBook:
    """The devices of one user of a fake server; every change gives the EDU that announces it."""

    def __init__(self, user_id: str) -> None:
        self.user_id = user_id
        self.stream_id = 0
        self.devices: dict[str, Device] = {}
        self.cross: dict[str, Json] = {}
        self.one_time: dict[str, dict[str, Any]] = {}  # device -> {"alg:id": key}

    def _edu(self, device_id: str, **extra: Any) -> Json:
        previous, self.stream_id = self.stream_id, self.stream_id + 1
        content: Json = {"user_id": self.user_id, "device_id": device_id, "stream_id": self.stream_id,
                         "prev_id": [previous] if previous else [], **extra}
        return {"edu_type": "m.device_list_update", "content": content}

    def set(self, device_id: str, salt: str = "", name: str | None = None) -> Json:
        """Adds or replaces a device."""
        device = Device(matrix.device_keys(self.user_id, device_id, salt), name)
        self.devices[device_id] = device
        extra: Json = {"keys": device.keys}
        if name is not None:
            extra["device_display_name"] = name
        return self._edu(device_id, **extra)

    def delete(self, device_id: str) -> Json:
        self.devices.pop(device_id, None)
        return self._edu(device_id, deleted=True)

    def sign_in_cross(self, salt: str = "") -> Json:
        self.cross = matrix.cross_signing_keys(self.user_id, salt)
        self.stream_id += 1
        return {"edu_type": "m.signing_key_update", "content": {
            "user_id": self.user_id, "master_key": self.cross["master_key"],
            "self_signing_key": self.cross["self_signing_key"]}}

    def _cross_public(self) -> Json:
        return {k: v for k, v in self.cross.items() if k != "user_signing_key"}

    def full(self) -> Json:
        """The body of GET /user/devices."""
        listed = []
        for device_id, device in self.devices.items():
            entry: Json = {"device_id": device_id, "keys": device.keys}
            if device.name is not None:
                entry["device_display_name"] = device.name
            listed.append(entry)
        return {"user_id": self.user_id, "stream_id": self.stream_id, "devices": listed, **self._cross_public()}

    def query(self) -> Json:
        """device_keys[user] of POST /user/keys/query."""
        out: Json = {}
        for device_id, device in self.devices.items():
            if device.keys is None:
                continue
            keys = dict(device.keys)
            if device.name is not None:
                keys["unsigned"] = {"device_display_name": device.name}
            out[device_id] = keys
        return out
