"""Decisions about objects from files, for policies, Placements and pods, in one format."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np

from trimtab import plugins
from trimtab.api.kind import find_kind, kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.interpreter import ResourceInterpreterCustomization
from trimtab.api.kinds.native.apps import ReplicaSet, StatefulSet
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.api.kinds.ocm_clusters import ManagedCluster
from trimtab.api.kinds.ocm_placement import OcmPlacement, PlacementDecision
from trimtab.api.kinds.policy import ClusterPropagationPolicy, Policy, PropagationPolicy
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.profile import Profile
from trimtab.api.value import Object, Raw, Value
from trimtab.api.wording import plural
from trimtab.client.client import resource_of
from trimtab.controllers import well_known
from trimtab.controllers.feature_gates import feature_gates
from trimtab.controllers.ocm.placement import placement_request
from trimtab.controllers.ocm.placement_decisions import new_decision
from trimtab.controllers.propagation.claim_metadata import claiming_policy
from trimtab.controllers.propagation.desired_binding import BindingNotReady, binding_for, merge_binding
from trimtab.controllers.propagation.policy_matching import best_policy, missing_overrides
from trimtab.controllers.propagation.scheduling.adjustment import adjust_to_intent
from trimtab.controllers.propagation.scheduling.intent import SchedulingIntent, intent_of
from trimtab.controllers.propagation.template_scope import RESERVED_NAMESPACES
from trimtab.decide import karmada
from trimtab.decide.explain import explain
from trimtab.decide.explanation import AffinityGroupExplanation, ClusterExplanation
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Reason
from trimtab.decide.ocm import explain as placement_explain
from trimtab.decide.ocm.groups import decision_pages
from trimtab.decide.ocm.pipeline import UnlistableClusterSet, decide
from trimtab.decide.ocm.request import OcmRequest
from trimtab.decide.ocm.snapshot import PlacementSnapshot
from trimtab.decide.ocm.status import misconfigured_condition, satisfied_condition
from trimtab.decide.pods.affinity.selector_groups import SelectorGroups
from trimtab.decide.pods.budgets.budget_status import preemption_budget
from trimtab.decide.pods.budgets.pod_budgets import is_over_pods
from trimtab.decide.pods.node_info import build_pod_info
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.preemption.preempt import predict_replacements, preempt
from trimtab.decide.pods.preemption.recent_disruptions import (
    DisruptionsLookup,
    RecentDisruptions,
    recent_disruptions_of,
)
from trimtab.decide.pods.schedule import apply_decision, schedule, unschedulable_message
from trimtab.decide.pods.schedule import explain as node_opinions
from trimtab.dryrun.manifest import Manifest, Manifests, display_name
from trimtab.dryrun.static_view import StaticView
from trimtab.errors import InputError
from trimtab.runtime.propagatable import is_propagatable

SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Priority classes that exist in every cluster."""
SELECTED, NOT_NEEDED, REJECTED = "Selected", "NotNeeded", "Rejected"


class TargetOutcome(Value):
    """The outcome for one cluster or node, and the reason."""

    name: str
    outcome: str
    """Selected, NotNeeded or Rejected."""
    replicas: int | None = None
    before: int = 0
    plugin: str = ""
    """The filter that rejected it."""
    reason: str = ""
    scores: dict[str, int] = {}
    total: int | None = None
    fits: int | None = None
    """How many more replicas fit."""


class DryRunDecision(Value):
    """The placement of one workload, Placement or pod, and the reasons."""

    api: str
    subject: str
    placed: bool
    message: str
    by: str = ""
    """The policy or the cluster sets that apply."""
    targets: tuple[TargetOutcome, ...] = ()
    groups: tuple[AffinityGroupExplanation, ...] = ()
    """The affinity groups in the order of the attempts, or the decision groups of a Placement."""
    strategy: str = ""
    mode: str = ""
    rule: str = ""
    tie_break: str = ""
    valid_until: datetime | None = None
    """The time at which the decision may change without a change of the input; None: never."""


