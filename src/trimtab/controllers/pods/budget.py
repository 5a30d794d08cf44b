"""Status of DisruptionBudgets over the pods of a cluster: what each allows now, and its limits after policy floors."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from trimtab.api.duration import parse_duration
from trimtab.api.kind import key_of
from trimtab.api.kinds.disruption import (
    DisruptionBudget,
    DisruptionBudgetStatus,
    DisruptionPolicy,
    EffectiveBudget,
    PriorityOrder,
)
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Condition, Key
from trimtab.api.wording import plural
from trimtab.controllers import well_known
from trimtab.controllers.conditions import (
    find_condition,
    is_condition_true,
    with_condition,
    with_kstatus_conditions,
)
from trimtab.controllers.contract import Effect, RecordEvent, RequeueAfter, Trigger, View, spec_differs
from trimtab.controllers.pods.owners import controllers_in
from trimtab.controllers.pods.registry import member_controller
from trimtab.decide.pods.budgets.budget import DELETION_DEADLINE, MAX_IN_FLIGHT_TIME, BudgetLimit
from trimtab.decide.pods.budgets.budget_floors import BudgetContext, budget_with_floors, floors_for
from trimtab.decide.pods.budgets.budget_status import NamespacePods, covered_pod_of, desired_pods, next_own_status
from trimtab.decide.pods.budgets.pod_budgets import (
    ALLOWED_CONDITION,
    SUPERSEDED_CONDITION,
    SYNC_FAILED,
    PodBudget,
    annotated_rate,
    selects,
)
from trimtab.decide.pods.budgets.unused_charges import (
    UNUSED_AFTER,
    uncharged_evictions,
    with_uncharged,
    without_unused_charges,
)
from trimtab.decide.pods.priority import priority_ranks

DEFAULT_BUDGET_LABEL = "trimtab.dev/default-budget"
"""Label of budgets that were created from the policy for workloads without a budget."""
FLOOR_LABEL = "trimtab.dev/floor-of"
"""Label of PodDisruptionBudgets that were created for a DisruptionBudget: its name."""
SETTLED_SECONDS = 5.0
RATE_EXCEEDED = "RateExceeded"


def budgets_selecting_pod(old: Pod | None, new: Pod | None, view: View) -> Iterator[Key]:
    pod = new or old
    for budget in view.all(DisruptionBudget, pod.namespace) if pod else ():
        if any(version is not None and selects(budget, version) for version in (old, new)):
            yield key_of(budget)


def default_budgets_beside(old: PodBudget | None, new: PodBudget | None, view: View) -> Iterable[Key]:
    """Wake default budgets: a budget of a user may supersede them."""
    one = new or old
    if one is not None and spec_differs(old, new) and DEFAULT_BUDGET_LABEL not in one.metadata.labels:
        yield from (
            key_of(budget)
            for budget in view.all(DisruptionBudget, one.namespace)
            if DEFAULT_BUDGET_LABEL in budget.metadata.labels
        )


def every_budget(
    old: DisruptionPolicy | PriorityOrder | None, new: DisruptionPolicy | PriorityOrder | None, view: View
) -> Iterable[Key]:
    if spec_differs(old, new):
        yield from (key_of(budget) for budget in view.all(DisruptionBudget))


@member_controller(
    DisruptionBudget,
    name="pod-budget",
    writes=["status"],
    triggers=[
        Trigger(Pod, budgets_selecting_pod),
        Trigger(PodDisruptionBudget, default_budgets_beside),
        Trigger(DisruptionBudget, default_budgets_beside),
        Trigger(DisruptionPolicy, every_budget),
        Trigger(PriorityOrder, every_budget),
    ],
)
def pod_budget(budget: DisruptionBudget, view: View) -> Iterator[Effect]:
    if budget.spec.target == "Workloads":
        return
    pods_and_controllers = NamespacePods(view.all(Pod, budget.namespace), controllers_in(budget.namespace, view))
    limit = BudgetLimit(budget.spec.min_available, budget.spec.max_unavailable)
    effective = effective_budget(budget, limit, pods_and_controllers, view)
    pods = [pod for pod in pods_and_controllers.pods if selects(budget, pod)]
    uncharged = uncharged_evictions(budget, pods)
    charged = budget.but(status=with_uncharged(without_unused_charges(budget, pods, view.now), uncharged, view.now))
    status = next_own_status(charged, pods_and_controllers, effective, view.now)
    status = status.but(conditions=with_superseded(budget.but(status=status), view))
    status = status.but(conditions=with_readiness(status.conditions, view))
    status = status.but(conditions=with_rate_exceeded(budget.but(status=status), view))
    if status != budget.status:
        yield budget.but(status=status)
    if uncharged and is_condition_true(status.conditions, RATE_EXCEEDED):
        names = ", ".join(pod.name for pod in uncharged)
        message = f"evicted without a charge: {names}; {rate_text(status)}"
        yield RecordEvent(well_known.ref_of(budget), RATE_EXCEEDED, message, "trimtab-pod-budget", "Warning")
    waits = list(_seconds_until_changes(budget.but(status=status), view.now))
    if waits:
        yield RequeueAfter(max(0.0, min(waits)) + 0.001)


def effective_budget(
    budget: PodBudget, limit: BudgetLimit, pods_and_controllers: NamespacePods, view: View
) -> EffectiveBudget:
    """The limits after the floors of the policy."""
    policy = view.get(DisruptionPolicy, "", "default")
    rate = budget.spec.rate if isinstance(budget, DisruptionBudget) else annotated_rate(budget)
    if policy is None or not policy.spec.floors:
        return EffectiveBudget(min_available=limit.min_available, max_unavailable=limit.max_unavailable, rate=rate)
    pods = [pod for pod in pods_and_controllers.pods if selects(budget, pod)]
    order = priority_ranks(view.all(PriorityClass), view.get(PriorityOrder, "", "default"))
    namespace = view.get(Namespace, "", budget.namespace)
    covered = [covered_pod_of(pod) for pod in pods]
    expected = desired_pods(covered, pods_and_controllers.controllers) if limit.follows_scale else len(pods)
    setting = BudgetContext(
        namespace.metadata.labels if namespace else {}, max((order.rank_of(pod) for pod in pods), default=0), expected
    )
    values = {one.name: order.by_name.get(one.name, one.value) for one in view.all(PriorityClass)}
    return budget_with_floors(limit, rate, floors_for(policy, setting, values), expected)


def with_superseded(budget: DisruptionBudget, view: View) -> tuple[Condition, ...]:
    """A default budget is superseded by a budget that a user created for the same pods."""
    conditions = budget.status.conditions
    if DEFAULT_BUDGET_LABEL not in budget.metadata.labels:
        return conditions
    pods = [pod for pod in view.all(Pod, budget.namespace) if selects(budget, pod)]
    superseding = next(
        (other.name for other in user_budgets_beside(budget, view) if selects_same_pods(budget, other, pods)), None
    )
    condition = Condition(
        type=SUPERSEDED_CONDITION,
        status="True" if superseding else "False",
        reason="HasOtherBudget" if superseding else "NoOtherBudget",
        message=f"{superseding} selects the same pods" if superseding else "",
        last_transition_time=view.now.replace(microsecond=0),
        observed_generation=budget.metadata.generation,
    )
    return with_condition(conditions, condition)


def with_readiness(conditions: tuple[Condition, ...], view: View) -> tuple[Condition, ...]:
    """A budget that allows nothing now is in effect nevertheless; one whose pods cannot be counted is not."""
    allowing = find_condition(conditions, ALLOWED_CONDITION)
    if allowing is not None and allowing.reason == SYNC_FAILED:
        return with_kstatus_conditions(conditions, SYNC_FAILED, allowing.message, view, fault=True)
    return with_kstatus_conditions(conditions, "BudgetEvaluated", "", view)


def with_rate_exceeded(budget: DisruptionBudget, view: View) -> tuple[Condition, ...]:
    """RateExceeded while the period contains more disruptions than allowed, because some were not charged."""
    rate, conditions = budget.status.rate, budget.status.conditions
    is_exceeded = rate is not None and rate.in_window > rate.limit
    if not is_exceeded and find_condition(conditions, RATE_EXCEEDED) is None:
        return conditions
    condition = Condition(
        type=RATE_EXCEEDED,
        status="True" if is_exceeded else "False",
        reason="UnchargedEvictions" if is_exceeded else "WithinRate",
        message=rate_text(budget.status) if is_exceeded else "",
        last_transition_time=view.now.replace(microsecond=0),
        observed_generation=budget.metadata.generation,
    )
    return with_condition(conditions, condition)


def rate_text(status: DisruptionBudgetStatus) -> str:
    rate = status.rate
    return f"{plural(rate.in_window, 'disruption')} in a period that allows {rate.limit}" if rate is not None else ""


def user_budgets_beside(budget: DisruptionBudget, view: View) -> list[PodBudget]:
    found: list[PodBudget] = [
        one for one in view.all(PodDisruptionBudget, budget.namespace) if FLOOR_LABEL not in one.metadata.labels
    ]
    own = view.all(DisruptionBudget, budget.namespace)
    return [
        *found,
        *(one for one in own if DEFAULT_BUDGET_LABEL not in one.metadata.labels and one.spec.target != "Workloads"),
    ]


def selects_same_pods(budget: PodBudget, other: PodBudget, pods: Iterable[Pod]) -> bool:
    """Whether `other` selects every pod of a default budget, or, without pods, the labels it was created for."""
    labels = (budget.spec.selector or LabelSelector()).match_labels
    known = [pod.metadata.labels for pod in pods] or [labels]
    return other.spec.selector is not None and all(other.spec.selector.matches(one) for one in known)


def _seconds_until_changes(budget: DisruptionBudget, now: datetime) -> Iterator[float]:
    """Seconds until the times at which the status changes without an event."""
    status = budget.status
    times = [at + DELETION_DEADLINE for at in status.disrupted_pods.values()]
    times += [at + UNUSED_AFTER for at in status.disrupted_pods.values() if at + UNUSED_AFTER > now]
    times += [entry.since + MAX_IN_FLIGHT_TIME for entry in status.in_flight if entry.since is not None]
    if status.rate is not None and status.effective is not None and status.effective.rate is not None:
        period = parse_duration(status.effective.rate.period)
        times += [entry.at + period for entry in status.rate.recent if entry.at is not None]
    if status.next_allowed_at is not None:
        times.append(status.next_allowed_at)
    if status.in_flight:
        times.append(now + timedelta(seconds=SETTLED_SECONDS))
    if budget.spec.windows:
        times.append(now + timedelta(seconds=60))
    yield from ((time - now).total_seconds() for time in times)
