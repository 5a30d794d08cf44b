"""What a rebalance would do, thought through by the controllers' own rules on a copy of what is there."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.ocm import AddOnPlacementScore, PlacementDecision
from trimtab.api.kinds.rebalancer import RebalancerSpec, WorkloadRebalancer, WorkloadReference
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding, TargetCluster
from trimtab.api.profile import TRIMTAB, Profile
from trimtab.api.value import Meta, Object, Raw
from trimtab.cli.shared import Document, table
from trimtab.cli.shared_intake import Item, Shelf
from trimtab.cli.shared_moves import everything
from trimtab.client.client import Client, Resource
from trimtab.controllers import moves
from trimtab.controllers.passage import Outset, options_for, outset
from trimtab.controllers.rebalance import binding_of, meant
from trimtab.controllers.schedule import Intent, as_intended, gates_of, intent_of
from trimtab.decide.fleet import Fleet
from trimtab.decide.karmada import Decision, decide_all
from trimtab.decide.ocm.scene import note_of, score_note

JOB = "dry-run"


class Case(NamedTuple):
    """One workload, its binding as if it had been asked for afresh, and the question that follows."""

    ref: WorkloadReference
    binding: Binding
    intent: Intent


async def forecast(client: Client, spec: Raw, now: datetime, profile: Profile = TRIMTAB) -> str:
    """What would move where, what of it may begin now, and what must wait for which budget."""
    view = await copied(client, spec, now, profile)
    fleet = await fleet_of(client, view)
    job = view.all(WorkloadRebalancer)[0]
    rows: dict[WorkloadReference, Sequence[str]] = {}
    cases: list[Case] = []
    for ref in meant(job, view):
        binding = binding_of(ref, view)
        asked = stamped(binding, view) if binding is not None else None
        intent = intent_of(asked, fleet, gates_of(view), view) if asked is not None else None
        if asked is None or intent is None or asked.spec.placement is None:
            rows[ref] = ("-", "-", "it has no binding with a placement")
        else:
            cases.append(Case(ref, asked, intent))
    decisions, _ = decide_all([case.intent.ask for case in cases], fleet, profile)
    for case, decision in zip(cases, decisions, strict=True):
        rows[case.ref] = told(case, as_intended(case.binding, decision, case.intent), view)
    headings = ("WORKLOAD", "NOW", "THEN", "NOTE")
    return table(headings, ((named(ref), *rows[ref]) for ref in sorted(rows, key=named)))


def named(ref: WorkloadReference) -> str:
    return "/".join(part for part in (ref.kind, ref.namespace, ref.name) if part)


def stamped(binding: Binding, view: Shelf) -> Binding:
    last = binding.status.last_scheduled_time or view.now
    return moves.stamped(binding, max(view.now, last + timedelta(seconds=1)), "Rebalance", JOB)


def told(case: Case, decision: Decision, view: Shelf) -> Sequence[str]:
    now = shares(case.binding.spec.clusters)
    if not decision.ok:
        return now, now, decision.condition[2]
    if decision.targets == case.binding.spec.clusters:
        return now, now, "no change"
    begun = outset(case.binding, decision, case.intent.cause, options_for(case.binding, view), view, set())
    return now, shares(decision.targets), beginning(case.binding, begun) if isinstance(begun, Outset) else ""


def beginning(binding: Binding, begun: Outset) -> str:
    """How it would begin."""
    if begun.refusal is not None:
        some = begun.clusters != binding.spec.clusters
        return f"{'in steps' if some else 'must wait'}: {begun.refusal.message}"
    return "replacement first" if begun.holds else "at once"


def shares(targets: Iterable[TargetCluster]) -> str:
    return " ".join(f"{t.name}:{t.replicas}" if t.replicas else t.name for t in targets) or "-"


async def copied(client: Client, spec: Raw, now: datetime, profile: Profile) -> Shelf:
    """Everything that has a say, and the rebalancer as if it existed."""
    bindings = [*await everything(client, ResourceBinding), *await everything(client, ClusterResourceBinding)]
    wanted = {(b.spec.resource.api_version, b.spec.resource.kind) for b in bindings}
    templates: list[Raw] = []
    for resource in await client.resources():
        if (resource.api_version, resource.kind) in wanted:
            templates += await listed(client, resource)
    job = WorkloadRebalancer(
        metadata=Meta(name=JOB, generation=1), spec=msgspec.convert(spec, RebalancerSpec, strict=False)
    )
    more: list[Object] = [
        job,
        *bindings,
        *await everything(client, Cluster),
        *await everything(client, DisruptionBudget),
        *await everything(client, PlacementDecision),
    ]
    items = [Item(raw, Document(raw, "", 0), None) for raw in templates]
    parts: dict[str, Any] = {}
    return Shelf(items, now=now, profile=profile, parts=parts, more=more)


async def listed(client: Client, resource: Resource) -> list[Raw]:
    """All objects of a kind, saying of what kind they are, which lists leave out."""
    known = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [{**known, **raw} for raw in (await client.list(resource)).items]


async def fleet_of(client: Client, view: Shelf) -> Fleet[Cluster]:
    fleet = Fleet.of(view.all(Cluster), now=view.now)
    for score in await everything(client, AddOnPlacementScore):
        fleet = fleet.amend(score_note(score.name), {score.namespace: note_of(score)})
    return fleet