def decide_manifests(manifests: Manifests, *, now: datetime, profile: Profile) -> list[DryRunDecision]:
    """Decide everything in the manifests; raises InputError when there is nothing to decide."""
    plugins.load_for_clusters()
    policies = [*manifests.all(PropagationPolicy), *manifests.all(ClusterPropagationPolicy)]
    bindings = [*manifests.all(ResourceBinding), *manifests.all(ClusterResourceBinding)]
    placements, nodes = manifests.all(OcmPlacement), manifests.all(Node)
    pending = [pod for pod in manifests.all(Pod) if not pod.spec.node_name and not pod.is_terminal] if nodes else []
    decisions: list[DryRunDecision] = []
    decided: list[PlacementDecision] = []
    if placements:
        require_kind(manifests, ManagedCluster, placements[0])
        view = StaticView(manifests.items, now=now, profile=profile)
        decisions += decide_placements(manifests, placements, view, decided)
    if policies or bindings:
        require_kind(manifests, Cluster, (policies or bindings)[0])
        decisions += decide_workloads(manifests, now, profile, decided)
    if pending:
        decisions += decide_pods(manifests, pending, now, profile)
    if not decisions:
        raise InputError(nothing_to_decide_text(manifests))
    return decisions


def require_kind(manifests: Manifests, type_: type[Object], because: Object) -> None:
    if not manifests.all(type_):
        kind = kind_of(type_)
        raise InputError(
            f"{manifests.location_of(because)}: {kind_of(because).name} {because.name} needs clusters, and none of the "
            f"files has an object of apiVersion {kind.api_version}, kind {kind.name}"
        )


def nothing_to_decide_text(manifests: Manifests) -> str:
    kinds = ", ".join(sorted({item.raw["kind"] for item in manifests.items})) or "no objects"
    return (
        f"there is nothing to decide: the files contain {kinds}. Give Clusters, workloads and a PropagationPolicy; or "
        "ManagedClusters, their sets and bindings, and a Placement; or Nodes and a Pod without spec.nodeName"
    )


# workloads, policies and clusters


class BindingCase(NamedTuple):
    """One binding and the decision to make; without an intent its placement does not change."""

    binding: Binding
    by: str
    intent: SchedulingIntent | None


def decide_workloads(
    manifests: Manifests, now: datetime, profile: Profile, decided: Sequence[PlacementDecision]
) -> list[DryRunDecision]:
    customizations = [item.raw for item in manifests.items if isinstance(item.typed, ResourceInterpreterCustomization)]
    view = StaticView(manifests.items, now=now, profile=profile, customizations=customizations, more=decided)
    fleet = view.fleet
    results: list[DryRunDecision | None] = []
    cases: list[BindingCase] = []
    for found in binding_cases(manifests, view, fleet):
        results.append(found if isinstance(found, DryRunDecision) else None)
        if isinstance(found, BindingCase):
            cases.append(found)
    intents_to_decide = [case.intent for case in cases if case.intent is not None]
    decisions, _ = karmada.decide_all([intent.request for intent in intents_to_decide], fleet, profile)
    remaining = iter(decisions)
    decided_cases = iter(
        [workload_decision(case, next(remaining) if case.intent is not None else None) for case in cases]
    )
    return [verdict if verdict is not None else next(decided_cases) for verdict in results]


def binding_cases(
    manifests: Manifests, view: StaticView, fleet: Fleet[Cluster]
) -> Iterator[BindingCase | DryRunDecision]:
    """Every workload with its policy, and every binding whose workload is not in the files."""
    seen: set[tuple[str, str]] = set()
    for item in manifests.items:
        if not is_template(item, manifests):
            continue
        found = binding_case(item, view, fleet)
        if isinstance(found, BindingCase):
            seen.add((found.binding.namespace, found.binding.name))
        if found is not None:
            yield found
    for binding in well_known.all_bindings(view):
        if (binding.namespace, binding.name) not in seen and binding.spec.placement is not None:
            yield BindingCase(binding, "placement of the binding", intent_of(binding, fleet, feature_gates(view), view))


