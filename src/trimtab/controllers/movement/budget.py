"""Status of DisruptionBudgets over workloads: what each allows now, moves in flight, and when the next may start."""

from collections.abc import Iterable, Iterator

from trimtab.api.duration import parse_duration
from trimtab.api.kind import key_of, kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import (
    DisruptionBudget,
    DisruptionBudgetStatus,
    EffectiveBudget,
    InFlightDisruption,
    Move,
    RateStatus,
    UnavailableReplicas,
)
from trimtab.api.kinds.ocm_work import ManifestWork
from trimtab.api.kinds.work import Binding, ResourceBinding
from trimtab.api.value import Condition, Key
from trimtab.api.wording import plural
from trimtab.controllers.clusters.readiness import is_ready
from trimtab.controllers.conditions import with_condition, with_kstatus_conditions
from trimtab.controllers.contract import Effect, RequeueAfter, Trigger, View, controller
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.ocm import workset_budgets
from trimtab.decide.gate import Availability, BudgetState, budget_state, disruptions_within

SETTLING_SECONDS = 5.0
"""How long a granted move counts before the binding must show it."""


def budgets_covering_binding(old: Binding | None, new: Binding | None, view: View) -> Iterable[Key]:
    binding = new or old
    if binding is None or (old is not None and new is not None and has_same_counts(old, new)):
        return
    for budget in view.all(DisruptionBudget, binding.namespace):
        if binding_moves.is_workload_budget(budget):
            yield key_of(budget)


def has_same_counts(old: Binding, new: Binding) -> bool:
    return (
        old.spec.clusters == new.spec.clusters
        and old.spec.replicas == new.spec.replicas
        and old.spec.graceful_eviction_tasks == new.spec.graceful_eviction_tasks
        and old.status.aggregated_status == new.status.aggregated_status
        and old.status.holds == new.status.holds
    )


def budgets_covering_workset(old: ManifestWork | None, new: ManifestWork | None, view: View) -> Iterable[Key]:
    work = new or old or ManifestWork()
    if old is not None and new is not None and workset_budgets.is_serving(old) == workset_budgets.is_serving(new):
        return
    for subject in workset_budgets.sets_of(work, view):
        for budget in view.all(DisruptionBudget, subject.namespace):
            if binding_moves.is_workload_budget(budget):
                yield key_of(budget)


def all_budgets(old: Cluster | None, new: Cluster | None, view: View) -> Iterable[Key]:
    if old is None or new is None or is_ready(old) != is_ready(new):
        yield from (key_of(budget) for budget in view.all(DisruptionBudget) if binding_moves.is_workload_budget(budget))


def budgets_of_finished_move(old: Move | None, new: Move | None, view: View) -> Iterable[Key]:
    """The budgets that the move was charged to, when the log has just recorded its outcome."""
    if new is None or not new.status.outcome or (old is not None and old.status.outcome):
        return
    for use in new.spec.budgets:
        yield Key(kind_of(DisruptionBudget).id, use.namespace, use.name)


@controller(
    DisruptionBudget,
    writes=["status"],
    triggers=[
        Trigger(ResourceBinding, budgets_covering_binding),
        Trigger(ManifestWork, budgets_covering_workset),
        Trigger(Cluster, all_budgets),
        Trigger(Move, budgets_of_finished_move),
    ],
    resumes=True,
)
def budget(subject: DisruptionBudget, view: View) -> Iterator[Effect]:
    if not binding_moves.is_workload_budget(subject):
        return
    pruned = without_expired_entries(subject, view)
    availability = binding_moves.availability_of(pruned, view)
    state = budget_state(pruned, availability, view.now)
    status = status_of(pruned, availability, state, view)
    if status != subject.status:
        yield subject.but(status=status)
    waits = [SETTLING_SECONDS] if status.in_flight else []
    if state.next_at is not None:
        waits.append((state.next_at - view.now).total_seconds())
    if pruned.spec.rate is not None and pruned.status.rate is not None and pruned.status.rate.recent:
        oldest = min(entry.at for entry in pruned.status.rate.recent if entry.at is not None)
        waits.append((oldest + parse_duration(pruned.spec.rate.period) - view.now).total_seconds())
    if pruned.spec.windows and state.is_open:
        waits.append(60.0)
    if waits:
        yield RequeueAfter(max(0.0, min(waits)) + 0.001)


