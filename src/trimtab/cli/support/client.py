"""What commands share: reaching an API server, printing tables, reading documents."""

import asyncio
import gc
import os
import platform
import sys
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
import yaml

from trimtab.api.value import Raw
from trimtab.client.client import Client
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.clock import WallClock
from trimtab.errors import InputFault
from trimtab.runtime.leader_election import Election

T = TypeVar("T")

_Safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class Loader(_Safe):  # type: ignore[misc]
    """Reads YAML as Kubernetes does: a time is text, with or without quotes."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in _Safe.yaml_implicit_resolvers.items()
    }


LARGEST_DOCUMENT = 64 << 20
SELDOM = (50_000, 10, 10)
"""When a server that lives long looks for cycles: at the usual pace it took a quarter of a busy control plane's time."""


class Document(NamedTuple):
    """One object of a file, and where it stood."""

    obj: Raw
    file: str
    position: int

    @property
    def where(self) -> str:
        return f"{self.file}, document {self.position}"


def kubeconfig_options(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option("--context", default="", help="The context of the kubeconfig to use.")(command)
    return click.option("--kubeconfig", default="", help="The kubeconfig file; else $KUBECONFIG, else ~/.kube/config.")(
        command
    )


def live_long(work: Coroutine[Any, Any, None]) -> None:
    """Run the whole life of a server: on the fast loop, and without looking for garbage among what it always needs."""
    import uvloop  # noqa: PLC0415 - the other commands need not pay for it

    gc.collect()
    gc.freeze()
    gc.set_threshold(*SELDOM)
    uvloop.run(work)


def with_client(kubeconfig: str, context: str, work: Callable[[Client], Awaitable[T]]) -> T:
    """Run `work` with a client of that API server, and close it afterwards."""

    async def main() -> T:
        client = KubeClient(load(kubeconfig or None, context))
        try:
            return await work(client)
        except (OSError, TimeoutError) as fault:
            raise InputFault(f"cannot reach the API server: {fault or type(fault).__name__}") from fault
        finally:
            await client.close()

    return asyncio.run(main())


def elected(client: Client, *, name: str, namespace: str = "kube-system", lease_seconds: float) -> Election:
    """One that stands for election under a name that no other process has, ever."""
    return Election(
        client,
        WallClock(),
        f"{platform.node()}_{os.getpid()}_{uuid.uuid4().hex[:8]}",
        namespace=namespace,
        name=name,
        lease_seconds=lease_seconds,
        renew_deadline_seconds=lease_seconds * 2 / 3,
        retry_seconds=max(0.2, lease_seconds / 7.5),
    )


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Columns as wide as they need to be, three spaces apart, as kubectl prints them."""
    cells = [tuple(headings), *(tuple(str(cell) for cell in row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(headings))]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells)
    return "\n".join(lines)


def documents(files: Iterable[str]) -> Iterator[Document]:
    """Every object in these YAML or JSON files (`-` is standard input); lists are opened up."""
    for file in files:
        yield from _documents(file)


def _documents(file: str) -> Iterator[Document]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as fault:
        raise InputFault(f"{file}: cannot be read: {fault}") from fault
    if len(text) > LARGEST_DOCUMENT:
        raise InputFault(f"{file}: larger than {LARGEST_DOCUMENT >> 20} MiB")
    position = 0
    try:
        for document in yaml.load_all(text, Loader=Loader):
            position += 1
            if document is not None:
                yield from _opened(document, file, position)
    except yaml.YAMLError as fault:
        raise InputFault(f"{file}, document {position + 1}: not YAML: {fault}") from fault


def _opened(document: Any, file: str, position: int) -> Iterator[Document]:
    if not isinstance(document, dict):
        raise InputFault(f"{file}, document {position}: an object was expected, found {type(document).__name__}")
    if document.get("kind") == "List" or (str(document.get("kind", "")).endswith("List") and "items" in document):
        for item in document.get("items") or []:
            yield from _opened(item, file, position)
        return
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            raise InputFault(f"{file}, document {position}: {field} is missing")
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise InputFault(f"{file}, document {position}: {document['kind']}: metadata.name is missing")
    yield Document(document, file, position)
