"""What a client sends in a session is passed on in small parts that take turns with the requests of others."""

import asyncio

from trimtab.server.http.raw_socket import RawSocket
from trimtab.server.http.session_input import BYTES_PER_TURN, SessionInput


class Reading:
    """Notes what happens to a connection."""

    def __init__(self) -> None:
        self.turns = 0
        self.is_paused = False
        self.socket = RawSocket(lambda _: None, lambda: None)
        self.input = SessionInput(self.socket, self.take_turn, self.pause, self.resume)

    async def take_turn(self) -> None:
        self.turns += 1
        await asyncio.sleep(0)

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False


def test_every_part_waits_for_a_turn_and_reading_pauses_meanwhile() -> None:
    async def scenario() -> None:
        reading, data = Reading(), bytes(range(256)) * 100
        reading.input.feed(data)
        assert (reading.is_paused, reading.turns) == (True, 0)
        parts: list[bytes] = []
        while sum(map(len, parts)) < len(data):
            part = await reading.socket.receive()
            assert part is not None
            parts.append(part)
            assert reading.turns >= len(parts)
        assert b"".join(parts) == data
        assert max(map(len, parts)) == BYTES_PER_TURN
        await asyncio.sleep(0)
        assert not reading.is_paused
        reading.input.feed(b"more")
        assert await reading.socket.receive() == b"more"

    asyncio.run(scenario())


def test_end_of_the_connection_comes_after_what_was_sent_before() -> None:
    async def scenario() -> None:
        reading = Reading()
        reading.input.feed(b"last words")
        reading.input.feed_eof()
        assert [await reading.socket.receive() for _ in range(2)] == [b"last words", None]
        idle = Reading()
        idle.input.feed_eof()
        assert await idle.socket.receive() is None
        await idle.socket.wait_until_closed()

    asyncio.run(scenario())


def test_nothing_is_passed_on_when_the_session_is_over() -> None:
    async def scenario() -> None:
        reading = Reading()
        reading.input.feed(bytes(10 * BYTES_PER_TURN))
        assert await reading.socket.receive() is not None
        reading.input.stop()
        for _ in range(20):
            await asyncio.sleep(0)
        assert reading.turns <= 2

    asyncio.run(scenario())
