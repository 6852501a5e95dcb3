"""HTTP/2 for scripted peers: one connection, many requests, and what servers do to it (GOAWAY, refused streams)."""
from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (ConnectionTerminated, DataReceived, RequestReceived, StreamEnded, StreamReset, WindowUpdated)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes
from hyperframe.frame import GoAwayFrame

if TYPE_CHECKING:
    from .network import Network


class Stream:
    """One request on its way; stands for the transport in the rig's records."""

    def __init__(self, connection: "Http2", number: int, headers: dict[str, str]) -> None:
        self.connection, self.number, self.headers = connection, number, headers
        self.body = b""
        self.reset = False
        self.task: asyncio.Task[None] | None = None
        self.window = asyncio.Event()

    def is_closing(self) -> bool:
        return self.reset or self.connection.transport is None or self.connection.transport.is_closing()

    def close(self) -> None:
        self.connection.reset(self.number, ErrorCodes.INTERNAL_ERROR)
        self.reset = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.connection.transport.get_extra_info(name, default) if self.connection.transport else default


class Http2(asyncio.Protocol):
    """One connection. Peers keep theirs in `peer.http2`."""

    def __init__(self, net: "Network") -> None:
        self.net = net
        self.transport: Any = None
        self.conn = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self.streams: dict[int, Stream] = {}
        self.served = 0
        self.most_at_once = 0
        self.resets = 0
        self.goaway_said = False
        self.peer: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.peer = self.net.by_ip(transport.get_extra_info("sockname")[0])
        if self.peer:
            self.peer.http2.append(self)
        self.conn.initiate_connection()
        if self.peer:  # only said: what comes before the client knows it is refused, as real servers do
            self.conn.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: self.peer.http2_streams})
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        for stream in list(self.streams.values()):
            stream.reset = True
            if stream.task:
                stream.task.cancel()

    def data_received(self, data: bytes) -> None:
        try:
            events = self.conn.receive_data(data)
        except ProtocolError:
            self.flush()
            self.transport.close()
            return
        for event in events:
            self._take(event)
        self.flush()

    def _take(self, event: Any) -> None:
        if isinstance(event, RequestReceived):
            if self.goaway_said:
                return  # it comes after our farewell: nobody looks at it
            if self.peer and (self.peer.http2_refuse > 0 or len(self.streams) >= self.peer.http2_streams):
                self.peer.http2_refuse = max(0, self.peer.http2_refuse - 1)
                self.reset(event.stream_id, ErrorCodes.REFUSED_STREAM)
                return
            self.streams[event.stream_id] = Stream(self, event.stream_id, dict(event.headers))
            self.most_at_once = max(self.most_at_once, len(self.streams))
        elif isinstance(event, DataReceived):
            self.conn.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            if event.stream_id in self.streams:
                self.streams[event.stream_id].body += event.data
        elif isinstance(event, StreamEnded) and event.stream_id in self.streams:
            stream = self.streams[event.stream_id]
            stream.task = asyncio.get_running_loop().create_task(self._serve(stream))
        elif isinstance(event, StreamReset) and event.stream_id in self.streams:
            self.resets += 1
            stream = self.streams.pop(event.stream_id)
            stream.reset = True
            if stream.task:
                stream.task.cancel()
        elif isinstance(event, WindowUpdated):
            for stream in self.streams.values():
                stream.window.set()
        elif isinstance(event, ConnectionTerminated):
            self.transport.close()

    async def _serve(self, stream: Stream) -> None:
        names = {k: v for k, v in stream.headers.items() if not k.startswith(":")}
        names["host"] = stream.headers.get(":authority", names.get("host", ""))
        self.served += 1
        made = await self.net.serve(stream, stream.headers[":method"], stream.headers[":path"], stream.body, names)
        if stream.reset or stream.number not in self.streams:
            return
        if made is None:
            stream.close()
            self.streams.pop(stream.number, None)
            return
        status, headers, body = made
        self.conn.send_headers(stream.number, [(":status", str(status))] + [(k.lower(), v) for k, v in headers.items()])
        await self._send(stream, body)
        self.streams.pop(stream.number, None)

    async def _send(self, stream: Stream, body: bytes) -> None:
        while not stream.reset:
            size = min(self.conn.local_flow_control_window(stream.number), self.conn.max_outbound_frame_size, len(body))
            if size > 0 or not body:
                self.conn.send_data(stream.number, body[:size], end_stream=size == len(body))
                body = body[size:]
                self.flush()
                if not body:
                    return
            else:
                stream.window.clear()
                await stream.window.wait()

    # --- what servers do ---
    def reset(self, number: int, code: ErrorCodes) -> None:
        try:
            self.conn.reset_stream(number, code)
            self.flush()
        except ProtocolError:
            pass

    def goaway(self, last: int | None = None, close: bool = False) -> None:
        """No further requests here. `last`: the last stream that counts; later ones were never looked at."""
        self.goaway_said = True
        frame = GoAwayFrame(0)  # by hand: the library would end the streams that are still in work
        frame.last_stream_id = self.conn.highest_inbound_stream_id if last is None else last
        self.transport.write(frame.serialize())
        for stream in list(self.streams.values()):
            stream.reset |= stream.number > frame.last_stream_id
        if close:
            self.transport.close()

    def abort(self) -> None:
        self.transport.abort()

    def flush(self) -> None:
        data = self.conn.data_to_send()
        if data and self.transport and not self.transport.is_closing():
            self.transport.write(data)


class Either(asyncio.Protocol):
    """What the client chose by ALPN decides who speaks on the connection."""

    def __init__(self, net: "Network", plain: Any) -> None:
        self.net, self.plain = net, plain

    def connection_made(self, transport: Any) -> None:
        chosen = transport.get_extra_info("ssl_object").selected_alpn_protocol()
        speaker = Http2(self.net) if chosen == "h2" else self.plain()
        transport.set_protocol(speaker)
        speaker.connection_made(transport)
