"""docs/INTEGRATING.md: its example host holds a conversation, and its commands do what the page says."""
from __future__ import annotations

import asyncio
import re
import sys
import urllib.parse
from pathlib import Path
from typing import Any

from rig import Answer, Json, Peer, Request, Rig, case, check, equal, matrix, until

DOCS = Path(__file__).resolve().parents[2] / "docs"


class PublicRoom:
    """A room of one peer with bob in it, that anyone may join: make_join, send_join and event."""

    def __init__(self, peer: Peer) -> None:
        self.peer, self.room_id = peer, f"!lobby:{peer.name}"
        self.bob = peer.user("bob")
        self.events: dict[str, Json] = {}
        self.state: list[str] = []
        self.head: list[str] = []
        self.joined: list[Json] = []
        self._add("m.room.create", "", {"room_version": "10", "creator": self.bob})
        self._add("m.room.member", self.bob, {"membership": "join"})
        self._add("m.room.power_levels", "", {"users": {self.bob: 100}})
        self._add("m.room.join_rules", "", {"join_rule": "public"})
        peer.endpoints.append(self.answer)

    def _add(self, kind: str, state_key: str | None, content: Json) -> Json:
        made = self.peer.event(self.room_id, self.bob, kind, content, prev=self.head, auth=list(self.state),
                               depth=len(self.events) + 1, state_key=state_key)
        event_id = matrix.event_id(made)
        self.events[event_id], self.head = made, [event_id]
        if state_key is not None:
            self.state.append(event_id)
        return made

    def say(self, text: str) -> Json:
        return self._add("m.room.message", None, {"msgtype": "m.text", "body": text})

    def answer(self, _: Peer, request: Request, parts: list[str]) -> Answer | None:
        if parts[1] == "make_join":
            user_id = parts[3]
            ids = [i for i in self.state if self.events[i]["type"] != "m.room.member"]
            return Answer(200, {"room_version": "10", "event": {
                "type": "m.room.member", "room_id": self.room_id, "sender": user_id, "state_key": user_id,
                "content": {"membership": "join"}, "origin_server_ts": 1, "depth": len(self.events) + 1,
                "prev_events": self.head, "auth_events": ids}})
        if parts[1] == "send_join":
            equal(parts[3], matrix.event_id(request.json), "the id in send_join's path")
            state = [self.events[i] for i in self.state]
            self.joined.append(request.json)
            self.events[parts[3]], self.head = request.json, [parts[3]]
            return Answer(200, {"state": state, "auth_chain": state, "event": request.json, "origin": self.peer.name})
        if parts[1] == "event":
            return Answer(200, {"origin": self.peer.name, "origin_server_ts": 1, "pdus": [self.events[parts[2]]]})
        return None


@case("integrating-example-host", timeout=60)
async def example_host(rig: Rig) -> None:
    """docs/example_host.py joins a room of another server, greets, and answers each message once, with a receipt."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = PublicRoom(peer)
    host = await asyncio.create_subprocess_exec(
        sys.executable, str(DOCS / "example_host.py"), "--url", engine.host_url, "--data-dir", str(engine.data),
        "--name", engine.name, "--room", room.room_id, "--via", peer.name,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
    try:
        def texts() -> list[str]:
            return [p["content"]["body"] for _, _, p in peer.pdus if p["type"] == "m.room.message"]
        await until(lambda: texts() or host.returncode is not None, 20, "a greeting")
        equal(texts(), ["Hello, I answer whoever speaks."], "the greeting")
        anna = f"@anna:{engine.name}"
        equal([(e["sender"], e["content"]["membership"]) for e in room.joined], [(anna, "join")], "who joined")
        said = []
        for number in range(3):
            said.append(room.say(f"word {number}"))
            status, body = await peer.send([said[-1]])
            equal(status, 200, f"our answer to what bob said ({body})")
            await until(lambda n=number: f"You said: word {n}" in texts(), 10, f"an answer to word {number}")
        equal(texts()[1:], [f"You said: word {n}" for n in range(3)], "the answers")
        for message, (_, _, reply) in zip(said, [p for p in peer.pdus if p[2]["type"] == "m.room.message"][1:]):
            check(matrix.event_id(message) in reply["prev_events"], "an answer does not stand on what it answers")
            check(matrix.event_signed_by(reply, engine.name, {engine.key.key_id: engine.key.public_text}),
                  "an answer isn't signed by us")
            equal(len(reply["auth_events"]), 3, "auth events: create, power levels, our member event")
        last = matrix.event_id(said[-1])
        await until(lambda: any(last in str(c) for c in peer.edus_of("m.receipt")), 10, "a receipt")
    finally:
        if host.returncode is None:
            host.kill()
        assert host.stdout
        rig.notes.append("host: " + (await host.stdout.read()).decode()[-300:])
        await host.wait()


def commands() -> list[str]:
    """The page's shell blocks, in order, without those that start things (they say so in their first line)."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (DOCS / "INTEGRATING.md").read_text(), re.M | re.S)
    return [b for b in blocks if not b.startswith("# in ")]


async def run(script: str, env: dict[str, str]) -> list[Any]:
    """Runs one script of bash; what each command printed, a line each."""
    made = await asyncio.create_subprocess_exec("bash", "-euc", script, env={"PATH": "/usr/bin:/bin", **env},
                                                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
    out = (await asyncio.wait_for(made.communicate(), 40))[0].decode()
    equal(made.returncode, 0, f"the exit status of the page's commands ({out[-300:]})")
    return out.splitlines()


@case("integrating-page", timeout=60)
async def page(rig: Rig) -> None:
    """The page's commands, run from top to bottom as one script: none is refused, and the other server gets it all."""
    engine = await rig.engine()
    peer = rig.peer(1)
    blocks = commands()
    check(len(blocks) >= 8, f"the page has only {len(blocks)} blocks of commands")
    env = {"HOST": engine.host_url, "TOKEN": engine.token(), "US": engine.name, "THEM": peer.name}
    out = await run("\n".join(blocks), env)
    refused = [line for line in out if '"errcode"' in line]
    equal(refused, [], "refusals")
    await until(lambda: peer.pdus and peer.edus_of("m.typing") and peer.edus_of("m.direct_to_device"), 10,
                "event, typing and to-device message at the other server")
    equal(peer.pdus[0][2]["content"]["body"], "hello", "the event")
    await until(lambda: peer.device_edus(), 10, "the new device's update")
    check(any(urllib.parse.unquote(r.uri) == "/_matrix/federation/v1/version" for r in peer.requests),
          "the request of the page never came")
