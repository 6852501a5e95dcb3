#!/usr/bin/env python3
"""A host of a hundred lines: joins a room of another server and answers whoever speaks there. Ranvier does the rest.

    example_host.py --data-dir ranvier-data --via remote.example --room '!id:remote.example' [--user anna]

Python's standard library only. What it leaves out is what a homeserver is: auth rules, state resolution, clients, and
a memory of its own (started again, it joins again). docs/INTEGRATING.md explains each call.
"""
import argparse
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

ROOM_VERSIONS = ("6", "7", "8", "9", "10", "11")  # their events have one shape
quote = lambda text: urllib.parse.quote(text, safe="")  # noqa: E731


class Ranvier:
    """The host API."""

    def __init__(self, url, token):
        self.base, self.token = url + "/_ranvier/v1", token

    def call(self, method, path, body=None, timeout=60):
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, method=method, headers={
            "Authorization": "Bearer " + self.token, "Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            raise SystemExit(f"{method} {path}: {refusal.code} {refusal.read().decode()}") from None

    def feed(self, *records):
        """Durable when it returns; after any error the same lines may be sent again."""
        answer = self.call("POST", "/feed", "\n".join(map(json.dumps, records)).encode())
        if answer["rejected"]:
            raise SystemExit(f"a record was rejected: {answer['rejected'][0]}")

    def items(self):
        """The stream, for ever. Asking for more acknowledges what was given before."""
        after = ""
        while True:
            page = self.call("GET", f"/stream?timeout_ms=30000{after}")
            yield from page["items"]
            after = f"&after={page['next']}"

    def federation(self, server, method, uri, content=None):
        """Any request to another server: found, signed and sent by the engine."""
        order = {"destination": server, "method": method, "uri": "/_matrix/federation" + uri, "timeout_ms": 30000}
        answer = self.call("POST", "/requests", order if content is None else {**order, "content": content})
        if answer["status"] != 200:
            raise SystemExit(f"{server} answered {method} {uri} with {answer['status']}: {answer['content']}")
        return answer["content"]


class Room:
    """One local user in one room of another server: enough of the room's graph to speak in it."""

    def __init__(self, ranvier, room_id, user_id):
        self.ranvier, self.room_id, self.user_id = ranvier, room_id, user_id
        self.version, self.heads, self.depth, self.auth = "", set(), 0, {}

    def join(self, server):
        versions = "&".join("ver=" + v for v in ROOM_VERSIONS)
        room, user = quote(self.room_id), quote(self.user_id)
        made = self.ranvier.federation(server, "GET", f"/v1/make_join/{room}/{user}?{versions}")
        self.version = made["room_version"]
        template = {**made["event"], "origin_server_ts": int(time.time() * 1000)}
        join = self.ranvier.call("POST", "/events/sign", {"room_version": self.version, "event": template})
        path = f"/v2/send_join/{room}/{quote(join['event_id'])}"
        state = self.ranvier.federation(server, "PUT", path, join["event"])["state"]
        members = {e["state_key"]: e["content"]["membership"] for e in state if e["type"] == "m.room.member"}
        members[self.user_id] = "join"
        self.ranvier.feed({"kind": "roster", "room_id": self.room_id, "room_version": self.version,
                           "members": members})
        self.heads, self.depth = {join["event_id"]}, template["depth"]
        self.auth["m.room.member"] = join["event_id"]
        for event_id in template["auth_events"]:  # of these a message needs the create and power levels events
            kind = self.ranvier.federation(server, "GET", f"/v1/event/{quote(event_id)}")["pdus"][0]["type"]
            if kind in ("m.room.create", "m.room.power_levels"):
                self.auth[kind] = event_id

    def say(self, text, answers=None):
        event = {"type": "m.room.message", "room_id": self.room_id, "sender": self.user_id, "depth": self.depth + 1,
                 "content": {"msgtype": "m.text", "body": text}, "origin_server_ts": int(time.time() * 1000),
                 "prev_events": sorted(self.heads)[:20], "auth_events": list(self.auth.values())}
        signed = self.ranvier.call("POST", "/events/sign", {"room_version": self.version, "event": event})
        self.heads, self.depth = {signed["event_id"]}, self.depth + 1
        records = [{"kind": "pdu", "room_version": self.version, **signed}]
        if answers:
            receipt = {"m.read": {self.user_id: {"event_ids": [answers], "data": {"ts": int(time.time() * 1000)}}}}
            records.append({"kind": "edu", "edu_type": "m.receipt", "room_id": self.room_id,
                            "content": {self.room_id: receipt}})
        self.ranvier.feed(*records)

    def take(self, item):
        """An event of another server. A homeserver checks auth rules and state; this one takes what is verified."""
        event, event_id = item["event"], item.get("event_id")
        if event.get("room_id") != self.room_id or item["verified"] is not True or not event_id:
            return
        self.heads = (self.heads - set(event["prev_events"])) | {event_id}
        self.depth = max(self.depth, event["depth"])
        if event["type"] == "m.room.member":
            self.ranvier.feed({"kind": "membership", "room_id": self.room_id, "user_id": event["state_key"],
                               "membership": event["content"]["membership"], "event_id": event_id})
        elif event["type"] == "m.room.power_levels":
            self.auth["m.room.power_levels"] = event_id
        elif event["type"] == "m.room.message" and event["content"].get("msgtype") == "m.text":
            print(f"{event['sender']}: {event['content']['body']}", flush=True)
            self.say(f"You said: {event['content']['body']}", answers=event_id)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8449", help="the engine's host listener")
    parser.add_argument("--data-dir", default="ranvier-data", help="where the engine keeps host_token")
    parser.add_argument("--name", default="localhost:8448", help="the engine's server_name")
    parser.add_argument("--user", default="anna")
    parser.add_argument("--via", required=True, help="a server that is in the room")
    parser.add_argument("--room", required=True, help="a public room's id")
    options = parser.parse_args()
    ranvier = Ranvier(options.url, (Path(options.data_dir) / "host_token").read_text().strip())
    room = Room(ranvier, options.room, f"@{options.user}:{options.name}")
    room.join(options.via)
    room.say("Hello, I answer whoever speaks.")
    print(f"{room.user_id} is in {room.room_id} and listens", flush=True)
    for item in ranvier.items():
        if item["kind"] == "pdu":
            room.take(item)


if __name__ == "__main__":
    main()
