"""Random requests, also of callers without rights, get an answer that the wire specification names.

`make test` sends a few hundred with a fixed seed; `make soak` sends 10,000 times EFFORT with new seeds.
What every request must keep:

- no status of the 5xx class but the named ones, and no traceback in the log,
- a caller without rights gets no 2xx but for discovery, health and reviews of himself,
- a refused creation stores nothing,
- no request holds the event loop for more CPU time than `MAX_CPU_SECONDS` without a break, so that `/livez` is answered
  meanwhile (measured again before it counts),
- after a server has stopped, the memory is back at its level.
"""

import asyncio
import gc
import logging
import os
import random
import re
import secrets
import time
import unittest.mock
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from properties.hypothesis_settings import EFFORT
from properties.request_generator import FuzzRequest, RequestGenerator, resources_of
from server.asgi import ADMIN, AsgiClient, ReceivedResponse, with_asgi_client
from trimtab.server.apiserver import ApiServer
from trimtab.server.auth.user import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User
from trimtab.server.http.listener import Listener
from trimtab.server.request.routes import parse_path
from trimtab.store.store import Store

REQUESTS = 500 if EFFORT == 1 else 10_000 * EFFORT
REQUESTS_PER_SERVER = 2500
SEED = 1 if EFFORT == 1 else secrets.randbits(32)
MAX_CPU_SECONDS = 0.25
MAX_GROWTH_BYTES = 96 << 20
"""Growth of the process from the second server to the last: allocators keep some, a leak of a cache is more."""
NOBODY = User("nobody", (AUTHENTICATED,))
CALLERS = [ADMIN] * 24 + [NOBODY, NOBODY, User(ANONYMOUS, (UNAUTHENTICATED,)), None]
NAMED_ERRORS = {
    500: (
        "resourceVersion should not be set on objects to be created",
        "strconv.ParseUint: parsing",
        'resourceVersion: Invalid value: "',
        "failed to create typed patch object",
        "the spec replicas field ",
        'failed calling webhook "',
    ),
    503: ("no endpoints available for ", "cannot be reached: it has neither an endpoint nor credentials here"),
    504: ("Too large resource version",),
}
PUBLIC_PATHS = re.compile(r"/(?:(?:api|apis|openapi)(?:/.*)?|healthz|livez|readyz|version)/?\Z")
SELF_REVIEWS = re.compile(r"/(?:selfsubject(?:accessreviews|rulesreviews|reviews))/?\Z")


