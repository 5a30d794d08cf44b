"""Responses with objects, lists and watch events in the negotiated format: JSON, protobuf, `Table` or metadata only."""

import secrets
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import lru_cache

import orjson

from trimtab.api.value import Raw
from trimtab.server.printers.table import TablePrinter, make_table, partial_metadata, validate_include_object
from trimtab.server.registry.watch import ResourceWatch, WatchFormat, bookmark_object, plain_format
from trimtab.server.request import large_objects
from trimtab.server.request.messages import PartedResponse, Request, Response, StreamingResponse
from trimtab.server.request.negotiation import JSON, PROTOBUF, ResponseFormat, negotiate_format
from trimtab.server.request.options import ListOptions
from trimtab.server.request.parts import PART_BYTES, join_items
from trimtab.server.request.protobuf_responses import (
    encode_empty_list,
    encode_object,
    encode_watch_event,
    protobuf_list_parts,
    protobuf_response,
)
from trimtab.server.resources import ObjectPath, ServedResource
from trimtab.server.storage.object_codec import ObjectList, StoredObject, unpack
from trimtab.store.store import Store

_MAX_SMALL_LIST, _MAX_SMALL_BYTES = 20, 64 * 1024
"""A list of so many objects is decoded and encoded at once; a larger one in parts."""
_MAX_COLUMNS_IN_LOOP = 100
"""Columns of a custom table whose rows are built in the event loop, about ten microseconds each."""
_MAX_WATCH_SECONDS = 3600
"""Upper limit in seconds for a watch without `timeoutSeconds`; a random part spreads the reconnects."""
Now = Callable[[], datetime]


@lru_cache(maxsize=512)
def printer_for(served: ServedResource) -> TablePrinter:
    return TablePrinter(served)


def response_format(
    request: Request, served: ServedResource, *, single: bool, watch: bool = False, tables: bool = True
) -> ResponseFormat:
    accept = request.headers.get("accept", "")
    return negotiate_format(accept, single=single, watch=watch, custom=served.json_only, tables=tables)


def check_response_format(request: Request, served: ServedResource, *, single: bool) -> None:
    """Refuse what the client cannot be sent; called before a write, which must not happen unseen."""
    if response_format(request, served, single=single).transform == "Table":
        validate_include_object(request.query.get("includeObject", ""))


def raw_response(code: int, raw: Raw, form: ResponseFormat = ResponseFormat()) -> Response:  # noqa: B008 - a frozen value
    """A response whose body is not a stored object: a Status, a Scale, a review."""
    return protobuf_response(code, raw) if form.media_type == PROTOBUF else Response(code, orjson.dumps(raw))


def object_response(
    request: Request, found: StoredObject, code: int, now: datetime, form: ResponseFormat | None = None
) -> Response:
    served = found.served
    form = form or response_format(request, served, single=True)
    if form.transform == "Table":
        include = validate_include_object(request.query.get("includeObject", ""))
        printer = printer_for(served)
        row = printer.row(found.value, found.revision or 0, now, include, form.version)
        metadata: Raw = {"resourceVersion": str(found.revision)} if found.revision else {}
        return raw_response(code, make_table(form.version, metadata, printer.column_definitions(), [row]))
    if form.transform:
        return raw_response(code, partial_metadata(found.raw(), form.version), form)
    if form.media_type == PROTOBUF:
        return protobuf_response(code, found.raw())
    return Response(code, found.body())


def _is_slow(served: ServedResource, form: ResponseFormat, values: Iterable[bytes]) -> bool:
    """Whether one of the stored objects takes long to show in a format for which it is decoded."""
    if form.transform == "Table" and len(served.kind.columns) > _MAX_COLUMNS_IN_LOOP:
        return True
    return _is_decoded(served, form) and large_objects.any_large(values, _searches(served, form))


def _searches(served: ServedResource, form: ResponseFormat) -> int:
    """How often a stored object is searched: each column of a custom resource may look at all of it."""
    return max(1, len(served.kind.columns)) if form.transform == "Table" and served.kind.custom else 1


def _is_decoded(served: ServedResource, form: ResponseFormat) -> bool:
    """Whether stored objects are decoded to be shown, not sent as they are stored."""
    return bool(form.transform or form.media_type == PROTOBUF or served.from_stored)


