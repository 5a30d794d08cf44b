"""Tables of custom and built-in resources."""

from copy import copy
from datetime import UTC, datetime

import orjson
import pytest

from trimtab.api.kind import Column
from trimtab.errors import BadRequest
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.printers.table import TablePrinter, partial_metadata, validate_include_object
from trimtab.server.resources import ServedResource
from trimtab.store.store import Store

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def served(group: str, version: str, resource: str) -> ServedResource:
    found = ApiServer(Store(), ApiServerSettings()).catalogue.find(group, version, resource)
    assert found is not None
    return found


def test_cells_of_custom_columns_have_the_declared_type() -> None:
    kind = copy(served("work.karmada.io", "v1alpha1", "works").kind)
    kind.columns = (
        Column("Count", ".spec.count", "integer"),
        Column("Free", ".spec.free"),
        Column("Flag", ".spec.flag", "boolean"),
    )
    printer = TablePrinter(ServedResource(kind, "v1alpha1", schema=dict))
    spec = {"count": 2.0, "free": {"a": 1}, "flag": "yes"}
    value = orjson.dumps({"metadata": {"name": "w"}, "spec": spec})
    assert printer.row(value, 1, NOON, "None", "v1") == {"cells": ["w", 2, '{"a":1}', None], "object": None}
    assert [column["name"] for column in printer.column_definitions()] == ["Name", "Count", "Free", "Flag"]


def test_targets_of_a_move_are_printed_in_one_cell() -> None:
    printer = TablePrinter(served("trimtab.dev", "v1alpha1", "moves"))
    column = [header.name for header in printer.headers].index("TO")
    for targets, cell in (([], None), (["m2"], "m2"), (["m2", "m3"], "m2 m3")):
        move = {"metadata": {"name": "w"}, "spec": {"to": [{"name": name} for name in targets]}}
        assert printer.row(orjson.dumps(move), 1, NOON, "None", "v1")["cells"][column] == cell


def test_row_includes_metadata_or_the_object_on_request() -> None:
    printer = TablePrinter(served("", "v1", "configmaps"))
    value = orjson.dumps({"metadata": {"name": "c"}, "data": {"k": "v"}})
    assert printer.row(value, 7, NOON, "Metadata", "v1")["object"]["kind"] == "PartialObjectMetadata"
    assert printer.row(value, 7, NOON, "Object", "v1")["object"]["data"] == {"k": "v"}


def test_partial_metadata_drops_everything_else() -> None:
    obj = {"metadata": {"name": "c"}, "spec": {}}
    assert partial_metadata(obj, "v1beta1") == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1beta1",
        "metadata": {"name": "c"},
    }


def test_include_object_has_a_default_and_rejects_other_values() -> None:
    assert validate_include_object("") == "Metadata"
    with pytest.raises(BadRequest, match="must be 'Metadata', 'Object', 'None', or empty"):
        validate_include_object("All")


@pytest.mark.parametrize(
    ("progress", "cells"), [(False, ["r", "60m"]), (True, ["r", "False", "Moving", "1 Done, 2 Moving", "60m"])]
)
def test_progress_of_a_rebalancer_is_printed_in_the_own_profile_alone(progress: bool, cells: list[str]) -> None:
    server = ApiServer(Store(), ApiServerSettings(progress_columns=progress))
    served = server.catalogue.find("apps.karmada.io", "v1alpha1", "workloadrebalancers")
    assert served is not None
    printer = TablePrinter(served)
    conditions = [
        {"type": "Ready", "status": "False", "reason": "InProgress", "message": "1 Done, 2 Moving"},
        {"type": "Reconciling", "status": "True", "reason": "Moving"},
    ]
    metadata = {"name": "r", "creationTimestamp": "2030-01-01T11:00:00Z"}
    row = printer.row(orjson.dumps({"metadata": metadata, "status": {"conditions": conditions}}), 1, NOON, "None", "v1")
    shown = [cell for cell, head in zip(row["cells"], printer.headers, strict=True) if not head.priority]
    assert shown == cells
