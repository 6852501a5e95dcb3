"""Our host API joins rooms of a real Synapse: in full and with members omitted; what follows is seen on both sides."""
from __future__ import annotations

from outages import Play
from rig import Json, check, device, equal, quote, until_async
from rig.rooms import join, room_state, view
from scenes import Real
from stand_in import ROOM_VERSION, StandIn
from synapse import User


class Joiner(StandIn):
    """A user of ours whom the engine joins to a room."""

    async def join_by(self, play: Play, room_id: str, *, partial: bool) -> Json:
        status, answer = await join(play.engine, room_id, self.user_id, [play.synapse.name], partial=partial,
                                    content={"displayname": self.user_id[1:6]})
        equal(status, 200, f"the join ({str(answer)[:300]})")
        self.room_id, self.room_version = room_id, answer["room_version"]
        for event in [*answer["state"], answer["event"]]:
            self._note(event)
        self.head, self.depth = [answer["event_id"]], answer["event"]["depth"]
        return answer


async def _both_sides(play: Play, who: Joiner, bob: User, word: str) -> None:
    """What the joiner says is read at Synapse, and the other way round."""
    await play.engine.feed(await who.say(f"{word} from ours"))
    await play.stage.reads(bob, who.user_id, [f"{word} from ours"])
    said = await bob.say(who.room_id, f"{word} from bob")
    item = await play.stream.until(lambda i: i["kind"] == "pdu" and i.get("event_id") == said, 20, "bob's event")
    equal([item["origin"], item["verified"]], [play.synapse.name, True], "origin and verified")


async def _end_of(play: Play, room_id: str) -> Json:
    """The stream's item about the end of the partial join."""
    return await play.stream.until(lambda i: i["kind"] == "partial_join" and i["room_id"] == room_id, 60,
                                   "end of the partial join")


async def _named_at(at: User, user_id: str, device_id: str, name: str, within: float = 20) -> None:
    async def known() -> bool:
        got = await at.call("POST", "/keys/query", {"device_keys": {user_id: []}})
        keys = got["device_keys"].get(user_id, {}).get(device_id, {})
        return bool(keys.get("unsigned", {}).get("device_display_name") == name)
    await until_async(known, within, f"{at.synapse.name} knows the device as {name}")


async def second_server(play: Play) -> None:
    """Another Synapse is in the room and down while we join; when it is back it gets everything."""
    stage, bob, engine = play.stage, play.bob, play.engine
    other = play.synapse.another()
    try:
        await other.start()
        dave = await other.register("dave")
        room = await bob.create_room(ROOM_VERSION)
        await dave.call("POST", f"/join/{quote(room)}?server_name={quote(play.synapse.name)}", {}, timeout=60)
        await bob.say(room, "before")
        await stage.reads(dave, bob.user_id, ["before"])
        await other.stop()
        frida = Joiner(Real(engine), play.rig.net, "frida")
        answer = await frida.join_by(play, room, partial=True)
        check({play.synapse.name, other.name} <= set(answer["servers_in_room"]),
              f"servers_in_room is {answer['servers_in_room']}")
        await engine.feed(device(frida.user_id, "F1", name="old"))
        texts = []
        for number in range(5):
            texts.append(f"unheard {number}")
            await engine.feed(await frida.say(texts[-1]))
        await engine.feed({"kind": "device", "user_id": frida.user_id, "device_id": "F1", "display_name": "new"})
        await stage.reads(bob, frida.user_id, texts)
        if answer["partial"]:
            equal((await _end_of(play, room))["state"], "complete", "the end of the partial join")
        waiting = (await engine.destination(other.name))["pending"]["pdus"]
        equal(waiting, len(texts), "events that wait for the server that is down")
        stage.shown(f"a second Synapse is down: the join completes without it; {waiting} events wait for it")
        await other.start()
        await dave.say(room, "back again")  # the first Synapse hears of it, and tells of our join

        async def served() -> bool:
            return not (await engine.destination(other.name))["pending"]["pdus"]
        await until_async(served, 30, "nothing waits for the second Synapse any more")
        await bob.say(room, "and on")  # what came before our join was known there is fetched now

        async def read() -> bool:
            await dave.sync(300)
            return set(texts) <= set(dave.read(frida.user_id))
        await until_async(read, 60, "dave reads all that was said meanwhile")
        await _named_at(dave, frida.user_id, "F1", "new")
        said = await dave.say(room, "hello frida")
        await play.stream.until(lambda i: i["kind"] == "pdu" and i.get("event_id") == said, 30, "what dave says")
        stage.shown("it is back: its user reads everything, knows our device by its new name, and is heard by us")
    finally:
        await other.stop()


async def joins(play: Play) -> None:
    stage, bob = play.stage, play.bob
    carol = await play.synapse.register("carol")
    ours = Real(play.engine)

    whole = await bob.create_room(ROOM_VERSION)
    await carol.call("POST", f"/join/{quote(whole)}", {})
    dora = Joiner(ours, play.rig.net, "dora")
    answer = await dora.join_by(play, whole, partial=False)
    equal(answer["partial"], False, "partial")
    members = (await view(play.engine, whole))["members"]
    equal(members, {u: "join" for u in (bob.user_id, carol.user_id, dora.user_id)}, "the members")
    await _both_sides(play, dora, bob, "full")
    stage.shown("a full join through the host API: members known, messages both ways, verified")

    room = await bob.create_room(ROOM_VERSION)
    await carol.call("POST", f"/join/{quote(room)}", {})
    emil = Joiner(ours, play.rig.net, "emil")
    answer = await emil.join_by(play, room, partial=True)
    shown = sum(e["type"] == "m.room.member" for e in answer["state"])
    stage.shown(f"a join with members omitted: Synapse's answer is {'partial' if answer['partial'] else 'whole'}, "
                f"{shown} member events in it, servers {answer['servers_in_room']}")
    await _both_sides(play, emil, bob, "partial")
    await play.engine.feed(device(emil.user_id, "EMIL1", name="named"))
    await play.engine.feed({"kind": "device", "user_id": emil.user_id, "device_id": "EMIL1", "display_name": "renamed"})
    await _named_at(bob, emil.user_id, "EMIL1", "renamed")
    stage.shown("meanwhile messages go both ways, and a renamed device of ours is known at Synapse")
    if answer["partial"]:
        item = await _end_of(play, room)
        equal([item["state"], item["servers"][play.synapse.name]["verdict"]], ["complete", "ok"], "the end of the join")
        status, body = await room_state(play.engine, room, 30_000)
        equal(status, 200, f"the full state ({str(body)[:200]})")
        told = {e["state_key"] for e in body["state"] if e["type"] == "m.room.member"}
        check({bob.user_id, carol.user_id} <= told, f"the state has the members {told}")
    seen = await view(play.engine, room)
    equal([seen["partial"], seen["members"]],
          [False, {u: "join" for u in (bob.user_id, carol.user_id, emil.user_id)}], "the room in the end")
    stage.shown("the partial join is complete: all members are known, the full state is there for the host")
    await second_server(play)
