"""Status and health of a member's object, as its Work reports them."""

import pytest
from builders import configmap, deployment
from views import FakeView

from trimtab.api.kinds.work import Work
from trimtab.api.profile import UPSTREAM
from trimtab.api.value import Meta
from trimtab.controllers.propagation.works.work_status import reflect_status, resource_identifier
from trimtab.controllers.well_known import ref_of
from trimtab.interpret.interpreter import Interpreter

ABOUT = ref_of(Work(metadata=Meta(name="w", namespace="karmada-es-m1")))
UPSTREAM_VIEW = FakeView(interpreter=Interpreter.of(), profile=UPSTREAM)
READY = {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3}


@pytest.mark.parametrize(("status", "health"), [(READY, "Healthy"), (READY | {"availableReplicas": 1}, "Unhealthy")])
def test_health_is_interpreted_with_an_event(status: dict[str, int], health: str) -> None:
    seen = deployment() | {"status": status}
    found, events = reflect_status(ABOUT, resource_identifier(0, seen), seen, UPSTREAM_VIEW)
    assert (found.health, (found.status or {})["replicas"]) == (health, 3)
    assert events[-1].message == f"Interpret health of object(Deployment/demo/web) as {health.lower()}."


def test_kind_without_health_interpretation_is_healthy() -> None:
    found, events = reflect_status(ABOUT, resource_identifier(0, configmap()), configmap(), UPSTREAM_VIEW)
    assert found.health == "Healthy"
    assert [event.reason for event in events] == ["ReflectStatusSucceed"]


def test_without_routine_events_only_a_failed_interpretation_has_an_event() -> None:
    view = FakeView(interpreter=Interpreter.of())
    healthy = deployment() | {"status": READY}
    _, events = reflect_status(ABOUT, resource_identifier(0, healthy), healthy, view)
    assert events == []
    script = {"luaScript": "function InterpretHealth(observed) error('no') end"}
    failing = {
        "metadata": {"name": "failing"},
        "spec": {
            "target": {"apiVersion": "apps/v1", "kind": "Deployment"},
            "customizations": {"healthInterpretation": script},
        },
    }
    view = FakeView(interpreter=Interpreter.of([failing]))
    found, events = reflect_status(ABOUT, resource_identifier(0, healthy), healthy, view)
    assert found.health == "Unknown"
    assert [(event.reason, event.type) for event in events] == [("InterpretHealthFailed", "Warning")]


def test_identifier_has_group_version_and_ordinal() -> None:
    found = resource_identifier(2, deployment())
    assert (found.ordinal, found.group, found.version, found.kind) == (2, "apps", "v1", "Deployment")
    assert resource_identifier(0, configmap()).group == ""
