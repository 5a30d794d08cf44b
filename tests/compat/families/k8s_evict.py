"""The eviction subresource: its response, the charged budgets and the deletion."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from compat.k8s_cases import Outcome, compare_cases, differences

from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.profile import UPSTREAM
from trimtab.decide.pods.budgets.eviction import EvictionVerdict, Preconditions
from trimtab.decide.pods.budgets.pod_budgets import (
    UNKNOWN_CAUSE,
    GuardingBudget,
    charge_pod_budget,
    evaluate_eviction,
    guards_pod,
)

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)


def run(path: str | Path) -> Iterator[Outcome]:
    return compare_cases(path, case_differences)


def case_differences(case: dict[str, Any]) -> list[str]:
    expected = dict(case["expect"])
    conflict = expected["code"] == 409
    for field in ("status", *(("message", "causes", "retryAfterSeconds") if conflict else ())):
        expected.pop(field, None)
    if expected.get("causes"):
        expected["causes"] = [cause["message"] for cause in expected["causes"]]
    got = eviction_result(case)
    if conflict:
        got.pop("message")
    return differences(expected, got)


def eviction_result(case: dict[str, Any]) -> dict[str, Any]:
    dry = bool(case.get("dryRunInRequest") or case.get("dryRunInBody"))
    budgets = [budget(entry) for entry in case["pdbs"] or []]
    preconditions = Preconditions(case.get("preconditionUID") or "", case.get("preconditionResourceVersion") or "")
    guarding = [GuardingBudget(one) for one in budgets if guards_pod(one, pod(case))]
    given = evaluate_eviction(pod(case), guarding, preconditions, NOON, several_allowed=UPSTREAM.all_budgets_must_allow)
    done = given.is_allowed and not dry
    refusal = given.refusal
    return {
        "code": refusal.code if refusal else 201,
        "reason": refusal.reason if refusal else None,
        "message": refusal.message if refusal else None,
        "retryAfterSeconds": refusal.retry_after_seconds if refusal else None,
        "causes": list(refusal.causes) if refusal else None,
        "deleted": done,
        "disruptionTargetConditionSet": done,
        "deletePreconditionRV": sent_version(given, dry=dry),
        "pdbsAfter": [status_after(one, given, dry=dry) for one in budgets],
    }


def pod(case: dict[str, Any]) -> Pod:
    raw = {
        "metadata": {
            "name": "p",
            "namespace": "default",
            "uid": case["podUID"],
            "resourceVersion": case["podResourceVersion"],
            "labels": {"app": case["podApp"]},
            "deletionTimestamp": NOON if case.get("podTerminating") else None,
        },
        "status": {
            "phase": case["podPhase"],
            "conditions": [{"type": "Ready", "status": "True" if case["podReady"] else "False"}],
        },
    }
    return msgspec.convert(raw, Pod)


def budget(entry: dict[str, Any]) -> PodDisruptionBudget:
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if entry["disruptionsAllowed"] > 0 else "False",
        "reason": entry["conditionReason"],
        "message": entry.get("conditionMessage") or "",
    }
    fields = ("observedGeneration", "disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    raw = {
        "metadata": {"name": entry["name"], "namespace": "default", "generation": entry["generation"]},
        "spec": {
            "selector": {"matchLabels": {"app": entry["selectorApp"]}},
            "unhealthyPodEvictionPolicy": entry.get("unhealthyPodEvictionPolicy"),
        },
        "status": {
            **{field: entry[field] for field in fields},
            "disruptedPods": {f"x{i}": NOON for i in range(entry["disruptedPodsCount"])},
            "conditions": [condition],
        },
    }
    return msgspec.convert(raw, PodDisruptionBudget)


def sent_version(given: EvictionVerdict, *, dry: bool) -> str | None:
    """Writing the condition bumps the version, and the deletion follows it."""
    if not given.pinned_version:
        return None
    return given.pinned_version if dry else str(int(given.pinned_version) + 1)


def status_after(before: PodDisruptionBudget, given: EvictionVerdict, *, dry: bool) -> dict[str, Any]:
    debit = next((debit for debit in given.charges if debit.budget == before.name), None)
    status = (
        before.status if debit is None or dry else charge_pod_budget(before, debit, "p", UNKNOWN_CAUSE, NOON).status
    )
    return {
        "name": before.name,
        "disruptionsAllowed": status.disruptions_allowed,
        "disruptedPodsCount": len(status.disrupted_pods),
        "podInDisruptedPods": "p" in status.disrupted_pods,
        "conditionReason": status.conditions[0].reason,
    }
