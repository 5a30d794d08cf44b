"""Schemas are generated from the types."""

from pathlib import Path
from typing import Annotated

import msgspec
import pytest

from trimtab.api import kinds as declarations
from trimtab.api.kind import Kind, kinds
from trimtab.api.schema.from_types import crd, schema_for, schema_of
from trimtab.api.schema.structural import StructuralSchema
from trimtab.api.value import Field, Int32, IntOrString, QuantityText, Raw, Value
from trimtab.registry import discover

discover(declarations)
OURS = [kind for kind in kinds.values() if kind.custom or kind.name == "Cluster"]


class Leaf(Value):
    size: Annotated[Int32 | None, Field("How big.", required=True, minimum=1)] = None
    share: Annotated[IntOrString, Field("How much.")] = 0
    memory: Annotated[dict[str, QuantityText], Field("How much memory.")] = {}
    tags: Annotated[tuple[str, ...], Field("Marks.", list_type="set", default=["a"])] = ()
    extra: Annotated[Raw | None, Field("Anything.", preserve_unknown=True)] = None


def test_schema_contains_everything_that_a_type_declares() -> None:
    schema = schema_of(Leaf)
    assert schema["required"] == ["size"]
    assert schema["properties"]["size"] == {
        "type": "integer",
        "description": "How big.",
        "format": "int32",
        "minimum": 1,
    }
    assert schema["properties"]["share"]["x-kubernetes-int-or-string"] is True
    assert "pattern" in schema["properties"]["memory"]["additionalProperties"]
    assert schema["properties"]["tags"]["x-kubernetes-list-type"] == "set"
    assert schema["properties"]["tags"]["default"] == ["a"]
    assert schema["properties"]["extra"]["x-kubernetes-preserve-unknown-fields"] is True


def fields_without_description(schema: Raw, path: str) -> list[str]:
    found = []
    for key, child in (schema.get("properties") or {}).items():
        if key != "metadata" and not child.get("description"):
            found.append(f"{path}.{key}")
        found += fields_without_description(child, f"{path}.{key}")
    if isinstance(schema.get("items"), dict):
        found += fields_without_description(schema["items"], f"{path}[]")
    return found


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.id)
def test_every_field_has_a_description(kind: Kind) -> None:
    for version in (kind.version, *kind.other_versions):
        assert fields_without_description(schema_for(kind, version), kind.name) == []


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.id)
def test_empty_object_of_every_kind_round_trips(kind: Kind) -> None:
    empty = kind.type()
    assert kind.decode(kind.encode(empty)) == empty
    assert StructuralSchema(schema_for(kind)).prune(kind.encode(empty))[1] == []


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.id)
def test_definition_fits_into_the_last_applied_annotation(kind: Kind) -> None:
    assert len(msgspec.json.encode(crd(kind))) < 256 * 1024


def test_columns_short_names_and_categories_are_those_of_upstream() -> None:
    lines = (Path(__file__).parent / "upstream-crd-columns.txt").read_text().splitlines()
    for line in lines:
        api_version, name, plural, short, categories, scope, subresources, storage, columns = line.split("|")
        group, _, version = api_version.partition("/")
        kind = kinds[f"{plural}.{group}"]
        assert kind.name == name
        assert kind.short == tuple(s for s in short.split(",") if s)
        assert kind.categories == tuple(c for c in categories.split(",") if c)
        assert kind.namespaced == (scope == "N")
        assert kind.status == ("status" in subresources)
        assert version in (kind.version, *kind.other_versions)
        if "storage" in storage:
            assert version == kind.version
            wanted = [c.strip() for c in columns.split(",") if c.strip()]
            assert [c.name for c in kind.columns_in(progress=False)] == wanted


def test_every_kind_of_ours_has_columns_and_none_prints_a_future_time_as_an_age() -> None:
    own = [kind for kind in OURS if kind.group == "trimtab.dev" or kind.name == "WorkloadRebalancer"]
    assert len(own) == 5
    for kind in own:
        columns = kind.columns_in(progress=True)
        assert len(columns) > 1
        assert columns[-1].name == "AGE"
        assert [column.name for column in columns if "next" in column.path.lower() and column.type == "date"] == []


def test_progress_of_rebalancers_is_only_in_the_definition_of_the_own_profile() -> None:
    kind = kinds["workloadrebalancers.apps.karmada.io"]
    assert "additionalPrinterColumns" not in crd(kind)["spec"]["versions"][0]
    own = crd(kind, progress_columns=True)["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [column["name"] for column in own if not column.get("priority")] == ["READY", "STATE", "PROGRESS", "AGE"]