async def send_object(request: Request, found: StoredObject, code: int, now: datetime) -> Response:
    """The response with an object; one that takes long is built in a thread."""
    form = response_format(request, found.served, single=True)
    if not _is_decoded(found.served, form) or not _is_slow(found.served, form, (found.value,)):
        return object_response(request, found, code, now, form)
    return await large_objects.run(True, object_response, request, found, code, now, form)


async def send_list(request: Request, batch: ObjectList, now: datetime) -> Response | PartedResponse:
    """The response with a list; the parts of one whose objects take long are made in a thread."""
    form = response_format(request, batch.served, single=False)
    slow = _is_slow(batch.served, form, (entry.value for entry in batch.entries))
    response = await large_objects.run(slow, list_response, request, batch, now, form)
    if isinstance(response, PartedResponse):
        response.is_slow = slow
    return response


def list_response(
    request: Request, batch: ObjectList, now: datetime, form: ResponseFormat | None = None
) -> Response | PartedResponse:
    form = form or response_format(request, batch.served, single=False)
    if form.media_type == JSON and not form.transform:
        body = batch.small_body(PART_BYTES)
        if body is not None:
            return Response(200, body)
    include = validate_include_object(request.query.get("includeObject", "")) if form.transform == "Table" else ""
    parts = _list_parts(batch, form, include, now)
    is_protobuf = form.media_type == PROTOBUF and form.transform != "Table"
    media = PROTOBUF if is_protobuf else JSON
    if len(batch.entries) <= _MAX_SMALL_LIST and sum([len(entry.value) for entry in batch.entries]) <= _MAX_SMALL_BYTES:
        return Response(200, b"".join(parts), media, verbatim=is_protobuf)
    return PartedResponse(parts, media, verbatim=is_protobuf)