class _LogRecords(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@contextmanager
def recorded_log() -> Iterator[list[logging.LogRecord]]:
    handler = _LogRecords()
    logging.getLogger().addHandler(handler)
    try:
        yield handler.records
    finally:
        logging.getLogger().removeHandler(handler)


def _names_resource(path: str) -> bool:
    target = parse_path(path)
    return target is not None and bool(target.resource)


def check_response(request: FuzzRequest, caller: User | None, response: ReceivedResponse) -> None:
    if response.status >= 500:
        named = NAMED_ERRORS.get(response.status, ())
        if request.method == "HEAD":  # whose response has no body
            assert named, response.status
            return
        assert any(text.encode() in response.body.replace(b'\\"', b'"') for text in named), response.body[:500]
    path = request.path.partition("?")[0]
    if caller is not ADMIN and response.status < 300:
        is_review = request.method == "POST" and SELF_REVIEWS.search(path)
        is_discovery = PUBLIC_PATHS.match(path) and not _names_resource(path)
        assert is_review or is_discovery, "a caller without rights got an answer"
    if response.status >= 400 and b'"kind":"Status"' in response.body:
        assert response.json()["code"] == response.status
    for name, value in response.headers.items():
        assert value.replace("\n", "").isprintable(), (name, value)


class _LongestCallback:
    """The longest CPU time that one callback of the event loop took since the last reset."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def observed(self) -> Iterator[None]:
        run = asyncio.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            started = time.thread_time()
            run(handle)
            self.seconds = max(self.seconds, time.thread_time() - started)

        with unittest.mock.patch.object(asyncio.Handle, "_run", timed):
            yield


class Fuzz:
    """Sends random requests to one server and keeps what they cost."""

    def __init__(self, client: AsgiClient, generator: RequestGenerator, log: list[logging.LogRecord]) -> None:
        self._client = client
        self._generator = generator
        self._log = log
        self._longest = _LongestCallback()

    async def run(self, count: int) -> None:
        with self._longest.observed():
            await self._run(count)

    async def _run(self, count: int) -> None:
        for _ in range(count):
            request = self._generator.request()
            caller = self._generator.rng.choice(CALLERS)
            before = self._stored_keys(request)
            response, seconds = await self._send(request, caller)
            try:
                check_response(request, caller, response)
                self._check_log()
                if response.status >= 400:
                    assert self._stored_keys(request) <= before, "a refused creation is stored"
                if seconds > MAX_CPU_SECONDS:
                    await self._check_cost(request, caller)
            except AssertionError as error:
                raise AssertionError(f"seed {SEED}: {caller and caller.name}: {request!r}"[:3000]) from error

    async def _send(self, request: FuzzRequest, caller: User | None) -> tuple[ReceivedResponse, float]:
        await asyncio.sleep(0)
        self._longest.seconds = 0.0
        headers = {name.replace("-", "_"): value for name, value in request.headers.items()}
        response = await self._client(request.method, request.path, request.body, user=caller, **headers)
        await asyncio.sleep(0)  # the callback that ends the request is complete only now
        return response, self._longest.seconds

    async def _check_cost(self, request: FuzzRequest, caller: User | None) -> None:
        """Fails if the request is expensive whenever it is sent: caches are cold once, and the collector runs sometimes."""
        costs = [(await self._send(request, caller))[1] for _ in range(3)]
        assert min(costs) <= MAX_CPU_SECONDS, f"{min(costs):.3f} s of CPU"

    def _check_log(self) -> None:
        assert not [r.getMessage() for r in self._log if r.exc_info or r.levelno >= logging.ERROR]
        self._log.clear()

    def _stored_keys(self, request: FuzzRequest) -> set[str]:
        """The keys of the collection that a POST or an apply would create in."""
        if request.method not in {"POST", "PATCH"}:
            return set()
        target = parse_path(request.path.partition("?")[0])
        if target is None or not target.resource:
            return set()
        prefix = f"/registry/{target.group or 'core'}/{target.resource}/{target.namespace}"
        return {entry.key for entry in self._client.server.store.list(prefix).entries}


async def discovered_lists(client: AsgiClient) -> list[dict[str, Any]]:
    groups = (await client("GET", "/apis")).json()["groups"]
    paths = ["/api/v1", *(f"/apis/{version['groupVersion']}" for group in groups for version in group["versions"])]
    return [(await client("GET", path)).json() for path in paths]


async def new_generator(client: AsgiClient, rng: random.Random) -> RequestGenerator:
    crds = await client("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    return RequestGenerator(rng, resources_of(await discovered_lists(client)), crds.json()["items"])


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_random_requests_keep_every_promise() -> None:
    rng = random.Random(SEED)
    levels: list[int] = []
    for start in range(0, REQUESTS, REQUESTS_PER_SERVER):
        with recorded_log() as log:

            async def scenario(client: AsgiClient, log: list[logging.LogRecord] = log, start: int = start) -> None:
                generator = await new_generator(client, rng)
                await Fuzz(client, generator, log).run(min(REQUESTS_PER_SERVER, REQUESTS - start))

            with_asgi_client(scenario, check_all_budgets=rng.random() < 0.5)
        levels.append(resident_bytes())
    if len(levels) > 2:
        assert levels[-1] - levels[1] < MAX_GROWTH_BYTES, [level >> 20 for level in levels]
    print(orjson.dumps({"seed": SEED, "requests": REQUESTS, "MiB": [level >> 20 for level in levels]}).decode())


SOCKET_REQUESTS = 60 if EFFORT == 1 else 200 * EFFORT


def raw_bytes(generator: RequestGenerator) -> bytes:
    """A request as bytes on the wire; some have a wrong length, a cut end or stray bytes."""
    rng = generator.rng
    request = generator.request()
    length = len(request.body) + rng.choice([0, 0, 0, 0, 0, -1, 1, 100])
    target = re.sub(r"watch(=|(?=[&/?]|\Z))", "w=", request.path) or "/"  # a watch would keep the connection
    headers = {**request.headers, "host": "x", "content-length": str(length), "connection": "close"}
    lines = [f"{request.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    raw = "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + request.body
    return generator.damage(raw, 0.3)


async def exchange(port: int, raw: bytes, rng: random.Random) -> bytes:
    """The first line of the response; empty when the server closes the connection without one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    cut = rng.randint(0, len(raw))
    for part in (raw[:cut], raw[cut:]):
        writer.write(part)
        await asyncio.sleep(0)
    if rng.random() < 0.2:
        writer.transport.abort()
        return b""
    writer.write_eof()
    line = await asyncio.wait_for(reader.readline(), 60)
    writer.close()
    return line


def test_random_bytes_on_a_socket_keep_the_server_alive() -> None:
    rng = random.Random(SEED)

    async def run(log: list[logging.LogRecord]) -> None:
        server = ApiServer(Store())
        await server.start()
        listener = Listener(server.app, "127.0.0.1", 0, None)
        await listener.start()
        try:
            generator = await new_generator(AsgiClient(server), rng)
            for _ in range(SOCKET_REQUESTS):
                raw = raw_bytes(generator)
                try:
                    line = await exchange(listener.port, raw, rng)
                except ConnectionError:
                    line = b""
                assert re.match(rb"HTTP/1.1 [1-4]|\Z", line), (line, raw[:2000])
                assert not [r.getMessage() for r in log if r.exc_info or r.levelno >= logging.ERROR], raw[:2000]
            alive = await exchange(listener.port, b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n", random.Random(3))
            assert b"200" in alive
        finally:
            await listener.stop()
            await server.stop()

    with recorded_log() as log:
        asyncio.run(run(log))
