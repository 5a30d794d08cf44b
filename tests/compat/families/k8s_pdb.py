"""The arithmetic of the disruption controller, one sync per case."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from compat.k8s_cases import Outcome, compare_cases, differences

from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.pods.budgets.budget import OwnerController
from trimtab.decide.pods.budgets.budget_status import next_status

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
COMPARED = (
    "conditionReason",
    "conditionStatus",
    "currentHealthy",
    "desiredHealthy",
    "disruptedPods",
    "disruptionsAllowed",
    "expectedPods",
    "observedGeneration",
)


def run(path: str | Path) -> Iterator[Outcome]:
    return compare_cases(path, case_differences)


def case_differences(case: dict[str, Any]) -> list[str]:
    expected = {field: case["expect"].get(field) for field in COMPARED}
    return differences(expected, sync_result(case))


def sync_result(case: dict[str, Any]) -> dict[str, Any]:
    status = next_status(budget(case), [pod(entry) for entry in case.get("pods") or []], controllers(case), NOON)
    (condition,) = status.conditions
    return {
        "conditionReason": condition.reason,
        "conditionStatus": condition.status,
        "currentHealthy": status.current_healthy,
        "desiredHealthy": status.desired_healthy,
        "disruptedPods": sorted(status.disrupted_pods),
        "disruptionsAllowed": status.disruptions_allowed,
        "expectedPods": status.expected_pods,
        "observedGeneration": status.observed_generation,
    }


def budget(case: dict[str, Any]) -> PodDisruptionBudget:
    disrupted = {
        name: NOON - timedelta(seconds=age) for name, age in (case.get("disruptedPodsAgeSeconds") or {}).items()
    }
    spec = {field: case[field] for field in ("minAvailable", "maxUnavailable") if case.get(field) is not None}
    wanted = case["selectorApp"]
    if wanted is not None:
        spec["selector"] = {"matchLabels": {"app": wanted}} if wanted else {}
    raw = {
        "metadata": {"name": "b", "namespace": "default", "generation": case["generation"]},
        "spec": spec,
        "status": {"disruptedPods": disrupted},
    }
    return msgspec.convert(raw, PodDisruptionBudget)


def pod(entry: dict[str, Any]) -> Pod:
    kind, _, name = entry.get("owner", "").partition("/")
    owner = {"kind": kind, "name": name, "uid": entry.get("owner"), "controller": True}
    raw = {
        "metadata": {
            "name": entry["name"],
            "namespace": "default",
            "labels": {"app": entry["app"]},
            "deletionTimestamp": NOON if entry.get("terminating") else None,
            "ownerReferences": [owner] if name else [],
        },
        "status": {
            "phase": entry["phase"],
            "conditions": [{"type": "Ready", "status": "True" if entry.get("ready") else "False"}],
        },
    }
    return msgspec.convert(raw, Pod)


def controllers(case: dict[str, Any]) -> dict[str, OwnerController]:
    """Controllers by uid; a DaemonSet has no scale, so for a budget it does not exist."""
    found = {}
    for entry in case.get("controllers") or []:
        if entry["kind"] != "DaemonSet":
            uid = f"{entry['kind']}/{entry['name']}"
            above = f"Deployment/{entry['ownerDeployment']}" if entry.get("ownerDeployment") else ""
            found[uid] = OwnerController(uid, entry["kind"], entry["replicas"], above)
    return found
