"""Defaulting and validation of WorkloadRebalancers."""

from typing import Any

import pytest

from api.admission.admission_helpers import errors_of, with_defaults
from trimtab.api.value import Raw


def test_workloads_or_selectors_are_required() -> None:
    kind = "workloadrebalancers.apps.karmada.io"
    assert errors_of(kind, {"spec": {}}) == ["spec.workloads: Required value"]
    assert errors_of(kind, {"spec": {"workloads": []}})[0].endswith("should have at least 1 items")
    assert errors_of(kind, {"spec": {"selectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}]}}) == []
    other_words = {"spec": {"workloads": [], "reschedule": {"preserveAvailableReplicas": True}}}
    assert with_defaults(kind, other_words)["spec"]["strategy"] == "PreserveAvailable"


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (
            {"workloads": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]},
            "workloads[0].namespace: Req",
        ),
        (
            {"workloads": [{"apiVersion": "v1", "kind": "Node", "name": "n", "namespace": "x"}]},
            "workloads[0].namespace: Inv",
        ),
        ({"workloads": [{"apiVersion": "example.com/v1", "kind": "Thing", "name": "n"}]}, ""),
        ({"selectors": [{"apiVersion": "apps/v1", "kind": ""}]}, "selectors[0].kind: Inv"),
        (
            {
                "selectors": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "Deployment",
                        "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]},
                    }
                ]
            },
            "selectors[0].labelSelector.matchExpressions[0].operator: Inv",
        ),
        (
            {"selectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "move": {"maxSurge": "x%"}},
            "move.maxSurge: Inv",
        ),
    ],
)
def test_invalid_workloads_and_selectors_are_rejected_with_the_field(spec: Raw, error: str) -> None:
    errors = errors_of("workloadrebalancers.apps.karmada.io", {"spec": spec})
    assert [text.startswith(f"spec.{error}") for text in errors] == [True] * bool(error)


def test_schedule_must_be_valid_and_excludes_a_ttl() -> None:
    def errors(**spec: Any) -> list[str]:
        everything = {"selectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], **spec}
        return errors_of("workloadrebalancers.apps.karmada.io", {"spec": everything})

    assert errors(schedule="0 3 * * *", timeZone="Europe/Berlin") == []
    assert errors(schedule="at night")[0].startswith("spec.schedule: Invalid value")
    assert errors(schedule="0 3 * * *", timeZone="Mars/Olympus")[0].startswith("spec.timeZone: Invalid value")
    assert errors(schedule="0 3 * * *", ttlSecondsAfterFinished=0)[0].startswith(
        "spec.ttlSecondsAfterFinished: Forbidden"
    )
    assert errors(timeZone="Europe/Berlin") == ["spec.timeZone: Forbidden: must not be set without schedule"]
