"""What is shown of the real engine with Synapse as its peer: both ways, an outage, an outage with kill -9 of ours."""
from __future__ import annotations

import asyncio

from example import conversation
from rig import Collector, Json, check, equal, failing, to_device, until_async
from scenes import Real, Stage
from stand_in import StandIn
from synapse import User

BACKOFF = {"first": "500ms", "factor": 2.0, "max": "3s", "jitter": 0.2}


class Play:
    """The engine, its stand-in host and bob of Synapse in one room."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.rig, self.synapse = stage, stage.rig, stage.synapse
        self.engine = stage.rig.make_engine(backoff=BACKOFF)
        self.engine.own_key = False
        self.stream = Collector(self.engine)
        self.bob: User
        self.host: StandIn
        self.room_id = ""
        self.serial = 0

    async def say(self, count: int, word: str) -> list[str]:
        """Feeds that many messages, and one to-device message; the texts."""
        texts, records = [], []
        for _ in range(count):
            self.serial += 1
            texts.append(f"{word} {self.serial}")
            records.append(await self.host.say(texts[-1]))
        records.append(to_device(self.host.user_id, f"{word}{self.serial}",
                                 {self.bob.user_id: {self.bob.device_id: {"after": self.serial}}}, "m.test"))
        await self.engine.feed(*records)
        return texts

    async def told(self, after: list[int], within: float = 10.0) -> None:
        """Bob's device has exactly these to-device messages of ours, each once."""
        async def there() -> bool:
            await self.bob.sync(300)
            return len(self.bob.to_device) >= len(after)
        await until_async(there, within, f"bob's device gets {len(after)} to-device messages")
        equal([m["content"].get("after") for m in self.bob.to_device], after, "bob's to-device messages")

    async def closed(self, pdus: int) -> str:
        """The gate is closed for the right reason, and what waits is visible; the reason."""
        gate = await failing(self.engine, _Named(self.synapse.name))
        error = gate["last_error"]
        equal([error["class"], error["stage"]], ["unreachable", "connect"], "class and stage of last_error")
        check(gate["state"] in ("closed", "probing"), f"the gate is {gate['state']}")

        async def waiting() -> bool:
            d = await self.engine.destination(self.synapse.name)
            return [d["pending"]["pdus"], d["pending"]["to_device"]] == [pdus, 1]
        await until_async(waiting, 5, f"{pdus} PDUs and 1 to-device message are said to wait")
        status = await self.engine.cli("status")
        check(status.code == 0 and f"{pdus} pdus" in status.out, f"ranvier status says {status.out!r}")
        shown = (await self.engine.cli("show", self.synapse.name, "-o", "json")).json()
        equal(shown["pending"]["pdus"], pdus, "pending PDUs in ranvier show")
        for line in status.out.rstrip().split("\n"):
            print(f"            | {line}")
        return f"{error['class']} at stage {error['stage']}: {error['message']}"


class _Named:
    def __init__(self, name: str) -> None:
        self.name = name


async def _meet(play: Play) -> None:
    stage = play.stage
    play.bob, play.room_id = await stage.open()
    await play.engine.start()
    ours = Real(play.engine)
    stage.shown(f"the engine runs as {ours.name} with a key of its own making, {ours.key.key_id}")
    play.host = StandIn(ours, play.rig.net)
    roster = await play.host.join(play.room_id, play.synapse.name)
    check(roster[0]["members"] == {play.bob.user_id: "join", play.host.user_id: "join"}, f"the roster is {roster}")
    stage.shown("joined with a join event that events/sign signed: our key was fetched, our signature accepted")
    await play.engine.feed(*roster)


async def _both_ways(play: Play) -> None:
    stage = play.stage
    took = await stage.reads(play.bob, play.host.user_id, await play.say(3, "hello"))
    await play.told([3])
    stage.shown(f"bob reads 3 messages and gets a to-device message by /sync ({took:.1f} s)")
    await play.bob.send_to_device("m.test", play.host.user_id, "OURS1", {"n": 1})
    event_id = await play.bob.say(play.room_id, "hello back")
    await _heard(play, event_id, 1)
    stage.shown("what bob says and his to-device message come out of our stream once, verified")


async def _heard(play: Play, event_id: str, number: int) -> None:
    """Bob's event and his to-device message with this number stand in the stream, once."""
    event = await play.stream.until(
        lambda i: i["kind"] == "pdu" and i.get("event_id") == event_id, 20, "event of bob's")
    equal([event["origin"], event["verified"]], [play.synapse.name, True], "origin and verified")

    def with_number(item: Json) -> bool:
        return item["kind"] == "to_device" and item["messages"] == {play.host.user_id: {"OURS1": {"n": number}}}
    await play.stream.until(with_number, 20, "to-device message of bob's")
    await play.stream.settle(1.0)
    equal(sum(map(with_number, play.stream.items)), 1, "to-device items")
    equal(sum(i.get("event_id") == event_id for i in play.stream.of("pdu")), 1, "pdu items")


async def _outage(play: Play) -> None:
    stage = play.stage
    await play.synapse.stop()
    texts = await play.say(20, "unheard")
    reason = await play.closed(20)
    stage.shown(f"Synapse is stopped: the gate is closed ({reason}); 20 PDUs and 1 to-device message wait")
    await play.synapse.start()
    took = await stage.reads(play.bob, play.host.user_id, texts)
    await play.told([3, 23])
    stage.shown(f"Synapse is started: all 20 are read in order {took:.1f} s after it answers")


async def _outage_with_kill(play: Play) -> None:
    stage = play.stage
    await play.synapse.stop()
    texts = await play.say(10, "killed")
    await failing(play.engine, _Named(play.synapse.name))
    await play.engine.restart(kill=True)
    texts += (await play.say(0, "between"))  # a to-device message alone
    await asyncio.sleep(0.3)
    await play.engine.restart(kill=True)
    gate = await play.engine.gate(play.synapse.name)
    check(gate["consecutive_failures"] >= 1, "the streak of failures did not survive the kill")
    stage.shown("Synapse is stopped and our engine killed (-9) and started twice: the streak of failures is kept")
    await play.synapse.start()
    took = await stage.reads(play.bob, play.host.user_id, texts)
    await play.told([3, 23, 33, 33])
    stage.shown(f"Synapse is started: all 10 are read in order {took:.1f} s after it answers, to-device once each")
    await play.bob.send_to_device("m.test", play.host.user_id, "OURS1", {"n": 2})
    await _heard(play, await play.bob.say(play.room_id, "still there"), 2)
    stage.shown("and what bob says afterwards comes out of our stream once")


async def with_engine(stage: Stage, only_meet: bool = False) -> Play:
    play = Play(stage)
    await _meet(play)
    if not only_meet:
        await _both_ways(play)
        await _outage(play)
        await _outage_with_kill(play)
        await conversation(stage, play.engine, play.bob, play.room_id)
        play.stream = Collector(play.engine)  # the example host read on, as the same consumer
    return play


