"""A TCP relay in front of an API server, which can be cut like a network."""

import asyncio
import contextlib
import socket

CHUNK = 65536


class Relay:
    """Relays connections to a port on loopback; while it is cut, nothing gets through in either direction."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._open = asyncio.Event()
        self._open.set()
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Keep connections open, but pass nothing on: both sides see a network that drops packets."""
        self._open.clear()

    def heal(self) -> None:
        """Let new connections through, and reset those that a partition would have broken."""
        for task in list(self._connections):
            task.cancel()
        self._open.set()

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await self._open.wait()
            back_reader, back_writer = await asyncio.open_connection("127.0.0.1", self._target)
            try:
                done = [asyncio.ensure_future(self._pass(reader, back_writer))]
                done.append(asyncio.ensure_future(self._pass(back_reader, writer)))
                await asyncio.wait(done, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in done:
                    one.cancel()
                back_writer.close()
        writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                await self._open.wait()
                writer.write(data)
                await writer.drain()


def free_port() -> int:
    """A port that is free now; a process that is restarted needs the same one again."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