def is_template(item: Manifest, manifests: Manifests) -> bool:
    """Whether users propagate the kind; pods are not templates when the files also have nodes."""
    kind = find_kind(item.raw["apiVersion"], item.raw["kind"])
    if kind is None:
        return True
    return is_propagatable(resource_of(kind)) and not (isinstance(item.typed, Pod) and manifests.all(Node))


SUPPORTING = (Namespace, PriorityClass)
"""Kinds that may be in the files only because other objects refer to them."""


def binding_case(item: Manifest, view: StaticView, fleet: Fleet[Cluster]) -> BindingCase | DryRunDecision | None:
    template = item.raw
    policy, _ = claiming_policy(template, view)
    policy = policy or best_policy(template, view)
    if policy is None or RESERVED_NAMESPACES.fullmatch(template["metadata"].get("namespace", "")):
        return None if isinstance(item.typed, SUPPORTING) else unplaced_decision(item, "", "no policy selects it")
    by = display_name({"kind": kind_of(policy).name, "metadata": {"name": policy.name, "namespace": policy.namespace}})
    if missing := missing_overrides(policy, view):
        return unplaced_decision(
            item, by, f"the policy depends on override policies that are missing: {', '.join(missing)}"
        )
    try:
        binding = desired_binding(template, policy, view)
    except BindingNotReady as reason:
        return unplaced_decision(item, by, str(reason))
    return BindingCase(binding, by, intent_of(binding, fleet, feature_gates(view), view))


def unplaced_decision(item: Manifest, by: str, why: str) -> DryRunDecision:
    return DryRunDecision(api="karmada", subject=item.name, by=by, placed=False, message=why)


def desired_binding(template: Raw, policy: Policy, view: StaticView) -> Binding:
    new = binding_for(template, policy, view)
    existing = well_known.binding_at(view, new.namespace, new.name)
    return new if existing is None else merge_binding(existing, new)


def workload_decision(case: BindingCase, decision: karmada.BindingDecision | None) -> DryRunDecision:
    resource = case.binding.spec.resource
    subject = display_name(
        {"kind": resource.kind, "metadata": {"name": resource.name, "namespace": resource.namespace}}
    )
    if case.intent is None or decision is None:
        current = tuple(
            TargetOutcome(name=target.name, outcome=SELECTED, replicas=target.replicas, before=target.replicas)
            for target in case.binding.spec.clusters
        )
        text = "unchanged: neither placement nor replicas have changed"
        return DryRunDecision(api="karmada", subject=subject, by=case.by, placed=True, message=text, targets=current)
    decision = adjust_to_intent(case.binding, decision, case.intent)
    story = explain(decision)
    targets = [
        TargetOutcome(
            name=one.name,
            outcome=REJECTED if one.refused is not None else SELECTED if one.replicas is not None else NOT_NEEDED,
            replicas=one.replicas if case.binding.spec.replicas else None,
            before=one.before,
            plugin=one.refused.plugin if one.refused is not None else "",
            reason=reason_text(one),
            scores={**one.scores, **one.prioritizers},
            total=one.total if one.prioritizers else None,
            fits=one.fits,
        )
        for one in story.clusters
    ]
    return DryRunDecision(
        api="karmada",
        subject=subject,
        by=case.by,
        placed=story.ok,
        message=summary_text(targets) if story.ok else story.message,
        targets=tuple(targets),
        groups=story.groups,
        strategy=story.strategy,
        mode=story.mode,
        rule=story.rule,
        tie_break=story.tie_break,
        valid_until=story.valid_until,
    )


def reason_text(story: ClusterExplanation) -> str:
    if story.refused is not None:
        return story.refused.message
    if story.limited is not None:
        return f"keeps its replicas and gets no more: {story.limited.message}"
    if not story.selected:
        return "feasible, but not selected by the spread constraints"
    return f"fits {plural(story.fits, 'replica')}" if story.fits is not None else ""


def summary_text(targets: Sequence[TargetOutcome]) -> str:
    selected = [target for target in targets if target.outcome == SELECTED]
    counted = sum(target.replicas or 0 for target in selected)
    copies = (
        f"{counted} replica{'s' * (counted != 1)}"
        if any(one.replicas is not None for one in selected)
        else "one copy each"
    )
    return f"{copies} in {len(selected)} cluster{'s' * (len(selected) != 1)}"