def _list_parts(batch: ObjectList, form: ResponseFormat, include: str, now: datetime) -> Iterator[bytes]:
    """The parts of a list in the negotiated format."""
    served, version = batch.served, form.version
    if form.transform == "Table":
        printer = printer_for(served)
        rows = (printer.row(entry.value, entry.mod_revision, now, include, version) for entry in batch.entries)
        table = make_table(version, batch.metadata(), printer.column_definitions(), [])
        return join_items(orjson.dumps(table).removesuffix(b"]}"), map(orjson.dumps, rows), b"]}")
    if form.transform:
        items = (partial_metadata(raw, version) for raw in batch.raw_items())
        head: Raw = {"kind": form.transform, "apiVersion": f"meta.k8s.io/{version}"}
        if form.media_type == PROTOBUF:
            return protobuf_list_parts(head, batch.metadata(), items)
        frame = orjson.dumps({**head, "metadata": batch.metadata(), "items": []})
        return join_items(frame.removesuffix(b"]}"), map(orjson.dumps, items), b"]}")
    if form.media_type == PROTOBUF:
        head = {"kind": f"{served.kind.name}List", "apiVersion": served.api_version}
        return protobuf_list_parts(head, batch.metadata(), batch.raw_items())
    before, after = batch.frame()
    return join_items(before, batch.encoded_groups(PART_BYTES // 2), after)


def watch_response(
    request: Request,
    store: Store,
    where: ObjectPath,
    options: ListOptions,
    now: Now,
    *,
    old_streamed_lists: bool = False,
) -> StreamingResponse:
    """`old_streamed_lists`: as before Kubernetes 1.35 (`ApiServerSettings`)."""
    served = where.served
    if options.timeout is None:
        options = options._replace(timeout=float(_MAX_WATCH_SECONDS // 2 + secrets.randbelow(_MAX_WATCH_SECONDS // 2)))
    tables = not (old_streamed_lists and options.initial_events)
    form = response_format(request, served, single=False, watch=True, tables=tables)
    if form.transform == "Table":
        include = validate_include_object(request.query.get("includeObject", ""))
        table_view = _TableView(served, include, form.version, now)
        view = table_view.view(always_slow=_is_slow(served, form, ()), searches=_searches(served, form))
        watching = ResourceWatch(store, where, options, view, make_bookmark=table_view.bookmark)
        return StreamingResponse(watching.lines())
    if form.media_type == PROTOBUF:
        frames = _ProtobufEvents(served, form)
        make_bookmark = _partial_bookmark(form.version) if form.transform else None
        watching = ResourceWatch(
            store,
            where,
            options,
            frames.view(),
            make_bookmark=make_bookmark,
            make_line=frames.event_frame,
            list_blueprint=encode_empty_list(_empty_list(served, form)),
        )
        return StreamingResponse(watching.lines(), f"{PROTOBUF};stream=watch")
    if form.transform:
        watching = ResourceWatch(
            store,
            where,
            options,
            _partial_view(served, form.version),
            make_bookmark=_partial_bookmark(form.version),
            list_blueprint=orjson.dumps(_empty_list(served, form)),
        )
        return StreamingResponse(watching.lines())
    # Without a blueprint, as in the recorded exchanges of a real server: clients of plain JSON know the list.
    blueprint = orjson.dumps(_empty_list(served, form)) if old_streamed_lists else b""
    watching = ResourceWatch(store, where, options, plain_format(served), list_blueprint=blueprint)
    return StreamingResponse(watching.lines())


def _empty_list(served: ServedResource, form: ResponseFormat) -> Raw:
    """A list without items of what a response in this format has."""
    if form.transform:
        head = {"kind": "PartialObjectMetadataList", "apiVersion": f"meta.k8s.io/{form.version}"}
    else:
        head = {"kind": f"{served.kind.name}List", "apiVersion": served.api_version}
    return {**head, "metadata": {}, "items": []}


def _partial_view(served: ServedResource, version: str) -> WatchFormat:
    return WatchFormat(
        f"partial {served.api_version} {version}",
        lambda value, revision: orjson.dumps(partial_metadata(unpack(served, value, revision), version)),
        is_slow=True,
    )


def _partial_bookmark(version: str) -> Callable[[int, bool], Raw]:
    def make(revision: int, end: bool) -> Raw:
        metadata: Raw = {"resourceVersion": str(revision)}
        if end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        return partial_metadata({"metadata": metadata}, version)

    return make


class _TableView:
    """Watch events of type `Table`; only the first event carries the column definitions."""

    def __init__(self, served: ServedResource, include: str, version: str, now: Now) -> None:
        self._served = served
        self._printer = printer_for(served)
        self._include = include
        self._version = version
        self._now = now
        self._time = now()
        self._first = True

    def view(self, *, always_slow: bool, searches: int) -> WatchFormat:
        # no shared encoding: ages and the first event differ per watcher
        return WatchFormat(
            "", self._encode, is_slow=True, always_slow=always_slow, searches=searches, prepare=self._read_clock
        )

    def _read_clock(self) -> None:
        self._time = self._now()

    def _definitions(self) -> list[Raw] | None:
        first, self._first = self._first, False
        return self._printer.column_definitions() if first else None

    def _encode(self, value: bytes, revision: int) -> bytes:
        row = self._printer.row(value, revision, self._time, self._include, self._version)
        return orjson.dumps(make_table(self._version, {"resourceVersion": str(revision)}, self._definitions(), [row]))

    def bookmark(self, revision: int, end: bool) -> Raw:
        mark = bookmark_object(self._served, revision, initial_end=end)
        row = {"cells": ["" for _ in self._printer.headers], "object": partial_metadata(mark, self._version)}
        return make_table(self._version, {"resourceVersion": str(revision)}, self._definitions(), [row])


class _ProtobufEvents:
    """Length-prefixed protobuf watch events."""

    def __init__(self, served: ServedResource, form: ResponseFormat) -> None:
        self._served = served
        self._form = form

    def view(self) -> WatchFormat:
        return WatchFormat(f"protobuf {self._served.api_version} {self._form.transform}", self._encode, is_slow=True)

    def _encode(self, value: bytes, revision: int) -> bytes:
        raw = unpack(self._served, value, revision)
        return encode_object(partial_metadata(raw, self._form.version) if self._form.transform else raw)

    def event_frame(self, type_: str, body: bytes) -> bytes:
        return encode_watch_event(type_, encode_object(orjson.loads(body)) if body.startswith(b"{") else body)
