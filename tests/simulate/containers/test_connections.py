"""Connections to the ports of simulated containers."""

import asyncio

from trimtab.clock import run_virtually
from trimtab.server.admission.dynamic.service_calls import ServerAnswer, ServerRequest
from trimtab.simulate.containers.connections import Connection, Listener, send_chunks, serve_http
from trimtab.simulate.containers.process import Process

TESTER = {"CHUNKS": "3", "CHUNK_SIZE": "2", "CHUNK_INTERVAL": "100", "EXPECTED_CLIENT_DATA": "abc"}


def serve(*parts: bytes) -> bytes:
    """What a server answers to these bytes of a client that then closes its direction."""
    waiting, answered = list(parts), bytearray()

    async def receive() -> bytes | None:
        return waiting.pop(0) if waiting else None

    def respond(request: ServerRequest) -> ServerAnswer:
        return ServerAnswer(200, f"{request.path} {request.body.decode()}")

    run_virtually(serve_http(respond, 80, receive, answered.extend))
    return bytes(answered)


def test_requests_of_one_connection_are_answered_in_turn() -> None:
    answer = serve(b"GET /a?x=1 HT", b"TP/1.1\r\nHost: x\r\n\r\nPOST /b HTTP/1.1\r\ncontent-length: 4\r\n\r\nbo", b"dy")
    first, second = (part for part in answer.split(b"HTTP/1.1 200 OK") if part)
    assert first.endswith(b"\r\n\r\n/a ")
    assert second.endswith(b"\r\n\r\n/b body")


def test_connection_ends_when_the_client_wants_that() -> None:
    answer = serve(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\nGET /never HTTP/1.1\r\n\r\n")
    assert b"Connection: close" in answer
    assert b"never" not in answer
    assert serve(b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400")


def test_tester_checks_the_data_of_its_client_and_answers_in_chunks() -> None:
    async def scenario() -> None:
        listener, sent = Listener(), bytearray()
        process = Process(lambda write: send_chunks(listener, TESTER, write), 0.0)
        assert process.advance(1.0) is None
        connection = Connection(sent.extend)
        listener.waiting.append(connection)
        process.wake(2.0)
        process.advance(2.0)
        connection.received.feed(b"abc")
        process.wake(3.0)
        for tenths in range(30, 40):
            process.advance(tenths / 10)
        assert bytes(sent) == b"xxxxxx"
        assert connection.ended.is_set()
        assert process.exit_code == 0
        texts = [line.text for line in process.log.lines]
        assert texts == [
            "Accepted client connection",
            "Received expected client data",
            "Shutting down connection",
            "Done",
        ]

    asyncio.run(scenario())


def test_tester_fails_when_its_client_sends_nothing() -> None:
    async def scenario() -> None:
        listener = Listener()
        process = Process(lambda write: send_chunks(listener, TESTER, write), 0.0)
        connection = Connection(lambda _: None)
        connection.received.close()
        listener.waiting.append(connection)
        process.advance(1.0)
        assert (process.exit_code, connection.ended.is_set()) == (2, True)
        assert "Expected to read 3 bytes from client, but got 0 instead" in process.log.lines[-1].text

    asyncio.run(scenario())