def without_expired_entries(subject: DisruptionBudget, view: View) -> DisruptionBudget:
    """The budget without disruptions outside the rate period and without finished moves."""
    subject = binding_moves.without_finished_moves(subject, view)
    in_flight = tuple(
        entry
        for entry in subject.status.in_flight
        if (
            is_work_leaving(entry, subject, view)
            if workset_budgets.is_of_set(entry)
            else is_in_flight(entry, subject, view)
        )
    )
    status = subject.status.but(in_flight=in_flight)
    if subject.spec.rate is not None:
        recent = status.rate.recent if status.rate is not None else ()
        kept = disruptions_within(recent, parse_duration(subject.spec.rate.period), view.now)
        status = status.but(rate=RateStatus(in_window=len(kept), limit=subject.spec.rate.disruptions, recent=kept))
    else:
        status = status.but(rate=None)
    return subject.but(status=status)


def is_work_leaving(entry: InFlightDisruption, subject: DisruptionBudget, view: View) -> bool:
    """A deleted ManifestWork is in flight until it no longer exists."""
    age = view.now - (entry.since or view.now)
    return workset_budgets.is_still_present(entry, subject.namespace, view) and age < binding_moves.MAX_IN_FLIGHT_TIME


def is_in_flight(entry: InFlightDisruption, subject: DisruptionBudget, view: View) -> bool:
    """A granted move is finished when the log says so.

    Without an entry in the log, it is finished when nothing is held for it and the workload has all its replicas.
    """
    age = view.now - (entry.since or view.now)
    covered = binding_moves.covered_bindings(subject, view, entry.object)
    if not covered or age >= 2 * binding_moves.MAX_IN_FLIGHT_TIME:
        return False
    binding = covered[-1]
    if any(hold.cluster == entry.from_ for hold in binding.status.holds):
        return True
    if age.total_seconds() < SETTLING_SECONDS:
        return True
    if age >= binding_moves.MAX_IN_FLIGHT_TIME:
        return False
    if is_open_in_log(entry, subject, binding, view):
        return True
    shares = binding_moves.current_placement(binding)
    # A cluster that still reports its old replica count is counted only up to its new share.
    ready = sum(
        min(shares.get(name, n), n) for name, n in binding_moves.ready_replicas_by_cluster(binding, view).items()
    )
    return ready < binding_moves.desired_replicas(binding)


def is_open_in_log(entry: InFlightDisruption, subject: DisruptionBudget, binding: Binding, view: View) -> bool:
    """Whether the log has this move without an outcome; one that the binding does not show has never begun."""
    return any(
        not move.status.outcome and binding_moves.has_begun(move, binding)
        for move in binding_moves.moves_of_charge(entry, subject, view)
    )


def status_of(
    subject: DisruptionBudget, availability: Availability, state: BudgetState, view: View
) -> DisruptionBudgetStatus:
    voluntary = sum(e.replicas for e in subject.status.in_flight if not binding_moves.is_held(e, subject, view))
    missing = max(0, availability.desired - availability.available)
    status = subject.status.but(
        observed_generation=subject.metadata.generation,
        allowed_now=state.disruptions_allowed(availability.desired),
        next_allowed_at=state.next_at,
        desired=availability.desired,
        available=availability.available,
        unavailable=UnavailableReplicas(voluntary=min(voluntary, missing), involuntary=max(0, missing - voluntary)),
        effective=EffectiveBudget(
            min_available=subject.spec.min_available,
            max_unavailable=subject.spec.max_unavailable,
            rate=subject.spec.rate,
        ),
    )
    return status.but(conditions=conditions_of(subject, status, state, view))


def conditions_of(
    subject: DisruptionBudget, status: DisruptionBudgetStatus, state: BudgetState, view: View
) -> tuple[Condition, ...]:
    """Ready says whether the budget is in effect; DisruptionsAllowed says whether it allows a move now.

    They are separate because roll-out tools wait for Ready, and a rate that is used up for now is not a failure.
    """
    refusal = state.refusal(view.now, replacement_first=True)
    conditions = with_kstatus_conditions(
        subject.status.conditions, "BudgetEvaluated", format_availability(status, state), view
    )
    allowing = Condition(
        type="DisruptionsAllowed",
        status="False" if refusal else "True",
        reason=refusal.code if refusal else "BudgetAvailable",
        message=refusal.message if refusal else f"{plural(len(status.in_flight), 'move')} in flight",
        last_transition_time=view.now.replace(microsecond=0),
    )
    return with_condition(conditions, allowing)


def format_availability(status: DisruptionBudgetStatus, state: BudgetState) -> str:
    text = f"{status.available} of {status.desired} replicas are available"
    full = state.replicas == 0 and not state.missing
    return f"{text}; a replacement must be ready before a replica moves" if full else text
