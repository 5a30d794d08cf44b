"""Previews of a rebalance or of an edited policy: the controllers' functions on a copy of the objects in the API."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.ocm_placement import AddOnPlacementScore, PlacementDecision
from trimtab.api.kinds.policy import Placement, Policy
from trimtab.api.kinds.rebalancer import RebalancerSpec, WorkloadRebalancer, WorkloadReference
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding, TargetCluster
from trimtab.api.profile import TRIMTAB, Profile
from trimtab.api.value import Meta, Object, Raw
from trimtab.client.client import Client, Resource
from trimtab.client.lookups import list_typed
from trimtab.controllers import well_known
from trimtab.controllers.feature_gates import feature_gates
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.movement.gate import GateResult, apply_gate, options_for
from trimtab.controllers.movement.rebalance import binding_of, selected_workloads
from trimtab.controllers.propagation.detect import selectors_of
from trimtab.controllers.propagation.schedule import SchedulingIntent, adjust_to_intent, intent_of
from trimtab.decide.fleet import Fleet
from trimtab.decide.karmada import BindingDecision, decide_all
from trimtab.decide.ocm.snapshot import external_value_of, score_key
from trimtab.dryrun.documents import Document
from trimtab.dryrun.manifests import Manifest
from trimtab.dryrun.static_view import StaticView
from trimtab.interpret.match import policy_priority
from trimtab.tables import format_table

DRY_RUN_NAME = "dry-run"


class PreviewCase(NamedTuple):
    """One workload, its binding after the hypothetical change, and the scheduling intent that follows."""

    name: str
    binding: Binding
    intent: SchedulingIntent


async def preview_rebalance(client: Client, spec: Raw, now: datetime, profile: Profile = TRIMTAB) -> str:
    """A table of what a rebalance would move, what can start now, and which budget delays the rest."""
    job = WorkloadRebalancer(
        metadata=Meta(name=DRY_RUN_NAME, generation=1), spec=msgspec.convert(spec, RebalancerSpec, strict=False)
    )
    view = await fetch_view(client, [job], now, profile)
    fleet = await fetch_fleet(client, view)
    rows: dict[str, Sequence[str]] = {}
    cases: list[PreviewCase] = []
    for ref in selected_workloads(job, view):
        binding = binding_of(ref, view)
        stamped_binding = with_reschedule_request(binding, view) if binding is not None else None
        intent = intent_of(stamped_binding, fleet, feature_gates(view), view) if stamped_binding is not None else None
        if stamped_binding is None or intent is None or stamped_binding.spec.placement is None:
            rows[reference_name(ref)] = ("-", "-", "no binding with a placement")
        else:
            cases.append(PreviewCase(reference_name(ref), stamped_binding, intent))
    return format_rows(rows | decide_cases(cases, fleet, view))


async def preview_policies(
    client: Client, policies: Sequence[Policy], now: datetime, profile: Profile = TRIMTAB
) -> str:
    """A table of what these policies would move, claim or no longer select if they were applied."""
    view = await fetch_view(client, policies, now, profile)
    fleet = await fetch_fleet(client, view)
    rows: dict[str, Sequence[str]] = {}
    cases: list[PreviewCase] = []
    for policy in policies:
        for binding in (found for found in well_known.all_bindings(view) if is_claimed_by(found, policy)):
            name, now_there = workload_name(binding), format_shares(binding.spec.clusters)
            template = view.raw(well_known.template_ref(binding))
            if template is not None and not policy_priority(selectors_of(policy), template):
                rows[name] = (now_there, now_there, "no longer selected: it keeps running without a policy")
                continue
            edited = binding.but(spec=binding.spec.but(placement=policy.spec.placement or Placement()))
            intent = intent_of(edited, fleet, feature_gates(view), view)
            if intent is None:
                rows[name] = (now_there, now_there, "no change")
            else:
                cases.append(PreviewCase(name, edited, intent))
        for name in unclaimed_workloads(policy, view):
            rows.setdefault(name, ("-", "?", "not propagated; this policy would claim it"))
    if not rows and not cases:
        return "These policies select no workload."
    return format_rows(rows | decide_cases(cases, fleet, view))


def is_claimed_by(binding: Binding, policy: Policy) -> bool:
    notes = binding.metadata.annotations
    if policy.namespace:
        return (notes.get(well_known.PP_NAMESPACE), notes.get(well_known.PP_NAME)) == (policy.namespace, policy.name)
    return notes.get(well_known.CPP_NAME) == policy.name


def unclaimed_workloads(policy: Policy, view: StaticView) -> Iterator[str]:
    """Templates that the policy selects and that have no binding."""
    known = {workload_name(binding) for binding in well_known.all_bindings(view)}
    for selector in policy.spec.resource_selectors:
        for template in view.raws(selector.api_version, selector.kind, policy.namespace or selector.namespace or None):
            metadata = template["metadata"]
            name = join_with_slashes(template["kind"], metadata.get("namespace", ""), metadata["name"])
            if name not in known and policy_priority(selectors_of(policy), template):
                yield name


def workload_name(binding: Binding) -> str:
    workload = binding.spec.resource
    return join_with_slashes(workload.kind, workload.namespace, workload.name)


def join_with_slashes(*parts: str) -> str:
    return "/".join(part for part in parts if part)


def decide_cases(cases: Sequence[PreviewCase], fleet: Fleet[Cluster], view: StaticView) -> dict[str, Sequence[str]]:
    decisions, _ = decide_all([case.intent.request for case in cases], fleet, view.profile)
    return {
        case.name: preview_row(case, adjust_to_intent(case.binding, decision, case.intent), view)
        for case, decision in zip(cases, decisions, strict=True)
    }


def format_rows(rows: Mapping[str, Sequence[str]]) -> str:
    return format_table(("WORKLOAD", "NOW", "THEN", "NOTE"), ((name, *rows[name]) for name in sorted(rows)))


def reference_name(ref: WorkloadReference) -> str:
    return join_with_slashes(ref.kind, ref.namespace, ref.name)


def with_reschedule_request(binding: Binding, view: StaticView) -> Binding:
    last = binding.status.last_scheduled_time or view.now
    return binding_moves.with_reschedule_request(
        binding, max(view.now, last + timedelta(seconds=1)), "Rebalance", DRY_RUN_NAME
    )


def preview_row(case: PreviewCase, decision: BindingDecision, view: StaticView) -> Sequence[str]:
    now = format_shares(case.binding.spec.clusters)
    if not decision.ok:
        return now, now, decision.condition[2]
    if decision.targets == case.binding.spec.clusters:
        return now, now, "no change"
    start = apply_gate(case.binding, decision, case.intent.cause, options_for(case.binding, view), view, set())
    return (
        now,
        format_shares(decision.targets),
        start_text(case.binding, start) if isinstance(start, GateResult) else "",
    )


def start_text(binding: Binding, start: GateResult) -> str:
    """How the move would start: at once, with the replacement first, in steps, or later."""
    if start.refusal is not None:
        is_partial = start.clusters != binding.spec.clusters
        return f"{'in steps' if is_partial else 'delayed'}: {start.refusal.message}"
    return "replacement first" if start.holds else "at once"


def format_shares(targets: Iterable[TargetCluster]) -> str:
    return " ".join(f"{t.name}:{t.replicas}" if t.replicas else t.name for t in targets) or "-"


async def fetch_view(client: Client, hypothetical: Sequence[Object], now: datetime, profile: Profile) -> StaticView:
    """A view of everything that affects the decisions, including the hypothetical objects."""
    bindings = [*await list_typed(client, ResourceBinding), *await list_typed(client, ClusterResourceBinding)]
    wanted = {(b.spec.resource.api_version, b.spec.resource.kind) for b in bindings}
    for policy in (one for one in hypothetical if isinstance(one, Policy)):
        wanted |= {(selector.api_version, selector.kind) for selector in policy.spec.resource_selectors}
    templates: list[Raw] = []
    for resource in await client.resources():
        if (resource.api_version, resource.kind) in wanted:
            templates += await list_objects(client, resource)
    more: list[Object] = [
        *hypothetical,
        *bindings,
        *await list_typed(client, Cluster),
        *await list_typed(client, DisruptionBudget),
        *await list_typed(client, PlacementDecision),
    ]
    items = [Manifest(raw, Document(raw, "", 0), None) for raw in templates]
    parts: dict[str, Any] = {}
    return StaticView(items, now=now, profile=profile, parts=parts, more=more)


async def list_objects(client: Client, resource: Resource) -> list[Raw]:
    """All objects of a kind with apiVersion and kind, which items of a list response do not have."""
    type_meta = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [{**type_meta, **raw} for raw in (await client.list(resource)).items]


async def fetch_fleet(client: Client, view: StaticView) -> Fleet[Cluster]:
    fleet = Fleet.of(view.all(Cluster), now=view.now)
    for score in await list_typed(client, AddOnPlacementScore):
        fleet = fleet.with_external_value_changes(score_key(score.name), {score.namespace: external_value_of(score)})
    return fleet
