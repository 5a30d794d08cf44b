"""Removes works of a ManifestWorkReplicaSet from clusters: once their replacements serve, within budgets."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget, InFlightDisruption, Move, MovedObject
from trimtab.api.kinds.ocm_work import ManifestWork, ManifestWorkReplicaSet
from trimtab.api.value import Key, Meta
from trimtab.controllers import well_known
from trimtab.controllers.clusters.departure import is_drained, is_forced_out
from trimtab.controllers.clusters.readiness import is_ready
from trimtab.controllers.contract import Delete, Effect, View
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.movement.freeze import current_freeze
from trimtab.controllers.movement.move_reasons import MoveReason, reason_of_unselected
from trimtab.controllers.ocm import workset_budgets
from trimtab.controllers.settings import setting
from trimtab.decide.gate import GateRefusal, Transfer, admit, budget_state, charge_budget

SELECTION_CHANGED, DRAIN = "ScoreChange", "Drain"
"""Causes: no placement selects the cluster any more, or the cluster is being emptied.
Budgets select removals by them; the log names the cause of each."""
BY = "trimtab-mover"
LEAVING_SINCE_ANNOTATION = "trimtab.dev/unselected-since"
"""Annotation of a work: since when no placement of its set selects its cluster."""
BLOCKED_SECONDS = 15.0


class WorkRemovals(NamedTuple):
    """The effects that remove works now, and why the others remain."""

    effects: tuple[Effect, ...] = ()
    refusal: GateRefusal | None = None
    remaining: int = 0

    def seconds_until_retry(self, now: datetime) -> float | None:
        if self.refusal is None:
            return None
        until = self.refusal.until
        return BLOCKED_SECONDS if until is None else max(0.0, (until - now).total_seconds()) + 0.001


def plan_removals(
    subject: ManifestWorkReplicaSet, unwanted: Sequence[ManifestWork], pending: Sequence[str], slots: int, view: View
) -> WorkRemovals:
    """`pending`: selected clusters that do not serve yet; `slots`: how many works may be removed at once."""
    leaving = [work for work in unwanted if work.metadata.deletion_timestamp is None]
    if leaving and (frozen := current_freeze(view)) is not None:
        return WorkRemovals((), frozen, len(leaving))
    if not view.profile.works_removed_within_budgets:
        return WorkRemovals(tuple(map(Delete, leaving)))
    last = last_copies(subject, leaving, view)
    leaving = [work for work in leaving if work not in last]
    idle = [
        work for work in leaving if not workset_budgets.is_serving(work) or not is_cluster_ready(work.namespace, view)
    ]
    serving = [work for work in leaving if work not in idle]
    annotated = tuple(
        with_leaving_since(work, view) for work in serving if LEAVING_SINCE_ANNOTATION not in work.metadata.annotations
    )
    waiting = works_awaiting_replacement(serving, len(pending), view)
    in_flight = sum(work.metadata.deletion_timestamp is not None for work in unwanted)
    movable = [work for work in serving if work not in waiting][: max(0, slots - in_flight)]
    cause = DRAIN if any(is_emptied(work.namespace, view) for work in movable) else SELECTION_CHANGED
    budgets = budgets_of(subject, cause, view)
    gates = [budget_state(budget, binding_moves.availability_of(budget, view), view.now) for budget in budgets]
    flows = [Transfer(work.namespace, 1, tuple((name, 1) for name in pending[:1])) for work in movable]
    admitted = admit(flows, gates, view.now, replacement_first=False)
    sources = {flow.source for flow in admitted.transfers}
    removed = [work for work in movable if work.namespace in sources]
    debits = [
        charge_removals(subject, budget, admitted.transfers, cause, view) for budget in budgets if admitted.transfers
    ]
    moves = [move_record(subject, work, budgets, cause, view) for work in removed]
    refusal = (
        admitted.refusal or wait_refusal(waiting, len(serving) - len(movable), view) or last_copy_refusal(last, view)
    )
    return WorkRemovals(
        (*annotated, *debits, *moves, *map(Delete, (*idle, *removed))), refusal, len(serving) - len(removed) + len(last)
    )


def is_emptied(cluster: str, view: View) -> bool:
    """Whether the cluster is being drained, or leaves the fleet."""
    return is_drained(view.get(Cluster, "", cluster), view.profile)


def last_copies(subject: ManifestWorkReplicaSet, leaving: Sequence[ManifestWork], view: View) -> Sequence[ManifestWork]:
    """The works in clusters that are being emptied, while no work of the set serves anywhere else.

    A Placement that no longer selects the cluster was not changed by its author, so it is no wish to remove the work.
    """
    emptied = [work for work in leaving if is_emptied(work.namespace, view)]
    leaving_names = {work.namespace for work in leaving}
    serves = any(
        workset_budgets.is_serving(work) and is_cluster_ready(work.namespace, view)
        for work in workset_budgets.works_of(subject, view)
        if work.namespace not in leaving_names
    )
    forced = [work for work in emptied if is_forced_out(view.get(Cluster, "", work.namespace), view.profile)]
    return () if serves else [work for work in emptied if work not in forced]


def last_copy_refusal(last: Sequence[ManifestWork], view: View) -> GateRefusal | None:
    if not last:
        return None
    names = ", ".join(work.namespace for work in last)
    return GateRefusal("LastCopy", f"the works in {names} stay: no work of the set serves in another cluster")


def is_cluster_ready(cluster: str, view: View) -> bool:
    found = view.get(Cluster, "", cluster)
    return found is not None and is_ready(found)


def with_leaving_since(work: ManifestWork, view: View) -> ManifestWork:
    annotations = work.metadata.annotations | {LEAVING_SINCE_ANNOTATION: view.now.isoformat()}
    return work.but(metadata=work.metadata.but(annotations=annotations))


def without_leaving_since(work: ManifestWork) -> ManifestWork:
    """The work of a cluster that is selected (again)."""
    kept = {key: value for key, value in work.metadata.annotations.items() if key != LEAVING_SINCE_ANNOTATION}
    return work.but(metadata=work.metadata.but(annotations=kept))


def leaving_since(work: ManifestWork, view: View) -> datetime:
    text = work.metadata.annotations.get(LEAVING_SINCE_ANNOTATION)
    return datetime.fromisoformat(text) if text else view.now


def replacement_timeout(view: View) -> timedelta:
    return timedelta(seconds=int(setting(view, "move-timeout-seconds")))


def works_awaiting_replacement(serving: Sequence[ManifestWork], pending: int, view: View) -> list[ManifestWork]:
    """One work per replacement that does not serve yet; not after the timeout, since it may never serve."""
    young = [work for work in serving if view.now < leaving_since(work, view) + replacement_timeout(view)]
    return young[:pending]


def wait_refusal(blocked: Sequence[ManifestWork], waiting: int, view: View) -> GateRefusal | None:
    if blocked:
        names = ", ".join(work.namespace for work in blocked)
        until = min(leaving_since(work, view) for work in blocked) + replacement_timeout(view)
        return GateRefusal(
            "WaitingForReplacement", f"the works in {names} remain until their replacements serve", until
        )
    return GateRefusal("WaitingForEarlierMoves", "other works are being removed") if waiting else None


def budgets_of(subject: ManifestWorkReplicaSet, cause: str, view: View) -> list[DisruptionBudget]:
    return [
        budget
        for budget in view.all(DisruptionBudget, subject.namespace)
        if binding_moves.is_workload_budget(budget)
        and subject in workset_budgets.covered_sets(budget, view)
        and (not budget.spec.reasons or cause in budget.spec.reasons)
    ]


def charge_removals(
    subject: ManifestWorkReplicaSet, budget: DisruptionBudget, flows: Sequence[Transfer], cause: str, view: View
) -> DisruptionBudget:
    entries = [
        InFlightDisruption(
            object=workset_budgets.budget_object_name(subject),
            replicas=1,
            from_=flow.source,
            since=view.now,
            by=BY,
            reason=cause,
        )
        for flow in flows
    ]
    return charge_budget(budget, entries, view.now)


def move_record(
    subject: ManifestWorkReplicaSet, work: ManifestWork, budgets: Sequence[DisruptionBudget], cause: str, view: View
) -> Move:
    """The Move that records the removal, written before the work is deleted."""
    about = MovedObject(
        api_version=kind_of(subject).api_version,
        kind=workset_budgets.KIND,
        namespace=subject.namespace,
        name=subject.name,
    )
    refs = tuple(Key("", subject.namespace, ref.name) for ref in subject.spec.placement_refs)
    reason = (
        MoveReason(DRAIN, f"the cluster {work.namespace} is being emptied")
        if cause == DRAIN
        else reason_of_unselected(work.namespace, refs, view)
    )
    name = f"{subject.name}.{well_known.permanent_id(work.metadata.uid)[:8]}.{work.namespace}"
    metadata = Meta(namespace=subject.namespace, name=name[: binding_moves.MAX_NAME_LENGTH])
    to = tuple((one.namespace, 1) for one in replacement_works(subject, view))
    mode = "ReplacementFirst" if to else "AtOnce"
    why = binding_moves.MoveCause(reason.cause, BY, mode, reason.message, tuple(budgets))
    return binding_moves.new_move(about, metadata, Transfer(work.namespace, 1, to), why, view.now)


def replacement_works(subject: ManifestWorkReplicaSet, view: View) -> list[ManifestWork]:
    """The works that were created since the first work was to be removed."""
    works = workset_budgets.works_of(subject, view)
    since = min(
        (leaving_since(work, view) for work in works if LEAVING_SINCE_ANNOTATION in work.metadata.annotations),
        default=view.now,
    )
    return [
        work
        for work in works
        if work.metadata.creation_timestamp is not None
        and work.metadata.creation_timestamp >= since.replace(microsecond=0)
    ]
