"""The eviction subresource: what it answers, what it debits, what it deletes."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from compat.k8s_cases import Outcome, differences, judged
from trimtab.decide.evict import Budget, EvictedPod, Preconditions, Verdict, verdict

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)


def run(path: str | Path) -> Iterator[Outcome]:
    return judged(path, judge)


def judge(case: dict[str, Any]) -> list[str]:
    expected = dict(case["expect"])
    conflict = expected["code"] == 409
    for field in ("status", *(("message", "causes", "retryAfterSeconds") if conflict else ())):
        expected.pop(field, None)
    if expected.get("causes"):
        expected["causes"] = [cause["message"] for cause in expected["causes"]]
    got = answer(case)
    if conflict:
        got.pop("message")
    return differences(expected, got)


def answer(case: dict[str, Any]) -> dict[str, Any]:
    dry = bool(case.get("dryRunInRequest") or case.get("dryRunInBody"))
    given = verdict(
        EvictedPod(
            name="p",
            uid=case["podUID"],
            resource_version=case["podResourceVersion"],
            phase=case["podPhase"],
            ready=case["podReady"],
            terminating=bool(case.get("podTerminating")),
        ),
        [budget(entry) for entry in case["pdbs"] or [] if entry["selectorApp"] == case["podApp"]],
        Preconditions(case.get("preconditionUID") or "", case.get("preconditionResourceVersion") or ""),
        NOON,
        several_allowed=False,
    )
    done = given.allowed and not dry
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
        "pdbsAfter": [after(entry, given, dry=dry) for entry in case["pdbs"] or []],
    }


def budget(entry: dict[str, Any]) -> Budget:
    return Budget(
        name=entry["name"],
        generation=entry["generation"],
        observed_generation=entry["observedGeneration"],
        disruptions_allowed=entry["disruptionsAllowed"],
        current_healthy=entry["currentHealthy"],
        desired_healthy=entry["desiredHealthy"],
        unconfirmed=entry["disruptedPodsCount"],
        always_allow_unhealthy=entry.get("unhealthyPodEvictionPolicy") == "AlwaysAllow",
        condition_status="True" if entry["disruptionsAllowed"] > 0 else "False",
        condition_reason=entry["conditionReason"],
        condition_message=entry.get("conditionMessage") or "",
    )


def sent_version(given: Verdict, *, dry: bool) -> str | None:
    """Writing the condition bumps the version, and the deletion follows it."""
    if not given.pinned_version:
        return None
    return given.pinned_version if dry else str(int(given.pinned_version) + 1)


def after(entry: dict[str, Any], given: Verdict, *, dry: bool) -> dict[str, Any]:
    debit = next((debit for debit in given.debits if debit.budget == entry["name"]), None)
    if debit is None or dry:
        allowed, reason, taken = entry["disruptionsAllowed"], entry["conditionReason"], False
    else:
        allowed, reason, taken = debit.disruptions_allowed, debit.condition_reason, True
    return {
        "name": entry["name"],
        "disruptionsAllowed": allowed,
        "disruptedPodsCount": entry["disruptedPodsCount"] + taken,
        "podInDisruptedPods": taken,
        "conditionReason": reason,
    }
