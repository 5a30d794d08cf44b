"""Converts large bodies in a worker process, so that the server answers other requests meanwhile.

Parsing YAML or protobuf takes seconds for the largest bodies, and a thread would hold Python's lock. A process ends after
one conversion: it starts in a tenth of a second, and large bodies of these formats are rare (kubectl sends JSON).
`python -m trimtab.server.request.body_worker` is the worker process.
"""

import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from trimtab.api.limits import (
    MAX_PROTOBUF_FIELDS_IN_LOOP,
    MAX_WAITING_FOR_WORKER,
    MAX_WORKERS,
    WORKER_BYTES,
    WORKER_SECONDS,
)
from trimtab.errors import ApiError, BadRequest, TooLarge, TooManyRequests
from trimtab.server.request.body_decoding import is_small_yaml, load_protobuf, load_yaml, unrecognized_error
from trimtab.server.request.messages import Request
from trimtab.server.request.negotiation import APPLY, JSON, PROTOBUF, YAML, media_type_of

_CONVERTED, _INVALID, _TOO_LARGE = 0, 3, 4
"""Exit codes; Python itself ends with 1 after an exception."""
_MAX_ERROR_BYTES = 4096


class ConversionFailed(ValueError):
    """The body is invalid; the message says why."""


class _Outcome(NamedTuple):
    code: int
    output: bytes


class BodyWorker:
    """Runs conversions, a few at a time."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(MAX_WORKERS)
        self._waiting = 0

    async def prepare(self, request: Request, api_version: str, kind: str) -> None:
        """Replace a body that takes long to decode by its JSON form."""
        media = media_type_of(request.headers.get("content-type", ""))
        if request.method == "DELETE":
            api_version, kind = "v1", "DeleteOptions"
        if media == YAML and not is_small_yaml(request.body):
            try:
                request.body = await self.convert(request.body, "yaml")
            except ConversionFailed as error:
                why = f"couldn't get version/kind; json parse error: {error}"
                raise unrecognized_error(kind, why, request.body) from None
        elif media == APPLY and request.method == "PATCH" and not _is_small_apply(request.body):
            try:
                request.body = await self.convert(request.body, "yaml")
            except ConversionFailed as error:
                raise BadRequest(f"error decoding YAML: {error}") from None
            if request.body[:1] != b"{":  # it would be read as YAML again
                raise BadRequest("error decoding YAML: the document is not an object")
            return  # the body of an apply patch may be JSON
        elif media == PROTOBUF and len(request.body) > MAX_PROTOBUF_FIELDS_IN_LOOP:
            request.body = await self._convert_protobuf(request.body, api_version, kind)
        else:
            return
        request.headers["content-type"] = JSON

    async def _convert_protobuf(self, body: bytes, api_version: str, kind: str) -> bytes:
        from trimtab.api import protobuf  # noqa: PLC0415 - loads a table

        try:
            found = protobuf.decode(body, api_version=api_version, kind=kind, max_fields=MAX_PROTOBUF_FIELDS_IN_LOOP)
            return orjson.dumps(found)
        except protobuf.TooManyFields:
            pass
        try:
            return await self.convert(body, "protobuf", api_version, kind)
        except ConversionFailed as error:
            raise BadRequest(str(error)) from None

    async def convert(self, body: bytes, task: str, *arguments: str) -> bytes:
        """The output of a task; raises `ConversionFailed` or an `ApiError`."""
        if self._waiting >= MAX_WAITING_FOR_WORKER:
            raise TooManyRequests("too many large bodies are being converted, please try again later", retry_after=1)
        self._waiting += 1
        try:
            async with self._free:
                outcome = await asyncio.to_thread(_run_process, body, task, arguments)
        finally:
            self._waiting -= 1
        if outcome.code == _CONVERTED:
            return outcome.output
        message = outcome.output[:_MAX_ERROR_BYTES].decode("utf-8", "replace")
        if outcome.code == _INVALID:
            raise ConversionFailed(message)
        raise TooLarge(message or "Request entity too large: converting the body takes too much time or memory")


def _is_small_apply(body: bytes) -> bool:
    return body.lstrip()[:1] == b"{" or is_small_yaml(body)


def _run_process(body: bytes, task: str, arguments: tuple[str, ...]) -> _Outcome:
    try:
        ended = subprocess.run(  # noqa: S603 - our own module; arguments are names of served kinds
            [sys.executable, "-S", "-m", "trimtab.server.request.body_worker", task, *arguments],
            input=body,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=WORKER_SECONDS,
            check=False,
            # do not pass on secrets from our environment
            env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
    except subprocess.TimeoutExpired:
        return _Outcome(_TOO_LARGE, b"")
    if ended.returncode not in (_CONVERTED, _INVALID):
        return _Outcome(_TOO_LARGE, ended.stdout if ended.returncode == _TOO_LARGE else b"")
    return _Outcome(ended.returncode, ended.stdout)


def _yaml_to_json(body: bytes) -> bytes:
    return orjson.dumps(load_yaml(body))


def _protobuf_to_json(body: bytes, api_version: str, kind: str) -> bytes:
    return orjson.dumps(load_protobuf(body, api_version, kind))


def json_to_yaml(body: bytes) -> bytes:
    """JSON as block-style YAML."""
    import yaml  # noqa: PLC0415 - few responses are YAML

    text: str = yaml.dump(orjson.loads(body), Dumper=yaml.CSafeDumper, default_flow_style=False, allow_unicode=True)
    return text.encode()


def _indent_json(body: bytes) -> bytes:
    return orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2)


_TASKS: dict[str, Callable[..., bytes]] = {
    "yaml": _yaml_to_json,
    "protobuf": _protobuf_to_json,
    "to-yaml": json_to_yaml,
    "to-indented-json": _indent_json,
}


def _perform(task: str, arguments: list[str], body: bytes) -> _Outcome:
    try:
        return _Outcome(_CONVERTED, _TASKS[task](body, *arguments))
    except TooLarge as error:
        return _Outcome(_TOO_LARGE, error.message.encode())
    except ApiError as error:
        return _Outcome(_INVALID, error.message.encode())
    except ValueError as error:
        return _Outcome(_INVALID, str(error).encode("utf-8", "replace"))


def main(arguments: list[str], stdin: Any, stdout: Any) -> int:
    """Convert standard input; the exit code says whether the output is the result or a message."""
    resource.setrlimit(resource.RLIMIT_AS, (WORKER_BYTES, WORKER_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (int(WORKER_SECONDS), int(WORKER_SECONDS)))
    outcome = _perform(arguments[0], arguments[1:], stdin.read())
    stdout.write(outcome.output)
    stdout.flush()
    return outcome.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdin.buffer, sys.stdout.buffer))