# Placements and managed clusters


def decide_placements(
    manifests: Manifests, placements: Sequence[OcmPlacement], view: StaticView, decided: list[PlacementDecision]
) -> Iterator[DryRunDecision]:
    """Decide the Placements in the order of the files, each independently of the others."""
    scene = view.placement_snapshot
    for placement in placements:
        ask = placement_request(placement, scene, view.cel, view)
        subject = f"Placement {placement.namespace}/{placement.name}"
        try:
            answer = decide(ask, scene)
        except UnlistableClusterSet as fault:
            yield DryRunDecision(api="ocm", subject=subject, placed=False, message=str(fault))
            continue
        misconfiguration, satisfaction = misconfigured_condition(answer), satisfied_condition(answer, placement.spec)
        is_valid = misconfiguration.status == "False"
        decided += [new_decision(placement, page, None) for page in decision_pages(placement.name, answer.groups)]
        ends = [end for end in (answer.result.recheck_at, answer.result.scores_until) if end is not None]
        yield DryRunDecision(
            api="ocm",
            subject=subject,
            by=f"cluster sets {', '.join(answer.eligible_sets)}" if answer.eligible_sets else "no cluster set",
            placed=is_valid and satisfaction.status == "True",
            message=satisfaction.message if is_valid else misconfiguration.message.lstrip(":"),
            targets=tuple(cluster_outcomes(ask, scene)),
            groups=tuple(
                AffinityGroupExplanation(name=group.name or str(number), message=", ".join(group.clusters))
                for number, group in enumerate(answer.groups)
                if group.clusters
            ),
            tie_break="equal totals: the first name",
            valid_until=min(ends, default=None),
        )


def cluster_outcomes(ask: OcmRequest, scene: PlacementSnapshot) -> Iterator[TargetOutcome]:
    scores = scores_by_cluster(ask, scene)
    outcomes = {"Selected": SELECTED, "NotNeeded": NOT_NEEDED}
    for fate in placement_explain.cluster_outcomes(ask, scene):
        elsewhere = fate.outcome == "NotInSets"
        yield TargetOutcome(
            name=fate.cluster,
            outcome=outcomes.get(fate.outcome, REJECTED),
            plugin="ClusterSets" if elsewhere else fate.plugin,
            reason="in none of the cluster sets that are bound to the namespace and selected by the Placement"
            if elsewhere
            else fate.reason,
            scores=scores.get(fate.cluster, {}),
            total=fate.total,
        )


def scores_by_cluster(ask: OcmRequest, scene: PlacementSnapshot) -> Mapping[str, dict[str, int]]:
    """The unweighted score of every prioritizer; empty when the Placement is misconfigured."""
    feasible = np.zeros(len(scene.fleet), dtype=bool)
    found = decide(ask, scene).result
    if found.totals is None:
        return {}
    feasible[found.feasible] = True
    scores: dict[str, dict[str, int]] = {}
    for opinion in placement_explain.prioritizer_scores(ask, scene, feasible):
        for cluster, score in opinion.scores.items():
            scores.setdefault(cluster, {})[opinion.name] = score
    return scores


# pods and nodes


def decide_pods(
    manifests: Manifests, pending: Sequence[Pod], now: datetime, profile: Profile
) -> Iterator[DryRunDecision]:
    """Decide the pods in the order of the scheduler: by priority, then by position in the files."""
    plugins.load()
    fleet = node_fleet_from_manifests(manifests, now)
    ranked = [with_priority(pod, manifests) for pod in pending]
    for pod in sorted(ranked, key=lambda pod: -(pod.spec.priority or 0)):
        decision = schedule(pod, fleet)
        text = f"node {decision.node}" if decision.node else no_node_text(pod, fleet, manifests, profile)
        if decision.tied_count > 1:
            text = f"{text}, tied with {decision.tied_count - 1} more"
        yield DryRunDecision(
            api="pods",
            subject=f"Pod {pod.namespace}/{pod.name}",
            placed=decision.node is not None,
            message=text,
            targets=tuple(node_outcomes(pod, fleet, decision.node)),
            tie_break="equal totals: the node with the fewest pods, then the first name",
        )
        fleet = apply_decision(decision, fleet)


