"""Tables for `kubectl get`, from the printers of built-in kinds and the columns of custom ones."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import orjson

from trimtab.api.jsonpath import find_values_or_empty
from trimtab.api.kind import Column
from trimtab.api.value import Raw
from trimtab.errors import BadRequest
from trimtab.server.printers.builtin_columns import columns_for
from trimtab.server.printers.cells import ColumnHeader, format_age
from trimtab.server.resources import ServedResource
from trimtab.server.storage.object_codec import unpack


def _format_value(values: list[Any]) -> str:
    if not values:
        return ""
    value = values[0]
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _custom_cell(obj: Raw, column: Column, now: datetime) -> Any:
    values = find_values_or_empty(obj, column.path)
    if not values or values[0] is None:
        return None
    if column.shows_all:
        return " ".join(_format_value([value]) for value in values)
    value = values[0]
    if column.type == "date":
        return format_age(value, now)
    if column.type == "integer":
        return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    if column.type == "number":
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if column.type == "boolean":
        return value if isinstance(value, bool) else None
    return _format_value(values)


class TablePrinter:
    """Converts objects of one resource to table rows."""

    def __init__(self, served: ServedResource) -> None:
        self._served = served
        kind = served.kind
        columns = served.columns or (Column("Age", ".metadata.creationTimestamp", "date"),)
        if kind.custom:
            heads = [ColumnHeader(c.name, c.type, c.format, c.priority) for c in columns]
            self.headers: Sequence[ColumnHeader] = (ColumnHeader("Name", "string", "name"), *heads)
            self._descriptions = ["", *(column.text for column in columns)]
            self._cell_function: Callable[[Raw, datetime], list[Any]] = lambda obj, now: [
                obj["metadata"]["name"],
                *(_custom_cell(obj, column, now) for column in columns),
            ]
        else:
            self.headers, self._cell_function = columns_for(served.storage)
            self._descriptions = [""] * len(self.headers)

    def column_definitions(self) -> list[Raw]:
        return [
            {"name": h.name, "type": h.type, "format": h.format, "description": text, "priority": h.priority}
            for h, text in zip(self.headers, self._descriptions, strict=True)
        ]

    def row(self, value: bytes, revision: int, now: datetime, include: str, version: str) -> Raw:
        obj = unpack(self._served, value, revision)
        # The printers of built-in kinds read the stored version, whichever version the request names.
        stored = obj if self._served.kind.custom or not self._served.from_stored else orjson.loads(value)
        return {"cells": self._cell_function(stored, now), "object": _included_object(obj, include, version)}


def _included_object(obj: Raw, include: str, version: str) -> Raw | None:
    if include == "None":
        return None
    if include == "Object":
        return obj
    return partial_metadata(obj, version)


def partial_metadata(obj: Raw, version: str = "v1") -> Raw:
    """The object's metadata as a `PartialObjectMetadata`."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj["metadata"],
    }


def validate_include_object(include: str) -> str:
    """The `includeObject` query parameter with its default; BadRequest when it has another value."""
    if include not in {"", "Metadata", "Object", "None"}:
        raise BadRequest(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    return include or "Metadata"


def make_table(version: str, metadata: Raw, definitions: list[Raw] | None, rows: list[Raw]) -> Raw:
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": rows,
    }
