"""The disruption controller's arithmetic, one sync per case."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from compat.k8s_cases import Outcome, differences, judged
from trimtab.decide.budget import Controller, CoveredPod, Limit, Strength, assess

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
    return judged(path, judge)


def judge(case: dict[str, Any]) -> list[str]:
    expected = {field: case["expect"].get(field) for field in COMPARED}
    return differences(expected, answer(case))


def answer(case: dict[str, Any]) -> dict[str, Any]:
    disrupted = {
        name: NOON - timedelta(seconds=age) for name, age in (case.get("disruptedPodsAgeSeconds") or {}).items()
    }
    limit = Limit(case.get("minAvailable"), case.get("maxUnavailable"))
    strength = assess(limit, covered(case), controllers(case), disrupted, NOON)
    if not isinstance(strength, Strength):
        return {"conditionReason": "SyncFailed", "conditionStatus": "False", "disruptedPods": sorted(disrupted)}
    return {
        "conditionReason": "SufficientPods" if strength.allowed > 0 else "InsufficientPods",
        "conditionStatus": "True" if strength.allowed > 0 else "False",
        "currentHealthy": strength.current_healthy,
        "desiredHealthy": strength.desired_healthy,
        "disruptedPods": sorted(strength.disrupted),
        "disruptionsAllowed": strength.allowed,
        "expectedPods": strength.expected,
        "observedGeneration": case["generation"],
    }


def covered(case: dict[str, Any]) -> list[CoveredPod]:
    wanted = case["selectorApp"]
    if wanted is None:
        return []
    return [
        CoveredPod(
            name=pod["name"],
            ready=pod.get("ready", False),
            terminating=pod.get("terminating", False),
            controller=pod.get("owner", ""),
            controller_uid=pod.get("owner", ""),
        )
        for pod in case.get("pods") or []
        if wanted in {"", pod["app"]}
    ]


def controllers(case: dict[str, Any]) -> dict[str, Controller]:
    """Controllers by uid; a DaemonSet has no scale, so for a budget it does not exist."""
    found = {}
    for entry in case.get("controllers") or []:
        if entry["kind"] != "DaemonSet":
            uid = f"{entry['kind']}/{entry['name']}"
            above = f"Deployment/{entry['ownerDeployment']}" if entry.get("ownerDeployment") else ""
            found[uid] = Controller(uid, entry["kind"], entry["replicas"], above)
    return found
