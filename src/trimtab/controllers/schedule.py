"""Bindings -> where they go: a queue of bindings is decided as one batch against one picture of the fleet."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from trimtab.api.affinity import belongs
from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm import PlacementDecision
from trimtab.api.kinds.policy import Placement
from trimtab.api.kinds.work import Binding, BindingStatus
from trimtab.api.value import Condition, Key
from trimtab.controllers import marks
from trimtab.controllers.contract import Again, Note, Remember, View, Wake, Wish, controller
from trimtab.decide.ask import Gates, ask_of
from trimtab.decide.karmada import Decision, decide_all
from trimtab.decide.trigger import trigger

OURS = ("", "default-scheduler")
UNSCHEDULABLE_SECONDS = 300.0
LONGEST_BACKOFF_SECONDS = 10.0
BATCH = 200


def is_ours(binding: Binding) -> bool:
    """Bindings that a policy made, for this scheduler, and that nobody holds back."""
    suspended = binding.spec.suspension is not None and binding.spec.suspension.scheduling
    claimed = any(binding.metadata.labels.get(label) for label in (marks.PP_ID, marks.CPP_ID))
    return claimed and not suspended and binding.spec.scheduler_name in OURS


def needs_a_look(old: Binding | None, new: Binding) -> bool:
    return (
        old is None
        or old.metadata.generation != new.metadata.generation
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or (is_ours(new) and not is_ours(old))
    )


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
    )
    roomier = eager and old is not None and old.status.resource_summary != new.status.resource_summary
    if not spoken and not roomier:
        return
    for binding in marks.all_bindings(view):
        if not is_ours(binding) or binding.spec.placement is None:
            continue
        waits = not marks.is_true(binding.status.conditions, "Scheduled")
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
    for binding in marks.all_bindings(view):
        ref = binding.spec.placement.placement_ref if binding.spec.placement is not None else None
        if ref is not None and ref.name == name and (ref.namespace or binding.namespace) == page.namespace:
            yield key_of(binding)


def rank(binding: Binding) -> int:
    return binding.spec.schedule_priority.priority if binding.spec.schedule_priority is not None else 0


@controller(
    *marks.BINDINGS,
    writes=["spec.clusters", "metadata.annotations", "status"],
    changed=needs_a_look,
    wakes=[Wake(Cluster, affected_bindings), Wake(PlacementDecision, followers_of_decisions)],
    batch=BATCH,
    priority=rank,
)
def schedule(bindings: Sequence[Binding], view: View) -> Iterator[tuple[Binding, Wish]]:
    waiting: list[Binding] = []
    fleet, gates = view.part("fleet").at(view.now), gates_of(view)
    for binding in bindings:
        if not is_ours(binding):
            continue
        if binding.metadata.deletion_timestamp is not None:
            yield from ((binding, note) for note in farewell(binding))
        elif binding.spec.placement is not None:
            if trigger(binding, fleet, gates) != "None":
                waiting.append(binding)
            elif binding.status.scheduler_observed_generation != binding.metadata.generation:
                seen = binding.status.but(scheduler_observed_generation=binding.metadata.generation)
                yield binding, binding.but(status=seen)
    if not waiting:
        return
    asks = [ask_of(binding, gates=gates, candidates=candidates(binding, view)) for binding in waiting]
    decisions, fleet = decide_all(asks, fleet, view.profile)
    for binding, decision in zip(waiting, decisions, strict=True):
        for wish in outcome(binding, decision, view):
            yield binding, wish
    gains = tuple((decision.ask, gained(decision)) for decision in decisions if view.profile.reserve_capacity)
    yield waiting[0], Remember("fleet", "given away", (fleet, gains))


def gained(decision: Decision) -> tuple[tuple[str, int], ...]:
    """What is still to arrive, and where."""
    had = dict(decision.ask.placed)
    return tuple((name, n - had.get(name, 0)) for name, n in decision.clusters if n > had.get(name, 0))


def gates_of(view: View) -> Gates:
    return Gates(components=bool(marks.setting(view, "components", default=False)))


def candidates(binding: Binding, view: View) -> list[str] | None:
    """The clusters of the Placement that this placement refers to; None when it refers to none."""
    ref = binding.spec.placement.placement_ref if binding.spec.placement is not None else None
    if ref is None:
        return None
    pages = view.all(PlacementDecision, ref.namespace or binding.namespace)
    label = "cluster.open-cluster-management.io/placement"
    mine = [page.status for page in pages if page.metadata.labels.get(label) == ref.name]
    return [decision.cluster_name for status in mine if status is not None for decision in status.decisions]


def farewell(binding: Binding) -> Iterator[Note]:
    kind = "clusterResourceBinding" if marks.cluster_wide(binding) else "resourceBinding"
    place = f"{binding.namespace}/{binding.name}" if binding.namespace else binding.name
    for about in (marks.ref_of(binding), marks.template_ref(binding)):
        yield Note(
            about, "ScheduleBindingFailed", f"skip schedule deleting {kind}: {place}", source(binding), "Warning"
        )


def source(binding: Binding) -> str:
    return binding.spec.scheduler_name or "default-scheduler"


def outcome(binding: Binding, decision: Decision, view: View) -> Iterator[Wish]:
    """What the decision changes in the binding, and what is told about it."""
    yield Remember("decision", marks.ref_of(binding), decision)
    placed = decided(binding, decision)
    moved = placed.spec != binding.spec
    status = status_after(placed, decision, view, moved=moved)
    repeats = view.profile.name == "upstream"
    news = moved or placed.metadata != binding.metadata or meaning(status) != meaning(binding.status) or repeats
    if news:
        yield placed.but(status=status)
        yield from notes(binding, decision)
    if decision.retry:
        yield Again(patience(decision, view))


def decided(binding: Binding, decision: Decision) -> Binding:
    """The binding with the result in it; a decision that failed for lack of room changes nothing."""
    if not decision.ok and not decision.clears:
        return binding
    annotation = {marks.APPLIED_PLACEMENT: msgspec.json.encode(binding.spec.placement).decode()}
    return binding.but(
        metadata=binding.metadata.but(annotations=binding.metadata.annotations | annotation),
        spec=binding.spec.but(clusters=decision.targets),
    )


def status_after(binding: Binding, decision: Decision, view: View, *, moved: bool) -> BindingStatus:
    now = view.now.replace(microsecond=0)
    verdict, reason, message = decision.condition
    said = Condition(type="Scheduled", status=verdict, reason=reason, message=message, last_transition_time=now)
    status = binding.status.but(conditions=marks.with_condition(binding.status.conditions, said))
    if not decision.ok:
        return status
    stamp = binding.spec.reschedule_triggered_at
    return status.but(
        # Our own write of spec.clusters raises the generation by one, and it has been looked at.
        scheduler_observed_generation=binding.metadata.generation + (1 if moved else 0),
        scheduler_observing_affinity_name=decision.affinity_name,
        last_scheduled_time=max(now, stamp) if stamp is not None else now,
    )


def meaning(status: BindingStatus) -> BindingStatus:
    """Without the time: a decision that only confirms the last one is not worth a write."""
    return status.but(last_scheduled_time=None)


def patience(decision: Decision, view: View) -> float:
    reason = decision.condition[1]
    if reason in ("Unschedulable", "NoClusterFit"):
        return UNSCHEDULABLE_SECONDS
    return LONGEST_BACKOFF_SECONDS


def notes(binding: Binding, decision: Decision) -> Iterator[Note]:
    abouts = (marks.ref_of(binding), marks.template_ref(binding))
    groups = [term.affinity_name for term in decision.ask.plan.groups]
    for tried in decision.tried:
        if tried.failure is not None:
            text = (
                f"failed to schedule {marks.binding_text(binding)} with clusterAffiliates "
                f"index({groups.index(tried.affinity_name)}): {tried.failure.message}"
            )
            for about in abouts:
                yield Note(about, "ScheduleBindingFailed", text, source(binding), "Warning")
    for about in abouts:
        if decision.ok:
            colon = "" if marks.cluster_wide(binding) else ":"
            shares = ", ".join(f"{name}:{replicas}" for name, replicas in decision.clusters)
            text = f"Binding has been scheduled successfully. Result{colon} {{{shares}}}"
            yield Note(about, "ScheduleBindingSucceed", text, source(binding))
        else:
            yield Note(about, "ScheduleBindingFailed", decision.condition[2], source(binding), "Warning")