def node_fleet_from_manifests(manifests: Manifests, now: datetime) -> NodeSnapshot:
    namespaces = {namespace.name: namespace.metadata.labels for namespace in manifests.all(Namespace)}
    fleet = NodeSnapshot.of(manifests.all(Node), manifests.all(Pod), namespaces=namespaces, now=now)
    services: dict[str, list[dict[str, str]]] = {}
    for item in manifests.items:
        if (item.raw["apiVersion"], item.raw["kind"]) == ("v1", "Service"):
            selector = (item.raw.get("spec") or {}).get("selector") or {}
            services.setdefault(item.raw["metadata"]["namespace"], []).append(selector)
    sets: list[ReplicaSet | StatefulSet] = [*manifests.all(ReplicaSet), *manifests.all(StatefulSet)]
    workloads = {one.metadata.uid: one.spec.selector for one in sets if one.spec.selector is not None}
    return fleet.with_groups(SelectorGroups(services, workloads))


def with_priority(pod: Pod, manifests: Manifests) -> Pod:
    """Set the priority from the PriorityClass, as the API server does."""
    name = pod.spec.priority_class_name
    if pod.spec.priority is not None or not name:
        return pod
    known = {**SYSTEM_PRIORITIES, **{one.name: one.value for one in manifests.all(PriorityClass)}}
    if name not in known:
        raise InputError(
            f"{manifests.location_of(pod)}: Pod {pod.namespace}/{pod.name}: spec.priorityClassName: none of the files has a "
            f"PriorityClass {name}"
        )
    return pod.but(spec=pod.spec.but(priority=known[name]))


def node_outcomes(pod: Pod, fleet: NodeSnapshot, selected: str | None) -> Iterator[TargetOutcome]:
    for opinion in node_opinions(pod, fleet):
        objection = opinion.rejection
        yield TargetOutcome(
            name=opinion.node,
            outcome=REJECTED if objection is not None else SELECTED if opinion.node == selected else NOT_NEEDED,
            before=opinion.pod_count,
            plugin=objection.plugin if objection is not None else "",
            reason=objection.reason.message if objection is not None else "",
            scores=dict(opinion.scores),
            total=None if objection is not None else opinion.total,
        )


def no_node_text(pod: Pod, fleet: NodeSnapshot, manifests: Manifests, profile: Profile) -> str:
    """Why no node fits, which pods preemption would evict, and what would happen to them."""
    now = fleet.nodes.now if profile.preemption_obeys_budgets else None
    covers = [preemption_budget(budget, now) for budget in manifests.all(PodDisruptionBudget)]
    if now is not None:
        covers += [preemption_budget(budget, now) for budget in manifests.all(DisruptionBudget) if is_over_pods(budget)]
    found = preempt(pod, fleet, covers, profile, disruptions=recent_disruptions_in(manifests, fleet.nodes.now))
    if isinstance(found, Reason):
        return f"{unschedulable_message(pod, fleet)} Preemption does not help: {found.message}."
    victims = ", ".join("/".join(victim.key) for victim in found.chosen.victims)
    outcomes = "; ".join(
        f"{one.name}: {text}" for one, text in predict_replacements(build_pod_info(pod), found.chosen, fleet)
    )
    return f"{unschedulable_message(pod, fleet)} On {found.chosen.node} it would preempt {victims}. ({outcomes})"


def recent_disruptions_in(manifests: Manifests, now: datetime) -> DisruptionsLookup:
    """The recent disruptions of each owner, as far as its pods show them."""
    pods_by_owner: dict[str, list[Pod]] = {}
    for one in manifests.all(Pod):
        if one.controller is not None and not one.is_terminal:
            pods_by_owner.setdefault(one.controller.uid, []).append(one)

    def for_controller(controller: str) -> RecentDisruptions:
        owned = pods_by_owner.get(controller, [])
        return recent_disruptions_of(controller, len(owned), owned, {}, now)

    return for_controller
