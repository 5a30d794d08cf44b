"""Recorded decisions of Karmada's scheduler: the same request in the same fleet must have the same result."""

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.profile import UPSTREAM
from trimtab.decide.fleet import Fleet
from trimtab.decide.karmada import BindingDecision, decide
from trimtab.decide.request import FeatureGates, placement_request_of
from trimtab.decide.reschedule_trigger import reschedule_reason
from trimtab.plugins import load

FILES = ("karmada-scheduling", "karmada-harvest")


def run(path: Path) -> Iterator[tuple[str, bool, str]]:
    """Every case of a file: its id, whether it passed, and the differences if not."""
    load()
    with gzip.open(path, "rt") as lines:
        for line in lines:
            case = json.loads(line)
            differences = list(compare(case))
            yield case["id"], not differences, "; ".join(differences)


def schedule_case(case: dict[str, Any]) -> tuple[str, BindingDecision]:
    features, options = case.get("features") or {}, case.get("options") or {}
    gates = FeatureGates(
        components=features.get("MultiplePodTemplatesScheduling", False),
        workload_affinity=features.get("WorkloadAffinity", False),
        empty_workloads=options.get("enableEmptyWorkloadPropagation", False),
    )
    fleet = Fleet.of(msgspec.convert(case["clusters"], list[Cluster], strict=False))
    binding = msgspec.convert(case["binding"], ResourceBinding, strict=False)
    others = msgspec.convert(case.get("otherBindings") or [], list[ResourceBinding], strict=False)
    decision = decide(placement_request_of(binding, feature_gates=gates, others=others), fleet, UPSTREAM)
    return reschedule_reason(binding, fleet, gates), decision


def compare(case: dict[str, Any]) -> Iterable[str]:
    expect = case["expect"]
    fired, decision = schedule_case(case)
    if fired != expect["trigger"]:
        yield f"trigger: expected {expect['trigger']}, got {fired}"
    got = outcome(decision)
    if got["clusters"] not in accepted_outcomes(expect):
        yield f"clusters: expected {accepted_outcomes(expect)[0]}, got {got['clusters']}"
    for field in (
        "ok",
        "affinityName",
        "attempts",
        "errorClass",
        "conditionStatus",
        "conditionReason",
        "retry",
        "clearResult",
    ):
        wanted = expect["outcome"].get(field, ABSENT[field])
        if got[field] != wanted:
            yield f"{field}: expected {wanted!r}, got {got[field]!r}"
    yield from compare_texts(expect, decision)
    if "upstreamTest" in case and replicas_by_cluster(decision) != case["upstreamTest"]:
        yield f"upstreamTest: expected {case['upstreamTest']}, got {replicas_by_cluster(decision)}"


ABSENT: dict[str, Any] = {
    "ok": None,
    "affinityName": "",
    "attempts": [],
    "errorClass": "",
    "conditionStatus": None,
    "conditionReason": None,
    "retry": None,
    "clearResult": False,
}


def outcome(decision: BindingDecision) -> dict[str, Any]:
    status, reason, _ = decision.condition
    return {
        "ok": decision.ok,
        "clusters": shares(
            [{"name": t.name, "replicas": t.replicas, "components": target_json(t)} for t in decision.targets]
        ),
        "affinityName": decision.affinity_name,
        "attempts": [
            {"affinityName": tried.affinity_name} | ({"errorClass": tried.failure.kind} if tried.failure else {})
            for tried in decision.tried_groups
        ],
        "errorClass": decision.failure.kind if decision.failure else "",
        "conditionStatus": status,
        "conditionReason": reason,
        "retry": decision.should_retry,
        "clearResult": decision.should_clear,
    }


def target_json(target: Any) -> list[dict[str, Any]]:
    return [{"name": component.name, "replicas": component.replicas} for component in target.components]


def shares(clusters: list[dict[str, Any]] | None) -> dict[str, Any]:
    """Replicas by cluster, without order."""
    return {c["name"]: (c.get("replicas", 0), c.get("components") or []) for c in clusters or []}


def replicas_by_cluster(decision: BindingDecision) -> dict[str, int]:
    return dict(decision.clusters)


def accepted_outcomes(expect: dict[str, Any]) -> list[dict[str, Any]]:
    outcomes = [expect["outcome"], *([expect["stableSortAlternative"]] if "stableSortAlternative" in expect else [])]
    return [shares(one.get("clusters")) for one in outcomes]


def compare_texts(expect: dict[str, Any], decision: BindingDecision) -> Iterable[str]:
    """Our filters report in order of names, as the recorded texts do."""
    message = decision.failure.message if decision.failure else ""
    if message != expect.get("error", ""):
        yield f"error: expected {expect.get('error', '')!r}, got {message!r}"
    if decision.failure and decision.condition[2] != expect["conditionMessage"]:
        yield f"conditionMessage: expected {expect['conditionMessage']!r}, got {decision.condition[2]!r}"
    texts = [tried.failure.message if tried.failure else "" for tried in decision.tried_groups]
    if "attemptErrors" in expect and texts != expect["attemptErrors"]:
        yield f"attemptErrors: expected {expect['attemptErrors']}, got {texts}"
