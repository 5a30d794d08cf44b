"""Which workloads a change concerns, and why each of them is decided again."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import NamedTuple

from trimtab.api.kind import find_kind
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.policy import ClusterPropagationPolicy, Policy, PropagationPolicy
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.kinds.work import Binding
from trimtab.api.value import Raw
from trimtab.controllers import well_known
from trimtab.controllers.feature_gates import feature_gates
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.movement import state as movement_state
from trimtab.controllers.movement.placement_preview import preview_placement
from trimtab.controllers.movement.rebalance import binding_of, selected_workloads
from trimtab.controllers.movement.taint_eviction import (
    eviction_rate_factor,
    missing_state_message,
    no_execute_taints,
    preservation_of,
    seconds_until_due,
    task_for,
)
from trimtab.controllers.propagation.claim_metadata import claiming_policy
from trimtab.controllers.propagation.desired_binding import BindingNotReady, binding_for, merge_binding
from trimtab.controllers.propagation.policy_claims import outranks
from trimtab.controllers.propagation.policy_matching import best_policy, missing_overrides, places_of, specificity_of
from trimtab.controllers.propagation.scheduling.intent import SchedulingIntent, intent_of
from trimtab.controllers.propagation.scheduling.scope import is_scheduled_here
from trimtab.controllers.propagation.template_scope import RESERVED_NAMESPACES
from trimtab.controllers.settings import setting
from trimtab.decide.fleet import Fleet
from trimtab.dryrun.change import Change
from trimtab.dryrun.fleet_state import FleetState, name_of
from trimtab.dryrun.plan_result import (
    EVICTION_STOPPED,
    NEVER,
    REFUSED,
    RELEASE,
    UNCHANGED,
    PlannedRefusal,
    PlannedWorkload,
)
from trimtab.dryrun.static_view import StaticView
from trimtab.interpret.names import binding_name


class Case(NamedTuple):
    """One workload to decide: its binding after the change, and why it is decided."""

    name: str
    binding: Binding
    before: dict[str, int]
    intent: SchedulingIntent
    is_new: bool = False
    is_asked: bool = False
    """Whether the change names it, by its template, its policy or a rebalance."""
    evicted: tuple[str, ...] = ()
    """The clusters that evict it."""
    evict_after: float = 0.0
    """Seconds that its tolerations add before it is evicted."""
    note: str = ""


class Situation(NamedTuple):
    """The state before and after the change, as decisions read it."""

    change: Change
    before: FleetState
    after: FleetState
    view: StaticView
    fleet: Fleet[Cluster]
    view_before: StaticView
    fleet_before: Fleet[Cluster]
    lost: frozenset[str]


def cases_of(situation: Situation) -> Iterator[Case | PlannedWorkload]:
    """Every workload that the change may affect, and every one that the control plane is about to move anyway."""
    bindings = {workload_name(binding): binding for binding in situation.after.bindings}
    requested = rebalanced_bindings(situation)
    yield from requested.refused
    from_objects = dict(bindings_from_objects(situation))
    for name in sorted(bindings.keys() | from_objects.keys()):
        found = from_objects.get(name)
        if isinstance(found, PlannedWorkload):
            yield found
            continue
        binding = found if found is not None else bindings[name]
        binding = requested.stamped.get(name, binding) if found is None else binding
        if binding.spec.placement is None or not is_scheduled_here(binding):
            continue
        outcome = case_of(name, without_moves_in_progress(binding), situation, is_new=name not in bindings)
        if isinstance(outcome, Case) and (found is not None or name in requested.stamped):
            outcome = outcome._replace(is_asked=True)
        if outcome is not None:
            yield outcome
        elif name in requested.stamped:
            yield unchanged_row(name, binding, "the decision would be the same")


def unchanged_row(name: str, binding: Binding, note: str) -> PlannedWorkload:
    return PlannedWorkload(
        workload=name, action=UNCHANGED, before=binding.spec.clusters, after=binding.spec.clusters, note=note
    )


def without_moves_in_progress(binding: Binding) -> Binding:
    """The binding after the move that is in progress: the next decision starts from its result."""
    if not binding.status.holds:
        return binding
    return movement_state.finish(binding)


def case_of(name: str, binding: Binding, situation: Situation, *, is_new: bool) -> Case | PlannedWorkload | None:
    view = situation.view
    before = binding_moves.current_placement(binding)
    evicted = evict(name, binding, situation)
    if isinstance(evicted, PlannedWorkload):
        return evicted
    binding = evicted.binding
    intent = intent_of(binding, situation.fleet, feature_gates(view), view)
    if intent is None:
        return None
    cause = "ClusterFailover" if evicted.clusters else intent.cause
    return Case(
        name,
        binding,
        before,
        intent._replace(cause=cause),
        is_new=is_new,
        evicted=evicted.clusters,
        evict_after=evicted.after_seconds,
        note=evicted.note,
    )


class Evicted(NamedTuple):
    """A binding without the clusters that evict it."""

    binding: Binding
    clusters: tuple[str, ...] = ()
    after_seconds: float = 0.0
    note: str = ""


def evict(name: str, binding: Binding, situation: Situation) -> Evicted | PlannedWorkload:
    """Apply the taint eviction: every cluster whose NoExecute taints the workload does not tolerate for ever."""
    view = situation.view
    result = Evicted(binding)
    if not setting(view, "failover"):
        return result
    for target in binding.spec.clusters:
        cluster = view.get(Cluster, "", target.name)
        if cluster is None or not no_execute_taints(cluster):
            continue
        due = seconds_until_due(binding, cluster, view)
        if due is None:
            result = result._replace(note=f"stays in {cluster.name}: its policy tolerates the taint")
            continue
        if cluster.name in situation.lost and evacuation_delay(view) is None:
            return refused_row(name, binding, situation, "NotEvacuated", f"stays in {cluster.name}: {NOT_EVACUATED}")
        if eviction_rate_factor(cluster, view) == 0:
            return refused_row(
                name, binding, situation, EVICTION_STOPPED, f"stays in {names_of_failed(binding, view)}: {STORM}"
            )
        without = movement_state.evict_from(result.binding, cluster.name, task_for(binding, view, cluster.name))
        preview = preview_placement(without, view)
        obstacle = missing_state_message(binding, cluster.name, preservation_of(binding)) or preview.failure
        if obstacle:
            return refused_row(name, binding, situation, "NoFeasibleCluster", f"stays in {cluster.name}: {obstacle}")
        result = Evicted(without, (*result.clusters, cluster.name), max(result.after_seconds, due), result.note)
    return result


def names_of_failed(binding: Binding, view: StaticView) -> str:
    """The clusters of the workload that a NoExecute taint would evict it from."""
    found = [view.get(Cluster, "", target.name) for target in binding.spec.clusters]
    return ", ".join(cluster.name for cluster in found if cluster is not None and no_execute_taints(cluster))


NOT_EVACUATED = "clusters that are not ready are not evacuated in this profile"
STORM = "so many clusters fail at once that evictions stop (DisruptionPolicy, storm)"


def refused_row(name: str, binding: Binding, situation: Situation, code: str, message: str) -> PlannedWorkload:
    return PlannedWorkload(
        workload=name,
        action=REFUSED,
        cause="ClusterFailover",
        before=binding.spec.clusters,
        after=binding.spec.clusters,
        start=NEVER,
        note=message,
        refusal=PlannedRefusal(code=code, message=message, is_violation=True),
        lost_replicas=sum(t.replicas or 1 for t in binding.spec.clusters if t.name in situation.lost),
    )


class RebalancedBindings(NamedTuple):
    """The bindings that a rebalance asks a new decision for, and the workloads for which it cannot."""

    stamped: Mapping[str, Binding]
    refused: tuple[PlannedWorkload, ...] = ()


def rebalanced_bindings(situation: Situation) -> RebalancedBindings:
    stamped: dict[str, Binding] = {}
    refused: list[PlannedWorkload] = []
    view = situation.view
    fresh = {job.name: job for job in situation.after.all(WorkloadRebalancer)} if situation.change.rebalance else {}
    known = situation.before.objects.get(WorkloadRebalancer, {})
    for job in (job for name, job in fresh.items() if ("", name) not in known):
        for ref in selected_workloads(job, view):
            name = join_name(ref.kind, ref.namespace, ref.name)
            binding = binding_of(ref, view)
            if binding is None:
                refusal = PlannedRefusal(
                    code="NotFound", message="no propagated workload has this name", is_violation=True
                )
                refused.append(
                    PlannedWorkload(
                        workload=name,
                        action=REFUSED,
                        cause="Rebalance",
                        start=NEVER,
                        refusal=refusal,
                        note=refusal.message,
                    )
                )
                continue
            last = binding.status.last_scheduled_time or view.now
            at = max(view.now, last + timedelta(seconds=1))
            stamped[name] = movement_state.request(binding, at, "Rebalance", job.name)
    return RebalancedBindings(stamped, tuple(refused))


def bindings_from_objects(situation: Situation) -> Iterator[tuple[str, Binding | PlannedWorkload]]:
    """The new bindings of the templates that the applied objects concern."""
    for template in affected_templates(situation):
        namespace, name = name_of(template)
        workload = join_name(template["kind"], namespace, name)
        if RESERVED_NAMESPACES.fullmatch(namespace):
            continue
        found = new_binding(template, workload, situation.view)
        if found is not None:
            yield workload, found


def affected_templates(situation: Situation) -> list[Raw]:
    """The applied templates, and those that an applied policy selects or has claimed."""
    found: dict[tuple[str, str, str], Raw] = {}

    def add(raw: Raw | None) -> None:
        if raw is not None:
            found[raw["kind"], *name_of(raw)] = raw

    view = situation.view
    for raw in situation.change.objects:
        ref = well_known.ref_of_raw(raw)
        kind = find_kind(ref.api_version, ref.kind)
        policy_type = kind.type if kind is not None else None
        if policy_type in (PropagationPolicy, ClusterPropagationPolicy):
            policy = view.get(policy_type, ref.namespace, ref.name)
            for template in templates_of(policy, view) if isinstance(policy, Policy) else ():
                add(template)
        else:
            add(view.raw(ref))
    return [found[key] for key in sorted(found)]


def templates_of(policy: Policy, view: StaticView) -> Iterator[Raw]:
    for place in dict.fromkeys(places_of(policy)):
        yield from (raw for raw in view.raws(*place) if specificity_of(policy, raw))
    for binding in well_known.bindings_of_policy(view, well_known.policy_id(policy)):
        template = view.raw(well_known.template_ref(binding))
        if template is not None:
            yield template


def new_binding(template: Raw, workload: str, view: StaticView) -> Binding | PlannedWorkload | None:
    """The binding of a template under the policy that applies to it; a row when there is none."""
    policy = applying_policy(template, view)
    seen = well_known.binding_at(view, *binding_key(template))
    if policy is None:
        return release_row(workload, seen) if seen is not None and seen.spec.clusters else None
    if missing := missing_overrides(policy, view):
        text = f"its policy waits for override policies: {', '.join(missing)}"
        return unpropagated_row(workload, seen, "MissingOverrides", text)
    try:
        wanted = binding_for(template, policy, view)
    except BindingNotReady as reason:
        return unpropagated_row(workload, seen, "BindingNotReady", str(reason))
    lazy = policy.spec.activation_preference == "Lazy" and seen is not None
    return seen if lazy else wanted if seen is None else merge_binding(seen, wanted)


def applying_policy(template: Raw, view: StaticView) -> Policy | None:
    claimed, _ = claiming_policy(template, view)
    best = best_policy(template, view)
    if claimed is None:
        return best
    if best is not None and best.name != claimed.name and best.spec.preemption == "Always" and outranks(best, claimed):
        return best
    return claimed if specificity_of(claimed, template) else best


def binding_key(template: Raw) -> tuple[str, str]:
    namespace, name = name_of(template)
    return namespace, binding_name(template["kind"], name)


def release_row(workload: str, binding: Binding) -> PlannedWorkload:
    return PlannedWorkload(
        workload=workload,
        action=RELEASE,
        cause="PolicyChange",
        before=binding.spec.clusters,
        after=binding.spec.clusters,
        note="no policy selects it any more: it keeps running without a policy",
    )


def unpropagated_row(workload: str, binding: Binding | None, code: str, message: str) -> PlannedWorkload:
    clusters = binding.spec.clusters if binding is not None else ()
    refusal = PlannedRefusal(code=code, message=message, is_violation=True)
    return PlannedWorkload(
        workload=workload, action=REFUSED, before=clusters, after=clusters, start=NEVER, note=message, refusal=refusal
    )


def evacuation_delay(view: StaticView) -> float | None:
    """Seconds from the failure of a cluster until its workloads are evicted; None: never by itself."""
    delay = int(setting(view, "evacuate-after-seconds"))
    return float(setting(view, "cluster-failure-threshold")) + delay if delay else None


def workload_name(binding: Binding) -> str:
    workload = binding.spec.resource
    return join_name(workload.kind, workload.namespace, workload.name)


def join_name(*parts: str) -> str:
    return "/".join(part for part in parts if part)
