"""Removes works of a ManifestWorkReplicaSet from clusters: once their replacements serve, within budgets."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import (
    BudgetUse,
    DisruptionBudget,
    InFlightDisruption,
    Move,
    MovedObject,
    MoveSpec,
    MoveStatus,
    MoveTarget,
)
from trimtab.api.kinds.ocm_work import ManifestWork, ManifestWorkReplicaSet
from trimtab.api.value import Meta
from trimtab.controllers import well_known
from trimtab.controllers.contract import Delete, Effect, View
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.ocm import workset_budgets
from trimtab.controllers.propagation.execute import is_ready
from trimtab.controllers.settings import setting
from trimtab.decide.gate import GateRefusal, Transfer, admit, budget_state, charge_budget

CAUSE = "ScoreChange"
BY = "trimtab-mover"
SINCE = "trimtab.dev/leaving-since"
"""Annotation of a work: since when no placement of its set selects its cluster."""
BLOCKED_SECONDS = 15.0


class Departures(NamedTuple):
    """The effects that remove works now, and why the others remain."""

    wishes: tuple[Effect, ...] = ()
    refusal: GateRefusal | None = None
    staying: int = 0

    def seconds_to_wait(self, now: datetime) -> float | None:
        if self.refusal is None:
            return None
        until = self.refusal.until
        return BLOCKED_SECONDS if until is None else max(0.0, (until - now).total_seconds()) + 0.001


def departures(
    subject: ManifestWorkReplicaSet, unwanted: Sequence[ManifestWork], coming: Sequence[str], slots: int, view: View
) -> Departures:
    """`pending`: selected clusters that do not serve yet; `slots`: how many works may be removed at once."""
    leaving = [work for work in unwanted if work.metadata.deletion_timestamp is None]
    if not view.profile.works_removed_within_budgets:
        return Departures(tuple(map(Delete, leaving)))
    idle = [work for work in leaving if not workset_budgets.serves(work) or not answers(work.namespace, view)]
    serving = [work for work in leaving if work not in idle]
    annotated = tuple(noted(work, view) for work in serving if SINCE not in work.metadata.annotations)
    waiting = held_back(serving, len(coming), view)
    in_flight = len(unwanted) - len(leaving)
    movable = [work for work in serving if work not in waiting][: max(0, slots - in_flight)]
    budgets = budgets_of(subject, view)
    gates = [budget_state(budget, binding_moves.availability_of(budget, view), view.now) for budget in budgets]
    flows = [Transfer(work.namespace, 1, tuple((name, 1) for name in coming[:1])) for work in movable]
    admitted = admit(flows, gates, view.now, replacement_first=False)
    sources = {flow.source for flow in admitted.transfers}
    removed = [work for work in movable if work.namespace in sources]
    debits = [charged(subject, budget, admitted.transfers, view) for budget in budgets if admitted.transfers]
    moves = [entry(subject, work, budgets, view) for work in removed]
    refusal = admitted.refusal or why_held(waiting, len(serving) - len(movable), view)
    return Departures(
        (*annotated, *debits, *moves, *map(Delete, (*idle, *removed))), refusal, len(serving) - len(removed)
    )


def answers(cluster: str, view: View) -> bool:
    found = view.get(Cluster, "", cluster)
    return found is not None and is_ready(found)


def noted(work: ManifestWork, view: View) -> ManifestWork:
    annotations = work.metadata.annotations | {SINCE: view.now.isoformat()}
    return work.but(metadata=work.metadata.but(annotations=annotations))


def staying(work: ManifestWork) -> ManifestWork:
    """The work of a cluster that is selected (again)."""
    kept = {key: value for key, value in work.metadata.annotations.items() if key != SINCE}
    return work.but(metadata=work.metadata.but(annotations=kept))


def leaving_since(work: ManifestWork, view: View) -> datetime:
    text = work.metadata.annotations.get(SINCE)
    return datetime.fromisoformat(text) if text else view.now


def patience(view: View) -> timedelta:
    return timedelta(seconds=int(setting(view, "move-timeout-seconds")))


def held_back(serving: Sequence[ManifestWork], coming: int, view: View) -> list[ManifestWork]:
    """One work per replacement that does not serve yet; not after the timeout, since it may never serve."""
    young = [work for work in serving if view.now < leaving_since(work, view) + patience(view)]
    return young[:coming]


def why_held(held: Sequence[ManifestWork], waiting: int, view: View) -> GateRefusal | None:
    if held:
        names = ", ".join(work.namespace for work in held)
        until = min(leaving_since(work, view) for work in held) + patience(view)
        return GateRefusal(
            "WaitingForReplacement", f"the works in {names} stay until those that replace them serve", until
        )
    return GateRefusal("OneAfterAnother", "the rest follows when these are gone") if waiting else None


def budgets_of(subject: ManifestWorkReplicaSet, view: View) -> list[DisruptionBudget]:
    return [
        budget
        for budget in view.all(DisruptionBudget, subject.namespace)
        if binding_moves.is_workload_budget(budget)
        and subject in workset_budgets.covered_sets(budget, view)
        and (not budget.spec.reasons or CAUSE in budget.spec.reasons)
    ]


def charged(
    subject: ManifestWorkReplicaSet, budget: DisruptionBudget, flows: Sequence[Transfer], view: View
) -> DisruptionBudget:
    entries = [
        InFlightDisruption(
            object=workset_budgets.object_of(subject),
            replicas=1,
            from_=flow.source,
            since=view.now,
            by=BY,
            reason=CAUSE,
        )
        for flow in flows
    ]
    return charge_budget(budget, entries, view.now)


def entry(subject: ManifestWorkReplicaSet, work: ManifestWork, budgets: Sequence[DisruptionBudget], view: View) -> Move:
    """The Move that records the removal, written before the work is deleted."""
    about = MovedObject(
        api_version=kind_of(subject).api_version,
        kind=workset_budgets.KIND,
        namespace=subject.namespace,
        name=subject.name,
    )
    return Move(
        metadata=Meta(
            namespace=subject.namespace,
            name=f"{subject.name}.{well_known.permanent_id(work.metadata.uid)[:8]}.{work.namespace}"[
                : binding_moves.MAX_NAME_LENGTH
            ],
            labels={"trimtab.dev/cause": CAUSE},
        ),
        spec=MoveSpec(
            object=about,
            cause=CAUSE,
            by=BY,
            from_=work.namespace,
            to=tuple(MoveTarget(name=one.namespace, replicas=1) for one in newcomers(subject, view)),
            replicas=1,
            mode="ReplacementFirst",
            budgets=tuple(BudgetUse(name=b.name, namespace=b.namespace, disruptions=1) for b in budgets),
        ),
        status=MoveStatus(started=view.now),
    )


def newcomers(subject: ManifestWorkReplicaSet, view: View) -> list[ManifestWork]:
    """The works that were created since the first work was to be removed."""
    works = workset_budgets.works_of(subject, view)
    since = min((leaving_since(work, view) for work in works if SINCE in work.metadata.annotations), default=view.now)
    return [
        work
        for work in works
        if work.metadata.creation_timestamp is not None
        and work.metadata.creation_timestamp >= since.replace(microsecond=0)
    ]
