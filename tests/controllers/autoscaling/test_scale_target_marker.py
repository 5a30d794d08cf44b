"""Templates that a propagated HorizontalPodAutoscaler scales are marked."""

from typing import Any

import msgspec
from builders import deployment
from views import FakeView

from trimtab.api.kind import key_of
from trimtab.api.kinds.native.autoscaling import HorizontalPodAutoscaler
from trimtab.controllers import well_known
from trimtab.controllers.autoscaling.scale_target_marker import (
    LAST_TARGET,
    scale_target_marker,
    target_ref,
    unmark_last_target,
)
from trimtab.controllers.contract import Ensure, RememberInProcess
from trimtab.interpret.native.retain import RETAIN_REPLICAS


def autoscaler(target: str = "web", *, propagated: bool = True) -> HorizontalPodAutoscaler:
    labels = {well_known.PP_ID: "id"} if propagated else {}
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    raw = {
        "metadata": {"namespace": "demo", "name": "h", "labels": labels},
        "spec": {"scaleTargetRef": reference, "maxReplicas": 5},
    }
    return msgspec.convert(raw, HorizontalPodAutoscaler)


def marks(effects: list[Any]) -> dict[str, str | None]:
    return {
        one.wanted["metadata"]["name"]: well_known.labels_of(one.wanted).get(RETAIN_REPLICAS)
        for one in effects
        if isinstance(one, Ensure)
    }


def test_the_target_of_a_propagated_autoscaler_is_marked_once() -> None:
    subject = autoscaler()
    effects = list(scale_target_marker(subject, FakeView([subject], raws=[deployment("web")])))
    assert marks(effects) == {"web": "true"}
    marked = deployment("web", labels={RETAIN_REPLICAS: "true"})
    assert marks(list(scale_target_marker(subject, FakeView([subject], raws=[marked])))) == {}


def test_an_autoscaler_that_is_not_propagated_marks_nothing() -> None:
    subject = autoscaler(propagated=False)
    assert list(scale_target_marker(subject, FakeView([subject], raws=[deployment("web")]))) == []


def test_the_mark_goes_with_the_autoscaler_and_with_its_target() -> None:
    marked = deployment("web", labels={RETAIN_REPLICAS: "true"})
    view = FakeView(raws=[marked, deployment("api")])
    old = autoscaler()
    view.memory[LAST_TARGET, ("demo", "h")] = target_ref("demo", old.spec.scale_target_ref)
    assert marks(list(unmark_last_target(key_of(old), view))) == {"web": None}
    effects = list(scale_target_marker(autoscaler("api"), view))
    assert marks(effects) == {"web": None, "api": "true"}
    assert any(isinstance(one, RememberInProcess) for one in effects)
