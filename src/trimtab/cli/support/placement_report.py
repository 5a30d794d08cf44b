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
from trimtab.decide.ocm.explain import Fate, fates, shown
from trimtab.decide.ocm.pipeline import Unlistable, decide
from trimtab.decide.ocm.request import PlacementAsk, ask_of
from trimtab.decide.ocm.snapshot import Atlas, Scene
from trimtab.decide.ocm.status import misconfigured, satisfied
from trimtab.errors import InputFault, NotFound
from trimtab.interpret.cel.expressions import compiler
from trimtab.runtime.declarations import learn_everything
from trimtab.tables import table

HEADINGS = ("CLUSTER", "SELECTED", "TOTAL", "SCORES", "REASON")
OUTCOMES = {
    "Selected": "among the best",
    "NotNeeded": "feasible, but other clusters have a higher score or an earlier name",
    "NotInSets": "in none of the cluster sets that are bound to the namespace and selected by the Placement",
}


async def placement_explained(client: Client, namespace: str, name: str, now: datetime, *, as_json: bool) -> str:
    """The decision for every cluster: a table, or the JSON document of the OCM debug server."""
    learn_everything()
    kind = kind_of(OcmPlacement)
    try:
        raw = await client.get(resource_of(kind), namespace, name)
    except NotFound as missing:
        raise InputFault(f"there is no Placement {name} in namespace {namespace}") from missing
    placement = cast("OcmPlacement", kind.decode(raw))
    scene = await pictured(client, now)
    ask = ask_of(placement, scene, cast("Any", compiler()), spreads=TRIMTAB.placements_obey_spread_policy)
    if as_json:
        return msgspec.json.format(msgspec.json.encode(shown(placement, ask, scene))).decode()
    try:
        return "\n".join(lines(placement, ask, scene))
    except Unlistable as fault:
        raise InputFault(str(fault)) from fault


async def pictured(client: Client, now: datetime) -> Scene:
    """The objects in the API on which Placements are decided."""
    things: list[Object] = []
    for type_ in Atlas.kinds:
        kind = kind_of(type_)
        listing = await client.list(resource_of(kind))
        things += [kind.decode(raw) for raw in listing.items]
    return Atlas(things).scene(now)


def lines(placement: OcmPlacement, ask: PlacementAsk, scene: Scene) -> Iterator[str]:
    decision = decide(ask, scene)
    misconfiguration, satisfaction = misconfigured(decision), satisfied(decision, placement.spec)
    yield f"Placement {placement.namespace}/{placement.name}: {satisfaction.message}"
    if misconfiguration.status == "True":
        yield f"The Placement is misconfigured: {misconfiguration.message.lstrip(':')}"
    current = scene.held_by(placement.namespace, placement.name).decided
    yield f"Current decision: {', '.join(sorted(current)) or 'no cluster'}"
    yield ""
    yield table(HEADINGS, (row(fate) for fate in fates(ask, scene)))


def row(fate: Fate) -> tuple[str, str, str, str, str]:
    total = "" if fate.total is None else str(fate.total)
    why = OUTCOMES.get(fate.outcome) or f"{fate.plugin}: {fate.reason}".lstrip(": ")
    parts = ", ".join(
        f"{name} {score}" if weight == 1 else f"{weight} x {name} {score}" for name, weight, score in fate.parts
    )
    return fate.cluster, "yes" if fate.outcome == "Selected" else "no", total, parts, "; ".join([why, *fate.gaps])
