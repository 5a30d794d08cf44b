"""Moves a workload to clusters with better scores, if they are better by a margin for a minimum time."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

import msgspec

from trimtab.api.duration import parse_duration
from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm_placement import AddOnPlacementScore
from trimtab.api.kinds.policy import Placement, ScoreHysteresis
from trimtab.api.kinds.work import BetterPlacement, Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.value import Key
from trimtab.controllers import well_known
from trimtab.controllers.contract import Effect, Index, RequeueAfter, Trigger, View, controller
from trimtab.controllers.movement import state
from trimtab.controllers.placement_requests import request_for
from trimtab.controllers.propagation.scheduling.candidates import placement_candidates
from trimtab.decide.fleet import Fleet
from trimtab.decide.karmada import BindingDecision, decide
from trimtab.decide.ocm.snapshot import score_key
from trimtab.decide.pipeline import PlacementAttempt
from trimtab.decide.request import PlacementRequest

WORST_TOTAL = -100.0
BATCH = 200
DEFAULT_HYSTERESIS = ScoreHysteresis()


def score_resources_of(binding: Binding) -> list[str]:
    """The AddOnPlacementScores by which this binding ranks clusters."""
    policy = (binding.spec.placement or Placement()).prioritizer_policy
    if policy is None:
        return []
    coordinates = [config.score_coordinate for config in policy.configurations]
    return sorted({one.add_on.resource_name for one in coordinates if one is not None and one.add_on is not None})


BINDINGS_BY_SCORE = Index("bindings ranked by a score", ResourceBinding, score_resources_of)
CLUSTER_BINDINGS_BY_SCORE = Index("cluster bindings ranked by a score", ClusterResourceBinding, score_resources_of)


def bindings_ranked_by(old: AddOnPlacementScore | None, new: AddOnPlacementScore | None, view: View) -> Iterable[Key]:
    if old is not None and new is not None and old.status == new.status:
        return
    name = (new or old or AddOnPlacementScore()).name
    yield from map(key_of, view.by_index(BINDINGS_BY_SCORE, name))
    yield from map(key_of, view.by_index(CLUSTER_BINDINGS_BY_SCORE, name))


def concerns_scores(old: Binding | None, new: Binding) -> bool:
    if (new.spec.placement or Placement()).prioritizer_policy is None:
        return False
    return (
        old is None
        or old.metadata.generation != new.metadata.generation
        or old.status.last_scheduled_time != new.status.last_scheduled_time
        or old.status.holds != new.status.holds
    )


@controller(
    *well_known.BINDINGS,
    writes=["spec.rescheduleTriggeredAt", f"metadata.annotations[{well_known.REQUESTED_BY}]", "status.betterPlacement"],
    predicate=concerns_scores,
    triggers=[Trigger(AddOnPlacementScore, bindings_ranked_by)],
    batch=BATCH,
    resumes=True,
)
def score_moves(bindings: Sequence[Binding], view: View) -> Iterator[tuple[Binding, Effect]]:
    fleet = view.fleet
    for binding in bindings:
        if is_settled(binding):
            yield from ((binding, effect) for effect in compare_scores(binding, fleet, view))


def compare_scores(binding: Binding, fleet: Fleet[Cluster], view: View) -> Iterator[Effect]:
    """Compare the current placement with what a fresh decision would select."""
    better = better_decision(binding, fleet, view)
    before = binding.status.better_placement
    if better is None:
        if before is not None:
            yield binding.but(status=binding.status.but(better_placement=None))
        yield from requeue_at_score_expiry(binding, fleet, view)
        return
    since = before.since if before is not None and before.since is not None else view.now
    remaining = (since + hysteresis_duration(binding) - view.now).total_seconds()
    if remaining <= 0:
        last = binding.status.last_scheduled_time
        at = view.now.replace(microsecond=0)
        at = at if last is None else max(at, last + timedelta(seconds=1))
        yield state.request(binding, at, "ScoreChange").but(status=binding.status.but(better_placement=None))
        return
    waiting = BetterPlacement(clusters=better.targets, since=since)
    if waiting != before:
        yield binding.but(status=binding.status.but(better_placement=waiting))
    yield RequeueAfter(remaining + 0.001)


def is_settled(binding: Binding) -> bool:
    """Ranked by scores, placed, scheduled for its current generation, and not moving."""
    placement = binding.spec.placement
    if binding.metadata.deletion_timestamp is not None or placement is None or placement.prioritizer_policy is None:
        return False
    decided = binding.status.scheduler_observed_generation == binding.metadata.generation
    return decided and bool(binding.spec.clusters) and not binding.status.holds


def hysteresis_of(binding: Binding) -> ScoreHysteresis:
    return (binding.spec.placement or Placement()).score_hysteresis or DEFAULT_HYSTERESIS


def hysteresis_duration(binding: Binding) -> timedelta:
    return parse_duration(hysteresis_of(binding).for_)


def better_decision(binding: Binding, fleet: Fleet[Cluster], view: View) -> BindingDecision | None:
    """What a fresh decision would select, if its total is better by the margin."""
    request = request_for(binding, view, placement_candidates(binding, view))
    decision = decide(msgspec.structs.replace(request, fresh=True), fleet, view.profile)
    if not decision.ok or decision.clusters == sorted(request.placed):
        return None
    today = msgspec.structs.replace(request, fresh=False, group=decision.group if request.placement.groups else -1)
    totals = totals_of(today, fleet, view)
    gain = mean_total(decision.clusters, totals) - mean_total(request.placed, totals)
    return decision if gain >= hysteresis_of(binding).margin else None


def totals_of(request: PlacementRequest, fleet: Fleet[Cluster], view: View) -> dict[str, float]:
    """The total of every cluster, from -100 to 100."""
    weights = sum(abs(one.weight) for one in request.placement.prioritizers)
    total = PlacementAttempt(request, fleet, view.profile).total
    if total is None or not weights:
        return {}
    return {name: value / weights for name, value in zip(fleet.names, total.tolist(), strict=True)}


def mean_total(clusters: Iterable[tuple[str, int]], totals: dict[str, float]) -> float:
    """The mean total over replicas; a cluster that no longer exists has the worst total."""
    shares = [(name, max(replicas, 1)) for name, replicas in clusters]
    replicas = sum(n for _, n in shares)
    return sum(totals.get(name, WORST_TOTAL) * n for name, n in shares) / replicas if replicas else WORST_TOTAL


def requeue_at_score_expiry(binding: Binding, fleet: Fleet[Cluster], view: View) -> Iterator[RequeueAfter]:
    """Requeue when the next score expires: expiry changes totals and causes no event."""
    ends = [
        note.until
        for resource in score_resources_of(binding)
        for note in fleet.external_values.get(score_key(resource), {}).values()
        if note.until is not None and note.until >= view.now
    ]
    if ends and view.profile.expired_scores_requeue:
        yield RequeueAfter((min(ends) - view.now).total_seconds() + 0.001)
