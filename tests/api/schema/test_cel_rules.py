import copy

import pytest

from trimtab.api import kinds as declarations
from trimtab.api.kind import kinds
from trimtab.api.schema.cel_rules import EXTRA_VALIDATION, with_extra_validation
from trimtab.api.schema.from_types import schema_for
from trimtab.api.schema.structural import StructuralSchema
from trimtab.api.value import Raw
from trimtab.registry import discover

discover(declarations)


def cluster(**spec: object) -> Raw:
    return {"metadata": {"name": "m1"}, "spec": {"syncMode": "Push", **spec}}


@pytest.mark.parametrize("kind", list(EXTRA_VALIDATION))
def test_every_path_exists_in_the_schema_of_its_kind(kind: str) -> None:
    before = schema_for(kinds[kind])
    unchanged = copy.deepcopy(before)
    assert with_extra_validation(kind, before) != before
    assert before == unchanged


def test_kind_without_additional_validation_keeps_its_schema() -> None:
    schema: Raw = {"type": "object"}
    assert with_extra_validation("gizmos.example.com", schema) is schema


def test_invalid_cluster_fields_are_rejected_only_with_the_additional_validation() -> None:
    kind = kinds["clusters.cluster.karmada.io"]
    plain, extended = (
        StructuralSchema(schema_for(kind)),
        StructuralSchema(with_extra_validation(kind.id, schema_for(kind))),
    )
    wrong = cluster(region="not a label", secretRef={"namespace": "", "name": "s"})
    assert plain.check(wrong) == []
    assert [cause.field for cause in extended.check(wrong)] == ["spec.region", "spec.secretRef.namespace"]
    assert extended.check(cluster(region="eu", secretRef={"namespace": "ns", "name": "s"})) == []


def test_required_fields_are_added_to_those_of_the_schema() -> None:
    kind = kinds["resourceinterpretercustomizations.config.karmada.io"]
    spec = with_extra_validation(kind.id, schema_for(kind))["properties"]["spec"]
    before = schema_for(kind)["properties"]["spec"].get("required", [])
    assert spec["required"] == sorted({*before, "target"})
