"""Responses with objects, lists and watch events in the negotiated format: JSON, protobuf, `Table` or metadata only."""

import secrets
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache

import orjson

from trimtab.api.value import Raw
from trimtab.server.printers.table import Printer, check_include, partial, table
from trimtab.server.registry.watch import View, Watching, bookmark, plain_view
from trimtab.server.request.messages import Answer, Ask, Stream
from trimtab.server.request.negotiation import PROTOBUF, Form, form_of
from trimtab.server.request.options import ListOptions
from trimtab.server.request.protobuf_responses import encode, listing, single, watch_frame
from trimtab.server.resources import Served, Where
from trimtab.server.storage.object_codec import Batch, Found, unpack
from trimtab.store.store import Store

_LONGEST_WATCH = 3600
"""Upper limit in seconds for a watch without `timeoutSeconds`; a random part spreads the reconnects."""
Now = Callable[[], datetime]


@lru_cache(maxsize=512)
def printer_of(served: Served) -> Printer:
    return Printer(served)


def form_for(request: Ask, served: Served, *, single: bool, watch: bool = False) -> Form:
    accept = request.headers.get("accept", "")
    return form_of(accept, single=single, watch=watch, custom=served.json_only)


def raw_answer(code: int, raw: Raw, form: Form = Form()) -> Answer:  # noqa: B008 - a frozen value
    """A response whose body is not a stored object: a Status, a Scale, a review."""
    return single(code, raw) if form.media == PROTOBUF else Answer(code, orjson.dumps(raw))


def object_answer(request: Ask, found: Found, code: int, now: datetime) -> Answer:
    served = found.served
    form = form_for(request, served, single=True)
    if form.transform == "Table":
        include = check_include(request.query.get("includeObject", ""))
        printer = printer_of(served)
        row = printer.row(found.value, found.revision or 0, now, include, form.version)
        metadata: Raw = {"resourceVersion": str(found.revision)} if found.revision else {}
        return raw_answer(code, table(form.version, metadata, printer.definitions(), [row]))
    if form.transform:
        return raw_answer(code, partial(found.raw(), form.version), form)
    if form.media == PROTOBUF:
        return single(code, found.raw())
    return Answer(code, found.body())


def list_answer(request: Ask, batch: Batch, now: datetime) -> Answer:
    served = batch.served
    form = form_for(request, served, single=False)
    if form.transform == "Table":
        include = check_include(request.query.get("includeObject", ""))
        printer = printer_of(served)
        rows = [printer.row(e.value, e.mod_revision, now, include, form.version) for e in batch.entries]
        return raw_answer(200, table(form.version, batch.metadata(), printer.definitions(), rows))
    if form.transform:
        items = [partial(raw, form.version) for raw in batch.raws()]
        body: Raw = {"kind": form.transform, "apiVersion": f"meta.k8s.io/{form.version}"}
        if form.media == PROTOBUF:
            return listing(body, batch.metadata(), items)
        return raw_answer(200, {**body, "metadata": batch.metadata(), "items": items})
    if form.media == PROTOBUF:
        head = {"kind": f"{served.kind.name}List", "apiVersion": served.api_version}
        return listing(head, batch.metadata(), batch.raws())
    return Answer(200, batch.body())


def watch_answer(request: Ask, store: Store, where: Where, options: ListOptions, now: Now) -> Stream:
    served = where.served
    if options.timeout is None:
        options = options._replace(timeout=float(_LONGEST_WATCH // 2 + secrets.randbelow(_LONGEST_WATCH // 2)))
    form = form_for(request, served, single=False, watch=True)
    if form.transform == "Table":
        include = check_include(request.query.get("includeObject", ""))
        tables = _TableView(served, include, form.version, now)
        watching = Watching(store, where, options, tables.view(), make_bookmark=tables.bookmark)
        return Stream(watching.lines())
    if form.media == PROTOBUF:
        frames = _Frames(served, form)
        make_bookmark = _partial_bookmark(form.version) if form.transform else None
        watching = Watching(store, where, options, frames.view(), make_bookmark=make_bookmark, make_line=frames.line)
        return Stream(watching.lines(), f"{PROTOBUF};stream=watch")
    if form.transform:
        watching = Watching(
            store,
            where,
            options,
            _partial_view(served, form.version),
            make_bookmark=_partial_bookmark(form.version),
        )
        return Stream(watching.lines())
    return Stream(Watching(store, where, options, plain_view(served)).lines())


def _partial_view(served: Served, version: str) -> View:
    return View(
        f"partial {served.api_version} {version}",
        lambda value, revision: orjson.dumps(partial(unpack(served, value, revision), version)),
    )


def _partial_bookmark(version: str) -> Callable[[int, bool], Raw]:
    def make(revision: int, end: bool) -> Raw:
        metadata: Raw = {"resourceVersion": str(revision)}
        if end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        return partial({"metadata": metadata}, version)

    return make


class _TableView:
    """Watch events of type `Table`; only the first event carries the column definitions."""

    def __init__(self, served: Served, include: str, version: str, now: Now) -> None:
        self._served = served
        self._printer = printer_of(served)
        self._include = include
        self._version = version
        self._now = now
        self._first = True

    def view(self) -> View:
        return View("", self._show)  # no shared encoding: ages and the first event differ per watcher

    def _definitions(self) -> list[Raw] | None:
        first, self._first = self._first, False
        return self._printer.definitions() if first else None

    def _show(self, value: bytes, revision: int) -> bytes:
        row = self._printer.row(value, revision, self._now(), self._include, self._version)
        return orjson.dumps(table(self._version, {"resourceVersion": str(revision)}, self._definitions(), [row]))

    def bookmark(self, revision: int, end: bool) -> Raw:
        mark = bookmark(self._served, revision, initial_end=end)
        row = {"cells": ["" for _ in self._printer.heads], "object": partial(mark, self._version)}
        return table(self._version, {"resourceVersion": str(revision)}, self._definitions(), [row])


class _Frames:
    """Length-prefixed protobuf watch events."""

    def __init__(self, served: Served, form: Form) -> None:
        self._served = served
        self._form = form

    def view(self) -> View:
        return View(f"protobuf {self._served.api_version} {self._form.transform}", self._show)

    def _show(self, value: bytes, revision: int) -> bytes:
        raw = unpack(self._served, value, revision)
        return encode(partial(raw, self._form.version) if self._form.transform else raw)

    def line(self, type_: str, body: bytes) -> bytes:
        return watch_frame(type_, encode(orjson.loads(body)) if body.startswith(b"{") else body)
