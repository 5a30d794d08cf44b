"""Bindings -> where they go: a queue of bindings is decided as one batch against one picture of the fleet."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from trimtab.api.affinity import belongs
from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.ocm import PlacementDecision
from trimtab.api.kinds.policy import Placement
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.kinds.work import Binding, BindingStatus, PreviousPlacement, TargetCluster
from trimtab.api.value import Condition, Key
from trimtab.controllers import well_known
from trimtab.controllers.contract import Again, Note, Remember, Steps, View, Wake, Wish, controller
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.movement.gate import BLOCKED, BUDGETED, Waiting, options_for, outset, started
from trimtab.controllers.movement.taint_eviction import left, task_for
from trimtab.decide.explain import explain, record
from trimtab.decide.fleet import Fleet
from trimtab.decide.karmada import RESERVED_FOR, Decision, decide_all
from trimtab.decide.pipeline import Shares
from trimtab.decide.request import AGGREGATED, DUPLICATED, Ask, Gates, ask_of
from trimtab.decide.reschedule_trigger import trigger

OURS = ("", "default-scheduler")
UNSCHEDULABLE_SECONDS = 300.0
LONGEST_BACKOFF_SECONDS = 10.0
BLOCKED_SECONDS = 15.0
ARRIVAL_SECONDS = 1.0
"""How soon it is tried again where nobody can be relied on to tell when it may."""
REST_AFTER_REVERT = timedelta(seconds=600)
BATCH = 200
CAUSES = {
    "PlacementChanged": "PolicyChange",
    "ReplicasChanged": "Scale",
    "DuplicatedOrNonWorkload": "Reschedule",
    "TargetClusterTerminating": "ClusterFailover",
}
STAYS_SCHEDULED = ("Drain", "Failback", "ScoreChange")
"""Causes whose failure says nothing about where the workload is now: it stays, and is well placed."""


def is_ours(binding: Binding) -> bool:
    """Bindings that a policy made, for this scheduler, and that nobody holds back."""
    suspended = binding.spec.suspension is not None and binding.spec.suspension.scheduling
    claimed = any(binding.metadata.labels.get(label) for label in (well_known.PP_ID, well_known.CPP_ID))
    return claimed and not suspended and binding.spec.scheduler_name in OURS


def needs_a_look(old: Binding | None, new: Binding) -> bool:
    return (
        old is None
        or (old.metadata.generation != new.metadata.generation and not is_own_step(old, new))
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or (is_ours(new) and not is_ours(old))
        or bool(old.status.holds and not new.status.holds)
    )


def is_own_step(old: Binding, new: Binding) -> bool:
    """Whether the scheduler itself changed the spec, and said in the same step that it has seen the outcome."""
    seen = new.status.scheduler_observed_generation
    return seen == new.metadata.generation and seen != old.status.scheduler_observed_generation


def affected_bindings(old: Cluster | None, new: Cluster | None, view: View) -> Iterable[Key]:
    """The bindings for which a change of this cluster may matter."""
    if new is None:
        return
    eager = view.profile.retry_when_the_fleet_changes
    if old is None and not eager:
        return
    spoken = old is None or (
        (old.metadata.labels, old.metadata.generation) != (new.metadata.labels, new.metadata.generation)
        or (old.metadata.deletion_timestamp is None and new.metadata.deletion_timestamp is not None)
        or is_draining(old) != is_draining(new)
        # A cluster that has just joined serves nothing until it has been looked at.
        or (eager and old.status.api_enablements != new.status.api_enablements)
    )
    roomier = eager and old is not None and old.status.resource_summary != new.status.resource_summary
    if not spoken and not roomier:
        return
    for binding in well_known.all_bindings(view):
        if not is_ours(binding) or binding.spec.placement is None:
            continue
        waits = not well_known.is_true(binding.status.conditions, "Scheduled")
        if (eager and waits) or (spoken and any(concerns(binding, c) for c in (old, new) if c is not None)):
            yield key_of(binding)


def concerns(binding: Binding, cluster: Cluster) -> bool:
    placement = binding.spec.placement or Placement()
    if placement.cluster_affinities:
        if binding.status.scheduler_observed_generation != binding.metadata.generation:
            return True
        observed = binding.status.scheduler_observing_affinity_name
        terms = placement.cluster_affinities
        term = next((t for t in terms if t.affinity_name == observed), terms[0])
        return belongs(term)(cluster)
    return belongs(placement.cluster_affinity)(cluster)


def followers_of_decisions(old: PlacementDecision | None, new: PlacementDecision | None, view: View) -> Iterable[Key]:
    """A Placement decided anew: bindings that take their candidates from it."""
    page = new or old
    if page is None or (old is not None and new is not None and old.status == new.status):
        return
    name = page.metadata.labels.get("cluster.open-cluster-management.io/placement", "")
    for binding in well_known.all_bindings(view):
        ref = binding.spec.placement.placement_ref if binding.spec.placement is not None else None
        if ref is not None and ref.name == name and (ref.namespace or binding.namespace) == page.namespace:
            yield key_of(binding)


def blocked_by(old: DisruptionBudget | None, new: DisruptionBudget | None, view: View) -> Iterable[Key]:
    """A budget changed: the bindings that wait for one may have their turn."""
    budget = new or old
    for binding in well_known.all_bindings(view):
        if is_blocked(binding) and budget is not None and binding.namespace == budget.namespace:
            yield key_of(binding)


def is_blocked(binding: Binding) -> bool:
    condition = binding_moves.stalled_because(binding)
    return condition is not None and condition.reason == BLOCKED


def is_draining(cluster: Cluster | None) -> bool:
    return cluster is not None and well_known.DRAIN in cluster.metadata.annotations


def rank(binding: Binding) -> int:
    return binding.spec.schedule_priority.priority if binding.spec.schedule_priority is not None else 0


@controller(
    *well_known.BINDINGS,
    writes=["spec.clusters", "metadata.annotations", "status", "DisruptionBudget.status", "Move"],
    changed=needs_a_look,
    wakes=[
        Wake(Cluster, affected_bindings),
        Wake(PlacementDecision, followers_of_decisions),
        Wake(DisruptionBudget, blocked_by),
    ],
    batch=BATCH,
    priority=rank,
)
def schedule(bindings: Sequence[Binding], view: View) -> Iterator[tuple[Binding, Wish]]:
    waiting: list[tuple[Binding, Intent]] = []
    fleet, gates = view.part("fleet").at(view.now), gates_of(view)
    for binding in bindings:
        if not is_ours(binding):
            continue
        if binding.metadata.deletion_timestamp is not None:
            yield from ((binding, note) for note in farewell(binding))
        elif binding.spec.placement is not None:
            intent = intent_of(binding, fleet, gates, view)
            rest = resting(binding, intent.cause, view) if intent is not None else None
            if intent is not None and rest is None:
                waiting.append((binding, intent))
                continue
            seen = freed(binding, view) if intent is None else binding
            status = seen.status.but(scheduler_observed_generation=binding.metadata.generation)
            seen = seen.but(status=status if intent is not None else status.but(followed=followed(binding, view)))
            if seen != binding:
                yield binding, seen
            if rest:
                yield binding, Again(rest)
    if not waiting:
        return
    asks = {key_of(binding): intent.ask for binding, intent in waiting}
    fleet = view.part("fleet").at(view.now, asks)
    decisions, fleet = decide_all(list(asks.values()), fleet, view.profile)
    if view.profile.reserve_capacity:
        gains = tuple((key, d.ask, gained(d)) for key, d in zip(asks, decisions, strict=True))
        yield waiting[0][0], Remember("fleet", "given away", (fleet, gains))  # first, so that the next batch knows it
    busy: set[Key] = set()
    for (binding, intent), decision in zip(waiting, decisions, strict=True):
        for wish in outcome(binding, as_intended(binding, decision, intent), intent, view, busy):
            yield binding, wish


class Intent(NamedTuple):
    """Why a binding is decided, and the question that is asked for it."""

    cause: str
    ask: Ask
    exactly: tuple[TargetCluster, ...] = ()
    """The shares to go back to, if the clusters take them."""
    gathers: bool = False
    """Worth a move only when fewer clusters are needed."""
    keeps: tuple[TargetCluster, ...] = ()
    """What stays where it is, in clusters that may have it at all."""


def intent_of(binding: Binding, fleet: Fleet[Cluster], gates: Gates, view: View) -> Intent | None:
    """What is to be decided about this binding now; None when nothing is."""
    what = trigger(binding, fleet, gates)
    moves_gently = view.profile.replacement_first
    offered = candidates(binding, view)
    quiet = what in ("None", "DuplicatedOrNonWorkload")
    if moves_gently and quiet and (rest := drained(binding, view)) is not binding:
        return Intent("Drain", ask_of(rest, gates=gates, candidates=offered))
    if quiet and offered is not None and (pursuit := following(binding, offered, gates)) is not None:
        return pursuit
    if what == "None":
        return None
    ask = ask_of(binding, gates=gates, candidates=offered)
    if not moves_gently or not ask.fresh:
        return Intent(CAUSES.get(what, ""), ask)
    return asked_afresh(binding, ask, gates, view)


def drained(binding: Binding, view: View) -> Binding:
    """The binding as if it had left the clusters that are being emptied."""
    for target in binding.spec.clusters:
        if is_draining(view.get(Cluster, "", target.name)):
            binding = left(binding, target.name, task_for(binding, view))
    return binding


def following(binding: Binding, offered: Sequence[str], gates: Gates) -> Intent | None:
    """What a change in the decisions of its Placement asks of a binding.

    It leaves the clusters that are decided for no more. When more have come than it leaves, everything is divided anew:
    else the newcomers would stay empty until somebody scales it.
    """
    kept = tuple(target for target in binding.spec.clusters if target.name in offered)
    lost = len(binding.spec.clusters) - len(kept)
    joined = set(offered).difference(binding.status.followed) if binding.status.followed else ()
    ask = ask_of(binding, gates=gates, candidates=offered)
    if ask.workload and ask.plan.strategy != DUPLICATED and len(joined) > lost:
        gathers = ask.plan.strategy == AGGREGATED and not lost
        return Intent("ScoreChange", msgspec.structs.replace(ask, fresh=True), gathers=gathers)
    if not lost:
        return None
    rest = binding.but(spec=binding.spec.but(clusters=kept))
    return Intent("ScoreChange", ask_of(rest, gates=gates, candidates=offered))


def asked_afresh(binding: Binding, ask: Ask, gates: Gates, view: View) -> Intent:
    """A stamp: everything anew, or only what is not available, or the way home."""
    asked = binding_moves.asked_by(binding)
    previous = binding.status.previous_placement
    failback = binding.spec.placement.failback if binding.spec.placement is not None else None
    if asked.reason == "Failback" and previous is not None and failback is not None and goes_home(binding):
        home = frozenset(target.name for target in previous.clusters)
        return Intent("Failback", msgspec.structs.replace(ask, candidates=home), previous.clusters)
    job = view.get(WorkloadRebalancer, "", asked.rebalancer) if asked.rebalancer else None
    if job is not None and job.spec.strategy == "PreserveAvailable":
        kept = binding_moves.targets_of(available(binding, view))
        anew = ask_of(binding.but(spec=binding.spec.but(clusters=kept)), gates=gates, candidates=ask.candidates)
        return Intent(asked.reason, msgspec.structs.replace(anew, fresh=False), keeps=kept)
    return Intent(asked.reason, ask)


def goes_home(binding: Binding) -> bool:
    """Whether the way back leads to the very clusters that were left: by wish, or because there are no groups."""
    placement = binding.spec.placement or Placement()
    return placement.failback is not None and (placement.failback.to == "Previous" or not placement.cluster_affinities)


def available(binding: Binding, view: View) -> dict[str, int]:
    shares = {
        name: min(n, binding_moves.ready_in(binding, name, view))
        for name, n in binding_moves.placement(binding).items()
    }
    return {name: n for name, n in shares.items() if n > 0}


def as_intended(binding: Binding, decision: Decision, intent: Intent) -> Decision:
    """The same shares as before, where the decision finds the same clusters able to take as many replicas."""
    if intent.gathers and decision.ok and len(decision.clusters) >= len(binding.spec.clusters):
        return with_shares(decision, binding.spec.clusters)
    if intent.keeps and decision.ok and decision.ask.plan.strategy != DUPLICATED:
        return preserving(decision, intent.keeps)
    wanted = [(target.name, target.replicas) for target in intent.exactly]
    fits = decision.ok and sum(n for _, n in wanted) == sum(n for _, n in decision.clusters)
    if not wanted or not fits or {name for name, _ in wanted} != {name for name, _ in decision.clusters}:
        return decision
    return with_shares(decision, intent.exactly)


def preserving(decision: Decision, keeps: Iterable[TargetCluster]) -> Decision:
    """The decision with at least so much in the clusters that may have it; weights alone would move it for nothing."""
    allowed = {one.name for one in explain(decision).clusters if one.refused is None}
    kept = {target.name: target.replicas for target in keeps if target.name in allowed}
    shares = {name: max(n, kept.get(name, 0)) for name, n in (kept | dict(decision.clusters)).items()}
    surplus = sum(shares.values()) - sum(n for _, n in decision.clusters)
    for name in sorted(shares, key=lambda name: (kept.get(name, 0) - shares[name], name)):
        taken = min(surplus, shares[name] - kept.get(name, 0))
        shares[name] -= taken
        surplus -= taken
    return (
        decision if surplus else with_shares(decision, binding_moves.targets_of({k: n for k, n in shares.items() if n}))
    )


def with_shares(decision: Decision, targets: Iterable[TargetCluster]) -> Decision:
    wanted = sorted((target.name, target.replicas) for target in targets)
    columns, replicas = zip(*((decision.fleet.index[name], n) for name, n in wanted), strict=True)
    return msgspec.structs.replace(decision, shares=Shares(columns, replicas))


def resting(binding: Binding, cause: str, view: View) -> float | None:
    """Seconds that a voluntary move has to wait: while another is under way (0), or after one that was undone."""
    if cause not in BUDGETED or cause == "PolicyChange":
        return None
    if binding.status.holds:
        return 0.0
    condition = binding_moves.stalled_because(binding)
    if condition is None or condition.reason != "MoveReverted" or condition.last_transition_time is None:
        return None
    left_over = (condition.last_transition_time + REST_AFTER_REVERT - view.now).total_seconds()
    stamp = binding.spec.reschedule_triggered_at
    newer = stamp is not None and stamp > condition.last_transition_time
    return left_over if left_over > 0 and not newer else None


def gained(decision: Decision) -> tuple[tuple[str, int], ...]:
    """What is still to arrive, and where."""
    had = dict(decision.ask.placed)
    return tuple((name, n - had.get(name, 0)) for name, n in decision.clusters if n > had.get(name, 0))


def gates_of(view: View) -> Gates:
    return Gates(components=bool(well_known.setting(view, "components", default=False)))


def candidates(binding: Binding, view: View) -> list[str] | None:
    """The clusters of the Placement that this placement refers to; None when it refers to none."""
    ref = binding.spec.placement.placement_ref if binding.spec.placement is not None else None
    if ref is None:
        return None
    pages = view.all(PlacementDecision, ref.namespace or binding.namespace)
    label = "cluster.open-cluster-management.io/placement"
    mine = [page.status for page in pages if page.metadata.labels.get(label) == ref.name]
    return [decision.cluster_name for status in mine if status is not None for decision in status.decisions]


def followed(binding: Binding, view: View) -> tuple[str, ...]:
    """The candidates that a decision taken now knows of."""
    return tuple(sorted(set(candidates(binding, view) or ())))


def farewell(binding: Binding) -> Iterator[Note]:
    kind = "clusterResourceBinding" if well_known.cluster_wide(binding) else "resourceBinding"
    place = f"{binding.namespace}/{binding.name}" if binding.namespace else binding.name
    for about in (well_known.ref_of(binding), well_known.template_ref(binding)):
        yield Note(
            about, "ScheduleBindingFailed", f"skip schedule deleting {kind}: {place}", source(binding), "Warning"
        )


def source(binding: Binding) -> str:
    return binding.spec.scheduler_name or "default-scheduler"


def outcome(binding: Binding, decision: Decision, intent: Intent, view: View, busy: set[Key]) -> Iterator[Wish]:
    """What the decision changes in the binding, and what is told about it."""
    yield Remember("decision", well_known.ref_of(binding), decision)
    if view.profile.replacement_first:
        if decision.ok and leaves_something(binding, decision):
            yield from relocated(binding, decision, intent, view, busy)
            return
        if not decision.ok and intent.cause in STAYS_SCHEDULED:
            why = f"cannot go on with {intent.cause}: {decision.condition[2]}"
            yield from told_stalled(binding, "NoFeasibleCluster", why, view)
            yield Again(BLOCKED_SECONDS * 2)
            return
    placed = decided(freed(binding, view) if decision.ok else binding, decision)
    moved = placed.spec != binding.spec
    status = status_after(placed, decision, view, moved=moved)
    repeats = view.profile.name == "upstream"
    news = moved or placed.metadata != binding.metadata or meaning(status) != meaning(binding.status) or repeats
    if news:
        yield placed.but(status=status)
        yield from notes(binding, decision)
    if decision.retry:
        yield Again(patience(decision, view))
    elif repeats and moved and not is_divided(decision):
        yield Again(0.0)  # upstream looks at its own write, and of these it decides and tells again


def is_divided(decision: Decision) -> bool:
    return decision.ask.workload and decision.ask.plan.strategy != DUPLICATED


def freed(binding: Binding, view: View) -> Binding:
    """Nothing is to be moved any more, so nothing is in the way of it."""
    return next(binding_moves.getting_on(binding, (BLOCKED, "NoFeasibleCluster"), view.now), binding)


def leaves_something(binding: Binding, decision: Decision) -> bool:
    after = dict(decision.clusters)
    return bool(binding.status.holds) or any(
        n > after.get(name, 0) or name not in after for name, n in binding_moves.base(binding).items()
    )


def relocated(binding: Binding, decision: Decision, intent: Intent, view: View, busy: set[Key]) -> Iterator[Wish]:
    """Something leaves a cluster: the budget is charged first, then the log is written, then the binding moves."""
    begun = outset(binding, decision, intent.cause, options_for(binding, view), view, busy)
    if isinstance(begun, Waiting):
        yield Again(0.05)
        return
    yield from begun.debits
    yield from begun.log
    held = binding.but(status=binding.status.but(holds=begun.holds, replacement=begun.replacement))
    placed = decided(held, decision) if begun.complete else held
    placed = placed.but(spec=placed.spec.but(clusters=begun.clusters))
    moved = placed.spec != binding.spec
    status = status_after(placed, decision, view, moved=moved)
    if not begun.complete:
        # The stamp, the old group and the old placement stay: what is left over is decided again.
        status = held.status.but(scheduler_observed_generation=binding.metadata.generation + (1 if moved else 0))
    placed = placed.but(status=remembering(binding, status, intent.cause, decision, begun.complete, view))
    refusal = begun.refusal
    if refusal is not None and not moved:
        yield from told_stalled(binding, BLOCKED, f"{intent.cause}: {refusal.message}", view)
    else:
        placed = binding_moves.stalled(placed, "", "", view.now)
        yield Steps((held, placed)) if held.status != binding.status else placed
        yield from started(binding, begun, intent.cause)
        if begun.complete:
            yield from notes(binding, decision)
    if refusal is not None and moved:
        yield Again(0.0)  # why the rest does not follow is said when there is nothing but the rest
    elif refusal is not None and not begun.holds:
        # Who has only just been turned down may have missed that the budget changed meanwhile.
        patience = BLOCKED_SECONDS if is_blocked(binding) else ARRIVAL_SECONDS
        until = (refusal.until - view.now).total_seconds() if refusal.until is not None else patience
        yield Again(max(0.0, until) + 0.001)


def remembering(
    binding: Binding, status: BindingStatus, cause: str, decision: Decision, complete: bool, view: View
) -> BindingStatus:
    """Where it was before it fell back to a later group; forgotten when somebody decides afresh."""
    if cause in ("Rebalance", "PolicyChange") and complete:
        return status.but(previous_placement=None)
    groups = [term.affinity_name for term in decision.ask.plan.groups]
    old, new = binding.status.scheduler_observing_affinity_name, decision.affinity_name
    fell_back = old in groups and new in groups and groups.index(new) > groups.index(old)
    if not fell_back or status.previous_placement is not None:
        return status
    return status.but(
        previous_placement=PreviousPlacement(clusters=binding.spec.clusters, affinity_name=old, since=view.now)
    )


def told_stalled(binding: Binding, reason: str, message: str, view: View) -> Iterator[Wish]:
    """Say once why it does not get on; where it is does not change."""
    seen = binding.status.but(scheduler_observed_generation=binding.metadata.generation)
    stuck = binding_moves.stalled(binding.but(status=seen), reason, message, view.now)
    if stuck != binding:
        yield stuck
    before = binding_moves.stalled_because(binding)
    if before is None or (before.reason, before.message) != (reason, message):
        yield Note(well_known.ref_of(binding), reason, message, "trimtab-mover", "Warning")


def decided(binding: Binding, decision: Decision) -> Binding:
    """The binding with the result in it; a decision that failed for lack of room changes nothing."""
    if not decision.ok and not decision.clears:
        return binding
    annotation = {well_known.APPLIED_PLACEMENT: msgspec.json.encode(binding.spec.placement).decode()}
    return binding.but(
        metadata=binding.metadata.but(annotations=binding.metadata.annotations | annotation),
        spec=binding.spec.but(clusters=decision.targets),
    )


def status_after(binding: Binding, decision: Decision, view: View, *, moved: bool) -> BindingStatus:
    now = view.now.replace(microsecond=0)
    verdict, reason, message = decision.condition
    said = Condition(type="Scheduled", status=verdict, reason=reason, message=message, last_transition_time=now)
    status = binding.status.but(conditions=well_known.with_condition(binding.status.conditions, said))
    if view.profile.always_write_own_fields:
        status = status.but(decision=record(decision, view.now))
    if not decision.ok:
        return status
    stamp = binding.spec.reschedule_triggered_at
    return status.but(
        # Our own write of spec.clusters raises the generation by one, and it has been looked at.
        scheduler_observed_generation=binding.metadata.generation + (1 if moved else 0),
        scheduler_observing_affinity_name=decision.affinity_name,
        last_scheduled_time=max(now, stamp) if stamp is not None else now,
        followed=followed(binding, view),
    )


def meaning(status: BindingStatus) -> BindingStatus:
    """Without time and reasons: a decision that only confirms the last one is not worth a write."""
    return status.but(last_scheduled_time=None, decision=None)


def patience(decision: Decision, view: View) -> float:
    reason = decision.condition[1]
    if reason not in ("Unschedulable", "NoClusterFit"):
        return LONGEST_BACKOFF_SECONDS
    if not decision.fleet.reserved:
        return UNSCHEDULABLE_SECONDS
    # Some room was given to others; what they do not use is free again when the reservation lapses.
    lapse: datetime = view.recall("fleet", "next lapse") or view.now + RESERVED_FOR
    return max(0.0, (lapse - view.now).total_seconds()) + 0.001


def notes(binding: Binding, decision: Decision) -> Iterator[Note]:
    abouts = (well_known.ref_of(binding), well_known.template_ref(binding))
    groups = [term.affinity_name for term in decision.ask.plan.groups]
    for tried in decision.tried:
        if tried.failure is not None:
            text = (
                f"failed to schedule {well_known.binding_text(binding)} with clusterAffiliates "
                f"index({groups.index(tried.affinity_name)}): {tried.failure.message}"
            )
            for about in abouts:
                yield Note(about, "ScheduleBindingFailed", text, source(binding), "Warning")
    for about in abouts:
        if decision.ok:
            colon = "" if well_known.cluster_wide(binding) else ":"
            shares = ", ".join(f"{name}:{replicas}" for name, replicas in decision.clusters)
            text = f"Binding has been scheduled successfully. Result{colon} {{{shares}}}"
            yield Note(about, "ScheduleBindingSucceed", text, source(binding))
        else:
            yield Note(about, "ScheduleBindingFailed", decision.condition[2], source(binding), "Warning")
