"""What is shown with Synapse, scene by scene. Each prints a line when it has been seen."""
from __future__ import annotations

import time
from rig import Engine, Json, Peer, Rig, check, equal, matrix, until_async
from rig.matrix import Key
from stand_in import ROOM_VERSION, StandIn
from synapse import Synapse, User


class Stage:
    """Synapse with a user bob and a public room; a line for each thing shown."""

    def __init__(self, rig: Rig, synapse: Synapse) -> None:
        self.rig, self.synapse = rig, synapse
        self.begun = time.monotonic()

    def shown(self, what: str) -> None:
        print(f"[{time.monotonic() - self.begun:5.1f} s] {what}", flush=True)

    async def open(self) -> tuple[User, str]:
        await self.synapse.start()
        status, body = await self.rig.net.http(
            "GET", f"https://{self.synapse.name}/_matrix/federation/v1/version", None, {}, 5.0)
        equal(status, 200, "Synapse's version")
        self.shown(f"Synapse {body['server']['version'].split()[0]} runs as {self.synapse.name}")
        bob = await self.synapse.register("bob")
        return bob, await bob.create_room(ROOM_VERSION)

    async def reads(self, bob: User, sender: str, texts: list[str], within: float = 20.0) -> float:
        """Bob has read exactly these texts of the sender, in this order; how long it took."""
        started = time.monotonic()

        async def there() -> bool:
            await bob.sync(500)
            return bob.read(sender)[-len(texts):] == texts
        try:
            await until_async(there, within, f"bob reads {len(texts)} messages")
        except AssertionError as problem:
            raise AssertionError(f"{problem}; bob has read {bob.read(sender)[-8:]}") from problem
        return time.monotonic() - started


class Scripted:
    """The rig's scripted server in the engine's place: it publishes a key and signs."""

    def __init__(self, peer: Peer) -> None:
        self.peer, self.name, self.key = peer, peer.name, peer.key

    async def sign_event(self, version: str, event: Json) -> tuple[str, Json]:
        signed = matrix.sign_event(self.key, self.name, event)
        return matrix.event_id(signed), signed


class Real:
    """The engine: events are signed by `events/sign`, requests with the key that it made at its first start."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.name = engine, engine.name
        _, version, seed = (engine.data / "signing.key").read_text().split()
        self.key = Key(version, matrix.unb64(seed))

    async def sign_event(self, version: str, event: Json) -> tuple[str, Json]:
        status, body = await self.engine.host("POST", "/events/sign", {"room_version": version, "event": event})
        equal(status, 200, f"events/sign ({str(body)[:200]})")
        return body["event_id"], body["event"]


async def without_engine(stage: Stage) -> None:
    bob, room_id = await stage.open()
    peer = stage.rig.peer(1)
    ours = Scripted(peer)
    host = StandIn(ours, stage.rig.net)
    roster = await host.join(room_id, stage.synapse.name)
    check(roster[0]["members"] == {bob.user_id: "join", host.user_id: "join"}, f"the roster is {roster}")
    stage.shown("joined by make_join and send_join; our key was fetched and our signatures accepted")
    check(peer.asked("/key/v2/server"), "Synapse did not ask for our key")
    record = await host.say("hello from the rig")
    body = {"origin": ours.name, "origin_server_ts": matrix.now_ms(), "pdus": [record["event"]], "edus": [{
        "edu_type": "m.direct_to_device", "content": {
            "sender": host.user_id, "type": "m.test", "message_id": "m1",
            "messages": {bob.user_id: {bob.device_id: {"n": 1}}}}}]}
    answer = await host.request(stage.synapse.name, "PUT", "/_matrix/federation/v1/send/t1", body)
    equal(answer["pdus"], {record["event_id"]: {}}, "Synapse's answer")
    await stage.reads(bob, host.user_id, ["hello from the rig"])
    check([m["content"] for m in bob.to_device] == [{"n": 1}], f"to-device is {bob.to_device}")
    stage.shown("bob reads the message and gets the to-device message by /sync")
    await bob.send_to_device("m.test", host.user_id, "D1", {"n": 2})
    await bob.say(room_id, "hello back")

    async def answered() -> bool:
        return bool(peer.edus_of("m.direct_to_device") and peer.pdus)
    await until_async(answered, 15, "Synapse sends to us")
    stage.shown("what bob says, and his to-device message, arrive at our server")
