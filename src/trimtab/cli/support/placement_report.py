"""The report of `trimtab explain placement/NAME`: the decision for every cluster, from the objects in the API."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, cast

import msgspec

from trimtab.api.kind import kind_of
from trimtab.api.kinds.ocm_placement import OcmPlacement
from trimtab.api.profile import TRIMTAB
from trimtab.api.value import Object
from trimtab.client.client import Client, resource_of
from trimtab.decide.ocm.explain import ClusterOutcome, cluster_outcomes, debug_document
from trimtab.decide.ocm.pipeline import UnlistableClusterSet, decide
from trimtab.decide.ocm.request import OcmRequest, ocm_request_of
from trimtab.decide.ocm.snapshot import PlacementSnapshot, PlacementSnapshotCache
from trimtab.decide.ocm.status import misconfigured_condition, satisfied_condition
from trimtab.errors import InputError, NotFound
from trimtab.interpret.cel.expressions import compiler
from trimtab.runtime.declarations import load_declarations
from trimtab.tables import format_table

HEADINGS = ("CLUSTER", "SELECTED", "TOTAL", "SCORES", "REASON")
OUTCOMES = {
    "Selected": "among the best",
    "NotNeeded": "feasible, but other clusters have a higher score or an earlier name",
    "NotInSets": "in none of the cluster sets that are bound to the namespace and selected by the Placement",
}


async def explain_placement(client: Client, namespace: str, name: str, now: datetime, *, as_json: bool) -> str:
    """The decision for every cluster: a table, or the JSON document of the OCM debug server."""
    load_declarations()
    kind = kind_of(OcmPlacement)
    try:
        raw = await client.get(resource_of(kind), namespace, name)
    except NotFound as missing:
        raise InputError(f"there is no Placement {name} in namespace {namespace}") from missing
    placement = cast("OcmPlacement", kind.decode(raw))
    scene = await fetch_snapshot(client, now)
    ask = ocm_request_of(
        placement, scene, cast("Any", compiler()), uses_spread_policy=TRIMTAB.placements_obey_spread_policy
    )
    if as_json:
        return msgspec.json.format(msgspec.json.encode(debug_document(placement, ask, scene))).decode()
    try:
        return "\n".join(report_lines(placement, ask, scene))
    except UnlistableClusterSet as fault:
        raise InputError(str(fault)) from fault


async def fetch_snapshot(client: Client, now: datetime) -> PlacementSnapshot:
    """The objects in the API on which Placements are decided."""
    things: list[Object] = []
    for type_ in PlacementSnapshotCache.kinds:
        kind = kind_of(type_)
        listing = await client.list(resource_of(kind))
        things += [kind.decode(raw) for raw in listing.items]
    return PlacementSnapshotCache(things).snapshot(now)


def report_lines(placement: OcmPlacement, ask: OcmRequest, scene: PlacementSnapshot) -> Iterator[str]:
    decision = decide(ask, scene)
    misconfiguration, satisfaction = misconfigured_condition(decision), satisfied_condition(decision, placement.spec)
    yield f"Placement {placement.namespace}/{placement.name}: {satisfaction.message}"
    if misconfiguration.status == "True":
        yield f"The Placement is misconfigured: {misconfiguration.message.lstrip(':')}"
    current = scene.decisions_of(placement.namespace, placement.name).listed_clusters
    yield f"Current decision: {', '.join(sorted(current)) or 'no cluster'}"
    yield ""
    yield format_table(HEADINGS, (cluster_row(fate) for fate in cluster_outcomes(ask, scene)))


def cluster_row(fate: ClusterOutcome) -> tuple[str, str, str, str, str]:
    total = "" if fate.total is None else str(fate.total)
    why = OUTCOMES.get(fate.outcome) or f"{fate.plugin}: {fate.reason}".lstrip(": ")
    parts = ", ".join(
        f"{name} {score}" if weight == 1 else f"{weight} x {name} {score}" for name, weight, score in fate.score_parts
    )
    return (
        fate.cluster,
        "yes" if fate.outcome == "Selected" else "no",
        total,
        parts,
        "; ".join([why, *fate.missing_scores]),
    )
