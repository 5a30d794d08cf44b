"""One reconcile of one Placement of Open Cluster Management, through our controller, in the profile `upstream`."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from compat.k8s_cases import Outcome, cases
from views import FakeView

from trimtab import plugins
from trimtab.api.kinds.ocm_clusters import ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding
from trimtab.api.kinds.ocm_placement import AddOnPlacementScore, OcmPlacement, PlacementDecision
from trimtab.api.profile import UPSTREAM
from trimtab.api.value import Object
from trimtab.controllers.contract import Delete, Effect, RecordEvent
from trimtab.controllers.ocm.placement import placement as reconcile_placement
from trimtab.decide.ocm.decision import OcmDecision
from trimtab.decide.ocm.pipeline import UnlistableClusterSet, decide
from trimtab.decide.ocm.request import ocm_request_of
from trimtab.decide.ocm.snapshot import PLACEMENT_LABEL, PlacementSnapshot, PlacementSnapshotCache, clusters_of
from trimtab.interpret.cel.expressions import compiler

KINDS = {
    "clusters": ManagedCluster,
    "clusterSets": ManagedClusterSet,
    "bindings": ManagedClusterSetBinding,
    "decisions": PlacementDecision,
    "scores": AddOnPlacementScore,
}
FILES = ("ocm-placement", "ocm")
CEL_TEXT = "compilation failed"


def run(path: str | Path) -> Iterator[Outcome]:
    plugins.load()
    for case in cases(path):
        differences = list(case_differences(case))
        yield case["in"]["id"], not differences, "; ".join(differences)


def decode_object(type_: type[Object], raw: dict[str, Any]) -> Any:
    return msgspec.convert(raw, type_, strict=False)


def case_differences(case: dict[str, Any]) -> Iterator[str]:
    given, recorded = case["in"], case["out"]
    things = [decode_object(type_, raw) for field, type_ in KINDS.items() for raw in given.get(field) or ()]
    placement = decode_object(OcmPlacement, given["placement"])
    now = msgspec.convert(given["now"], type=datetime)
    view = FakeView([*things, placement], now=now, profile=UPSTREAM, cel=compiler())
    effects = list(reconcile_placement(placement, view))
    if recorded.get("skipped") or recorded.get("listError"):
        yield from unexpected_writes(effects)
        yield from list_fault_differences(recorded, placement, view)
    elif recorded.get("panic"):
        yield from unexpected_decision_changes(effects)
    else:
        snapshot = PlacementSnapshotCache(things).snapshot(now)
        decision = decide(ocm_request_of(placement, snapshot, compiler()), snapshot)
        yield from compare_field(
            "", decision_result(decision, snapshot), {field: recorded[field] for field in ("totals", "selected")}
        )
        yield from result_differences(recorded, state_after(placement, things, effects, decision))


def unexpected_writes(effects: list[Effect]) -> Iterator[str]:
    written = [effect for effect in effects if isinstance(effect, Object | Delete | RecordEvent)]
    if written:
        yield f"expected no writes, ours: {written!r}"


def unexpected_decision_changes(effects: list[Effect]) -> Iterator[str]:
    moved = [effect for effect in effects if isinstance(effect, PlacementDecision | Delete)]
    if moved:
        yield f"expected no changed decision, ours: {moved!r}"


def list_fault_differences(recorded: dict[str, Any], placement: OcmPlacement, view: FakeView) -> Iterator[str]:
    if not recorded.get("listError"):
        return
    snapshot = view.placement_snapshot
    try:
        decide(ocm_request_of(placement, snapshot), snapshot)
    except UnlistableClusterSet as fault:
        yield from compare_field("listError", str(fault), recorded["listError"])
    else:
        yield "an unreadable cluster set was read"


def decision_result(decision: OcmDecision, snapshot: PlacementSnapshot) -> dict[str, Any]:
    names = snapshot.fleet.names
    found = decision.result
    totals = [] if found.totals is None else found.totals.tolist()
    return {
        "selected": [names[column] for column in found.by_rank],
        "totals": {names[column]: total for column, total in zip(found.feasible, totals, strict=False)},
    }


def state_after(
    placement: OcmPlacement, things: list[Object], effects: list[Effect], decision: OcmDecision
) -> dict[str, Any]:
    """The state after the effects are applied, in the form of the recording."""
    decisions = {
        thing.name: thing
        for thing in things
        if isinstance(thing, PlacementDecision)
        and thing.namespace == placement.namespace
        and thing.metadata.labels.get(PLACEMENT_LABEL) == placement.name
    }
    writes, after = [], placement
    for effect in effects:
        if isinstance(effect, PlacementDecision):
            writes += write_records(decisions.get(effect.name), effect)
            decisions[effect.name] = effect
        elif isinstance(effect, OcmPlacement):
            writes.append(f"patch placements/status {effect.name}")
            after = effect
        elif isinstance(effect, Delete):
            assert isinstance(effect.target, PlacementDecision)
            writes.append(f"delete placementdecisions {effect.target.name}")
            del decisions[effect.target.name]
    return {
        "placementDecisions": [decision_json(decisions[name]) for name in sorted(decisions)],
        "placementStatus": status_of(after),
        "requeueAt": decision.result.recheck_at.isoformat().replace("+00:00", "Z")
        if decision.result.recheck_at
        else None,
        "writes": writes,
        "events": [f"{w.type} {w.reason} {w.message}" for w in effects if isinstance(w, RecordEvent)],
        "syncError": decision.error or None,
        "status": decision.status._asdict(),
    }


def write_records(before: PlacementDecision | None, after: PlacementDecision) -> list[str]:
    records = []
    if before is None:
        records.append(f"create placementdecisions {after.name}")
    elif before.metadata != after.metadata:
        records.append(f"patch placementdecisions {after.name}")
    if clusters_of(after) != (clusters_of(before) if before else []):
        records.append(f"patch placementdecisions/status {after.name}")
    return records


def decision_json(decision: PlacementDecision) -> dict[str, Any]:
    return {"name": decision.name, "labels": decision.metadata.labels, "clusters": clusters_of(decision)}


def status_of(placement: OcmPlacement) -> dict[str, Any]:
    status = msgspec.to_builtins(placement.status)
    conditions = [{k: c[k] for k in ("type", "status", "reason", "message")} for c in status.get("conditions", ())]
    groups = [
        {
            "decisionGroupIndex": group.decision_group_index,
            "decisionGroupName": group.decision_group_name,
            "decisions": list(group.decisions),
            "clusterCount": group.clusters_count,
        }
        for group in placement.status.decision_groups
    ]
    return {
        "numberOfSelectedClusters": placement.status.number_of_selected_clusters,
        "decisionGroups": groups,
        "conditions": sorted(conditions, key=lambda c: c["type"]),
    }


def result_differences(recorded: dict[str, Any], ours: dict[str, Any]) -> Iterator[str]:
    recorded = dict(recorded)
    recorded["placementDecisions"] = sorted(recorded["placementDecisions"] or [], key=lambda d: d["name"])
    status = dict(recorded["placementStatus"])
    status["conditions"] = sorted(status["conditions"], key=lambda c: c["type"])
    status["decisionGroups"] = status["decisionGroups"] or []
    alternatives = recorded.get("statusAlternatives") or [recorded["status"]]
    ours_is_one = without_compiler_message(ours["status"]) in [without_compiler_message(one) for one in alternatives]
    if not ours_is_one:
        yield f"status: recorded {alternatives!r}, ours {ours['status']!r}"
    may_vary = len(alternatives) > 1
    if may_vary and ours_is_one and ours["status"]["code"] == "Misconfigured":
        status["conditions"] = [
            with_alternative_message(condition, ours["status"]) for condition in status["conditions"]
        ]
    for field in ("placementDecisions", "requeueAt"):
        yield from compare_field(field, ours[field], recorded[field])
    yield from compare_field(
        "placementStatus", without_compiler_message(ours["placementStatus"]), without_compiler_message(status)
    )
    yield from compare_field(
        "writes", with_unordered_deletions(ours["writes"]), with_unordered_deletions(recorded["writes"] or [])
    )
    if not may_vary:
        yield from compare_field(
            "events", with_unordered_deletions(ours["events"]), with_unordered_deletions(recorded["events"] or [])
        )
        error = without_compiler_message(recorded["syncError"])
        yield from compare_field("syncError", without_compiler_message(ours["syncError"]), error)


def with_alternative_message(condition: dict[str, Any], status: dict[str, str]) -> dict[str, Any]:
    """The condition with the message of another fault that could have been found first."""
    if condition["type"] != "PlacementMisconfigured":
        return condition
    return {**condition, "message": f"{status['plugin']}:{status['message']}"}


def without_compiler_message(content: Any) -> Any:
    """The content without the details that a CEL compiler appends to its failure message."""
    if isinstance(content, str):
        return content.partition(CEL_TEXT)[0] + CEL_TEXT if CEL_TEXT in content else content
    if isinstance(content, dict):
        return {key: without_compiler_message(value) for key, value in content.items()}
    return [without_compiler_message(value) for value in content] if isinstance(content, list) else content


def with_unordered_deletions(writes: list[str]) -> tuple[list[str], Counter[str]]:
    """Deletions have no order."""
    deletions = ("delete ", "Normal DecisionDelete ")
    return [text for text in writes if not text.startswith(deletions)], Counter(
        text for text in writes if text.startswith(deletions)
    )


def compare_field(what: str, ours: Any, recorded: Any) -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(recorded, dict):
        for field in sorted({*ours, *recorded}):
            yield from compare_field(f"{what}.{field}" if what else field, ours.get(field), recorded.get(field))
    elif (ours or None) != (recorded or None):
        yield f"{what}: recorded {recorded!r}, ours {ours!r}"
