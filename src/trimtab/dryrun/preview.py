"""What a rebalance, or an edit of a policy, would do: the controllers' own rules on a copy of what is there."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.ocm import AddOnPlacementScore, PlacementDecision
from trimtab.api.kinds.policy import Placement, Policy
from trimtab.api.kinds.rebalancer import RebalancerSpec, WorkloadRebalancer, WorkloadReference
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding, TargetCluster
from trimtab.api.profile import TRIMTAB, Profile
from trimtab.api.value import Meta, Object, Raw
from trimtab.client.client import Client, Resource
from trimtab.client.lookups import everything
from trimtab.controllers import well_known
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.movement.gate import Outset, options_for, outset
from trimtab.controllers.movement.rebalance import binding_of, meant
from trimtab.controllers.propagation.detect import selectors_of
from trimtab.controllers.propagation.schedule import Intent, as_intended, gates_of, intent_of
from trimtab.decide.fleet import Fleet
from trimtab.decide.karmada import Decision, decide_all
from trimtab.decide.ocm.snapshot import note_of, score_note
from trimtab.dryrun.documents import Document
from trimtab.dryrun.manifests import Item
from trimtab.dryrun.static_view import Shelf
from trimtab.interpret.match import policy_priority
from trimtab.tables import table

JOB = "dry-run"


class Case(NamedTuple):
    """One workload, its binding as if it had been asked for, and the question that follows."""

    name: str
    binding: Binding
    intent: Intent


async def forecast(client: Client, spec: Raw, now: datetime, profile: Profile = TRIMTAB) -> str:
    """What would move where, what of it may begin now, and what must wait for which budget."""
    job = WorkloadRebalancer(
        metadata=Meta(name=JOB, generation=1), spec=msgspec.convert(spec, RebalancerSpec, strict=False)
    )
    view = await copied(client, [job], now, profile)
    fleet = await fleet_of(client, view)
    rows: dict[str, Sequence[str]] = {}
    cases: list[Case] = []
    for ref in meant(job, view):
        binding = binding_of(ref, view)
        asked = stamped(binding, view) if binding is not None else None
        intent = intent_of(asked, fleet, gates_of(view), view) if asked is not None else None
        if asked is None or intent is None or asked.spec.placement is None:
            rows[named(ref)] = ("-", "-", "it has no binding with a placement")
        else:
            cases.append(Case(named(ref), asked, intent))
    return shown(rows | thought_through(cases, fleet, view))


async def previewed(client: Client, policies: Sequence[Policy], now: datetime, profile: Profile = TRIMTAB) -> str:
    """What would move if these policies were applied: of the workloads that they have already, and what they lose or win."""
    view = await copied(client, policies, now, profile)
    fleet = await fleet_of(client, view)
    rows: dict[str, Sequence[str]] = {}
    cases: list[Case] = []
    for policy in policies:
        for binding in (found for found in well_known.all_bindings(view) if is_governed(found, policy)):
            name, now_there = workload_of(binding), shares(binding.spec.clusters)
            template = view.raw(well_known.template_ref(binding))
            if template is not None and not policy_priority(selectors_of(policy), template):
                rows[name] = (now_there, now_there, "no longer selected: it runs on, and nothing looks after it")
                continue
            edited = binding.but(spec=binding.spec.but(placement=policy.spec.placement or Placement()))
            intent = intent_of(edited, fleet, gates_of(view), view)
            if intent is None:
                rows[name] = (now_there, now_there, "no change")
            else:
                cases.append(Case(name, edited, intent))
        for name in newcomers(policy, view):
            rows.setdefault(name, ("-", "?", "not propagated yet; this policy would claim it"))
    if not rows and not cases:
        return "No workload is governed by these policies, and none would be."
    return shown(rows | thought_through(cases, fleet, view))


def is_governed(binding: Binding, policy: Policy) -> bool:
    notes = binding.metadata.annotations
    if policy.namespace:
        return (notes.get(well_known.PP_NAMESPACE), notes.get(well_known.PP_NAME)) == (policy.namespace, policy.name)
    return notes.get(well_known.CPP_NAME) == policy.name


def newcomers(policy: Policy, view: Shelf) -> Iterator[str]:
    """Templates that it selects and that nobody has claimed."""
    bound = {workload_of(binding) for binding in well_known.all_bindings(view)}
    for selector in policy.spec.resource_selectors:
        for template in view.raws(selector.api_version, selector.kind, policy.namespace or selector.namespace or None):
            metadata = template["metadata"]
            name = slashed(template["kind"], metadata.get("namespace", ""), metadata["name"])
            if name not in bound and policy_priority(selectors_of(policy), template):
                yield name


def workload_of(binding: Binding) -> str:
    workload = binding.spec.resource
    return slashed(workload.kind, workload.namespace, workload.name)


def slashed(*parts: str) -> str:
    return "/".join(part for part in parts if part)


def thought_through(cases: Sequence[Case], fleet: Fleet[Cluster], view: Shelf) -> dict[str, Sequence[str]]:
    decisions, _ = decide_all([case.intent.ask for case in cases], fleet, view.profile)
    return {
        case.name: told(case, as_intended(case.binding, decision, case.intent), view)
        for case, decision in zip(cases, decisions, strict=True)
    }


def shown(rows: Mapping[str, Sequence[str]]) -> str:
    return table(("WORKLOAD", "NOW", "THEN", "NOTE"), ((name, *rows[name]) for name in sorted(rows)))


def named(ref: WorkloadReference) -> str:
    return slashed(ref.kind, ref.namespace, ref.name)


def stamped(binding: Binding, view: Shelf) -> Binding:
    last = binding.status.last_scheduled_time or view.now
    return binding_moves.stamped(binding, max(view.now, last + timedelta(seconds=1)), "Rebalance", JOB)


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


async def copied(client: Client, supposed: Sequence[Object], now: datetime, profile: Profile) -> Shelf:
    """Everything that has a say, and what is asked about as if it existed."""
    bindings = [*await everything(client, ResourceBinding), *await everything(client, ClusterResourceBinding)]
    wanted = {(b.spec.resource.api_version, b.spec.resource.kind) for b in bindings}
    for policy in (one for one in supposed if isinstance(one, Policy)):
        wanted |= {(selector.api_version, selector.kind) for selector in policy.spec.resource_selectors}
    templates: list[Raw] = []
    for resource in await client.resources():
        if (resource.api_version, resource.kind) in wanted:
            templates += await listed(client, resource)
    more: list[Object] = [
        *supposed,
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
