"""The answer of a webhook is read to its end, whatever its pieces, and only from the server that is configured."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from server.admission.webhook_server import RawWebhook, http_answer, review, with_raw_webhook
from trimtab.server.admission.dynamic import webhook_calls
from trimtab.server.admission.dynamic.webhook_calls import MAX_ANSWER_BYTES, CallFailed, _decompress, _read_to_end

CHUNK = 64 * 1024
DENIAL = {"allowed": False, "status": {"code": 403, "message": "it is bad"}}


def denial_of(request: dict) -> bytes:
    return review({"uid": request["uid"], **DENIAL})


@pytest.mark.parametrize("split", [1, 60, 200, -1], ids=["head", "in the head", "in the body", "last byte"])
def test_denial_in_two_segments_is_honoured(tmp_path: Path, split: int) -> None:
    async def respond(request: dict, writer: asyncio.StreamWriter) -> None:
        answer = http_answer(denial_of(request))
        for piece in (answer[:split], answer[split:]):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.1)

    async def scenario(webhook: RawWebhook) -> None:
        await webhook.register(failurePolicy="Ignore")
        refused = await webhook.create()
        assert refused.status == 403
        assert refused.json()["message"].endswith("denied the request: it is bad")
        assert not await webhook.exists()

    with_raw_webhook(tmp_path, respond, scenario)


def test_denial_in_chunked_encoding_is_honoured(tmp_path: Path) -> None:
    async def respond(request: dict, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        body = denial_of(request)
        for start in range(0, len(body), 16):
            piece = body[start : start + 16]
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
            await asyncio.sleep(0.005)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def scenario(webhook: RawWebhook) -> None:
        await webhook.register(failurePolicy="Ignore")
        assert (await webhook.create()).status == 403

    with_raw_webhook(tmp_path, respond, scenario)


def test_gzip_denial_is_honoured(tmp_path: Path) -> None:
    async def respond(request: dict, writer: asyncio.StreamWriter) -> None:
        writer.write(http_answer(gzip.compress(denial_of(request)), "200 OK", "Content-Encoding: gzip"))
        await writer.drain()

    async def scenario(webhook: RawWebhook) -> None:
        await webhook.register(failurePolicy="Ignore")
        assert (await webhook.create()).status == 403

    with_raw_webhook(tmp_path, respond, scenario)


def test_redirect_is_not_followed(tmp_path: Path) -> None:
    calls: list[str] = []

    async def respond(request: dict, writer: asyncio.StreamWriter) -> None:
        calls.append(request["name"])
        if len(calls) == 1:
            writer.write(http_answer(b"", "307 Temporary Redirect", f"Location: {redirect_to[0]}"))
        else:
            writer.write(http_answer(review({"uid": request["uid"], "allowed": True})))
        await writer.drain()

    redirect_to: list[str] = []

    async def scenario(webhook: RawWebhook) -> None:
        redirect_to.append(f"{webhook.url}/elsewhere")
        await webhook.register(failurePolicy="Fail")
        refused = await webhook.create()
        assert refused.status == 500
        assert "the server responded with status 307" in refused.json()["message"]
        assert calls == ["x"]
        assert not await webhook.exists()

    with_raw_webhook(tmp_path, respond, scenario)


def _broken_answers() -> dict[str, bytes]:
    bomb = gzip.compress(b" " * (webhook_calls.MAX_ANSWER_BYTES + 1))
    return {
        "nothing": b"",
        "not http": b"hello\r\n\r\n",
        "cut": b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"response":{',
        "cut chunk": b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\n{"response',
        "bad chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        "empty": http_answer(b""),
        "not gzip": http_answer(b"{}", "200 OK", "Content-Encoding: gzip"),
        "cut gzip": http_answer(gzip.compress(b"{}" * 500)[:-9], "200 OK", "Content-Encoding: gzip"),
        "gzip bomb": http_answer(bomb, "200 OK", "Content-Encoding: gzip"),
        "unknown encoding": http_answer(b"{}", "200 OK", "Content-Encoding: br"),
        "too long": http_answer(b" " * (webhook_calls.MAX_ANSWER_BYTES + 1)),
        "long header": http_answer(b"{}", "200 OK", f"X: {'x' * 100_000}"),
        "server error": http_answer(b'{"response":{"allowed":true}}', "503 Service Unavailable"),
        "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    }


@pytest.mark.parametrize(("policy", "status"), [("Fail", 500), ("Ignore", 201)])
def test_failure_policy_decides_about_every_broken_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, policy: str, status: int
) -> None:
    answers = _broken_answers()

    async def respond(request: dict, writer: asyncio.StreamWriter) -> None:
        writer.write(answers[request["object"]["metadata"]["labels"]["answer"].replace("-", " ")])
        await writer.drain()

    async def scenario(webhook: RawWebhook) -> None:
        await webhook.register(failurePolicy=policy)
        for name in answers:
            body = {"metadata": {"generateName": "x-", "labels": {"answer": name.replace(" ", "-")}}}
            response = await webhook.client("POST", "/api/v1/namespaces/default/configmaps", body)
            assert response.status == status, (name, response.body)
            assert b"unexpected server failure" not in response.body, name
            if status == 500:
                assert "failed calling webhook" in response.json()["message"]

    with_raw_webhook(tmp_path, respond, scenario)
    assert not [record for record in caplog.records if record.exc_info]


def test_slow_answer_ends_at_the_deadline(tmp_path: Path) -> None:
    async def respond(request: dict, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:  # every byte arrives soon after the last one; only the whole takes too long
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.05)

    async def scenario(webhook: RawWebhook) -> None:
        await webhook.register(failurePolicy="Fail", timeoutSeconds=1)
        async with asyncio.timeout(60):
            refused = await webhook.create()
        assert refused.status == 500
        assert refused.json()["message"].endswith("context deadline exceeded")

    with_raw_webhook(tmp_path, respond, scenario)


def test_answer_is_read_up_to_its_limit_and_no_further() -> None:
    async def chunks(total: int) -> AsyncIterator[bytes]:
        for _ in range(total // CHUNK):
            yield b"x" * CHUNK
        assert total <= MAX_ANSWER_BYTES + CHUNK, "it is read on after the limit"

    assert len(asyncio.run(_read_to_end(chunks(MAX_ANSWER_BYTES)))) == MAX_ANSWER_BYTES
    with pytest.raises(CallFailed, match="longer than"):
        asyncio.run(_read_to_end(chunks(MAX_ANSWER_BYTES + CHUNK)))


def test_answer_is_decompressed_up_to_its_limit_and_no_further() -> None:
    assert len(_decompress(gzip.compress(bytes(MAX_ANSWER_BYTES)), "gzip")) == MAX_ANSWER_BYTES
    with pytest.raises(CallFailed, match="longer than"):
        _decompress(gzip.compress(bytes(2 * MAX_ANSWER_BYTES)), "gzip")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://127.0.0.1:1/check", "Connect call failed ('127.0.0.1', 1)"),
        ("https://nowhere.invalid/check", "Name or service not known"),
    ],
)
def test_failed_connection_is_described_without_objects_of_the_program(url: str, why: str) -> None:
    with pytest.raises(CallFailed) as failure:
        asyncio.run(webhook_calls.post_review(url, b"{}", webhook_calls.tls_context({})))
    assert str(failure.value) == f'failed to call webhook: Post "{url}": {why}'
