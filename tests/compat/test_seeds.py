"""Every complete object of the proposals applies unchanged under strict field validation."""

from pathlib import Path

import pytest
import yaml

from trimtab.api import kinds as declarations
from trimtab.api.kind import find_kind
from trimtab.api.schema.from_types import schema_for
from trimtab.api.schema.structural import StructuralSchema
from trimtab.api.value import Raw
from trimtab.registry import discover

SEEDS = sorted((Path(__file__).parent / "seeds").glob("*.yaml"))
discover(declarations)


def admit(raw: Raw) -> Raw:
    """Process a posted object as the server does; unknown fields and validation errors fail the test."""
    kind = find_kind(raw["apiVersion"], raw["kind"])
    assert kind is not None
    if kind.namespaced:
        raw["metadata"].setdefault("namespace", "default")
    version = raw["apiVersion"].rpartition("/")[2]
    structural = StructuralSchema(schema_for(kind, version))
    pruned, unknown = structural.prune(raw)
    assert unknown == []
    posted = {key: value for key, value in pruned.items() if key != "status"} if kind.status else pruned
    obj = structural.apply_defaults(posted)
    assert structural.check(obj) == []
    stored = StructuralSchema(schema_for(kind)).apply_defaults(kind.convert(obj, kind.version))
    for default in (*kind.defaults, *kind.admission_defaults):
        stored = default(stored)
    assert StructuralSchema(schema_for(kind)).check(stored) == []
    assert [cause for check in (*kind.validators, *kind.admission_validators) for cause in check(stored, None)] == []
    assert kind.decode(stored).metadata.name == raw["metadata"]["name"]
    return stored


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_object_of_the_proposals_applies(path: Path) -> None:
    admit(yaml.safe_load(path.read_text()))


def stored_seed(name: str) -> Raw:
    return admit(yaml.safe_load((Path(__file__).parent / "seeds" / f"{name}.yaml").read_text()))


def test_objects_of_all_proposals_exist() -> None:
    assert {path.name[:3] for path in SEEDS} == {"000", "001", "002", "003"}


def test_first_spelling_of_built_in_score_is_accepted() -> None:
    first, second = stored_seed("003-placement-scores-2")["spec"]["prioritizerPolicy"]["configurations"]
    assert first == {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Steady"}, "weight": 3}
    assert second["scoreCoordinate"]["addOn"] == {"resourceName": "default", "scoreName": "cpuratio"}


def test_health_script_directly_under_spec_is_converted() -> None:
    spec = stored_seed("002-application-failover-1")["spec"]
    assert "InterpretHealth" in spec["customizations"]["healthInterpretation"]["luaScript"]
    assert "healthInterpretation" not in spec


def test_application_failover_sets_propagate_deps() -> None:
    spec = stored_seed("002-application-failover-2")["spec"]
    assert spec["propagateDeps"] is True
    assert spec["failover"]["application"]["purgeMode"] == "Gracefully"
    assert spec["failover"]["application"]["gracePeriodSeconds"] == 600


def test_alternative_spelling_of_creation_time_is_accepted() -> None:
    (entry,) = stored_seed("002-application-failover-3")["spec"]["activeEvictionHistory"]
    assert entry == {"clusterName": "member2", "creationTimestamp": "2023-04-03T01:44:31Z"}


def test_status_with_unnamed_score_is_refused() -> None:
    kind = find_kind("cluster.open-cluster-management.io/v1alpha1", "AddOnPlacementScore")
    assert kind is not None
    score = {"status": {"scores": [{"name": "cpuratio", "value": 88}, {"prioritizer": "memratio", "value": 77}]}}
    (cause,) = StructuralSchema(schema_for(kind)).check_status(score)
    assert (cause.field, cause.message) == ("status.scores[1].name", "Required value")
