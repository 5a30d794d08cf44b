"""Status of budgets over workloads."""

from datetime import datetime, timedelta
from typing import Any

from builders import NOON, binding, cluster, deployment, status_item
from views import FakeView

from trimtab.api.kinds.disruption import (
    BudgetUse,
    BudgetWindow,
    DisruptionBudget,
    DisruptionBudgetSpec,
    DisruptionBudgetStatus,
    DisruptionRate,
    InFlightDisruption,
    Move,
    MovedObject,
    MoveSpec,
    MoveStatus,
    RateStatus,
    RecentDisruption,
)
from trimtab.api.kinds.work import Binding, HeldReplicas, StateBeforeMove, TargetCluster
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Meta
from trimtab.controllers.contract import RequeueAfter
from trimtab.controllers.movement.binding_moves import GENERATION_ANNOTATION
from trimtab.controllers.movement.budget import budget, budgets_of_finished_move

SECOND = timedelta(seconds=1)


def workload_budget(status: DisruptionBudgetStatus | None = None, **spec: Any) -> DisruptionBudget:
    return DisruptionBudget(
        metadata=Meta(name="b", namespace="demo", resource_version="2", generation=1),
        spec=DisruptionBudgetSpec(target="Workloads", selector=LabelSelector()).but(**spec),
        status=status or DisruptionBudgetStatus(),
    )


def web(ready: dict[str, int], **fields: Any) -> Binding:
    items = tuple(status_item(name, status={"readyReplicas": n}) for name, n in ready.items())
    return binding(clusters={"m1": 2, "m2": 2}, status_aggregated_status=items, **fields)


def reconcile(subject: DisruptionBudget, workload: Binding, *clusters: Any, **options: Any) -> tuple[Any, list[float]]:
    fleet = clusters or (cluster("m1"), cluster("m2"))
    effects = list(budget(subject, FakeView([*fleet, workload], raws=[deployment("web")], **options)))
    changed = [effect.status for effect in effects if isinstance(effect, DisruptionBudget)]
    return (changed[-1] if changed else subject.status), [
        effect.seconds for effect in effects if isinstance(effect, RequeueAfter)
    ]


def test_replicas_are_counted_over_all_clusters() -> None:
    status, _ = reconcile(workload_budget(max_unavailable=1), web({"m1": 2, "m2": 1}))
    assert (status.desired, status.available, status.allowed_now) == (4, 3, 0)
    assert (status.unavailable.voluntary, status.unavailable.involuntary) == (0, 1)
    conditions = {c.type: (c.status, c.message) for c in status.conditions}
    assert conditions["Ready"] == (
        "True",
        "3 of 4 replicas are available; a replacement must be ready before a replica moves",
    )
    assert conditions["DisruptionsAllowed"] == ("True", "0 moves in flight")


def test_a_budget_with_too_few_available_replicas_reports_how_many_are_missing() -> None:
    status, _ = reconcile(workload_budget(max_unavailable=1), web({"m1": 2}))
    conditions = {c.type: (c.status, c.message) for c in status.conditions}
    assert conditions["DisruptionsAllowed"] == ("False", "budget b: 1 replica is already missing")
    assert (conditions["Ready"][0], conditions["Reconciling"][0], conditions["Stalled"][0]) == (
        "True",
        "False",
        "False",
    )


def test_replicas_in_a_cluster_that_is_not_ready_are_not_available() -> None:
    status, _ = reconcile(
        workload_budget(max_unavailable="50%"), web({"m1": 2, "m2": 2}), cluster("m1"), cluster("m2", ready="False")
    )
    assert (status.available, status.allowed_now) == (2, 0)


def test_surge_replicas_of_a_moving_workload_are_not_counted() -> None:
    moving = web(
        {"m1": 2, "m2": 4},
        status_holds=(HeldReplicas(cluster="m1", replicas=2),),
        status_replacement=StateBeforeMove(
            before=(TargetCluster(name="m1", replicas=2), TargetCluster(name="m2", replicas=2))
        ),
    )
    status, _ = reconcile(workload_budget(min_available=3), moving)
    assert (status.desired, status.available, status.allowed_now) == (4, 4, 1)


def test_a_granted_move_counts_until_it_is_finished() -> None:
    in_flight = DisruptionBudgetStatus(
        in_flight=(InFlightDisruption(object="Deployment/web", replicas=1, from_="m1", since=NOON),)
    )
    status, _ = reconcile(workload_budget(in_flight, max_unavailable=2), web({"m1": 2, "m2": 2}), now=NOON + SECOND)
    assert (len(status.in_flight), status.available, status.allowed_now) == (1, 3, 1)
    status, _ = reconcile(workload_budget(in_flight, max_unavailable=2), web({"m1": 2, "m2": 2}), now=NOON + 6 * SECOND)
    assert (status.in_flight, status.allowed_now) == ((), 2)


def in_flight_after(started: datetime) -> tuple[int, int]:
    """Moves in flight and moves allowed, when the log has an outcome for a move that started at this time."""
    in_flight = DisruptionBudgetStatus(
        in_flight=(InFlightDisruption(object="Deployment/web", replicas=1, from_="m1", since=NOON),)
    )
    about = MovedObject(api_version="apps/v1", kind="Deployment", namespace="demo", name="web")
    ended = Move(
        metadata=Meta(name="e", namespace="demo"),
        spec=MoveSpec(object=about, cause="Rebalance", from_="m1", replicas=1),
        status=MoveStatus(started=started, outcome="Done"),
    )
    fleet = (cluster("m1"), cluster("m2"), ended)
    status, _ = reconcile(
        workload_budget(in_flight, max_unavailable=2), web({"m1": 2, "m2": 2}), *fleet, now=NOON + SECOND
    )
    return len(status.in_flight), status.allowed_now


def test_a_move_with_an_outcome_in_the_log_no_longer_counts() -> None:
    assert in_flight_after(NOON) == (0, 2)


def test_the_outcome_of_an_earlier_move_out_of_the_same_cluster_ends_no_later_one() -> None:
    assert in_flight_after(NOON - SECOND) == (1, 1)


def charged_and_logged(*, begins: int = 1, outcome: str = "") -> tuple[DisruptionBudget, Move]:
    """A budget of one move with a charge, and the Move that it was charged for."""
    charge = InFlightDisruption(object="Deployment/web", replicas=1, from_="m1", since=NOON)
    about = MovedObject(api_version="apps/v1", kind="Deployment", namespace="demo", name="web")
    move = Move(
        metadata=Meta(name="e", namespace="demo", annotations={GENERATION_ANNOTATION: str(begins)}),
        spec=MoveSpec(object=about, from_="m1", budgets=(BudgetUse(name="b", namespace="demo", disruptions=1),)),
        status=MoveStatus(started=NOON, outcome=outcome),
    )
    return workload_budget(DisruptionBudgetStatus(in_flight=(charge,)), max_concurrent=1), move


def in_flight_at(seconds: int, subject: DisruptionBudget, move: Move) -> int:
    fleet = (cluster("m1"), cluster("m2"), move)
    status, _ = reconcile(subject, web({"m1": 2, "m2": 2}), *fleet, now=NOON + seconds * SECOND)
    return len(status.in_flight)


def test_a_move_counts_until_the_log_has_its_outcome_although_all_replicas_are_ready() -> None:
    """Otherwise the log has two moves at once under a budget of one."""
    subject, move = charged_and_logged()
    assert in_flight_at(60, subject, move) == 1
    assert in_flight_at(599, subject, move) == 1
    assert in_flight_at(600, subject, move) == 0, "a Move without an outcome does not use up the budget for ever"
    assert in_flight_at(60, *charged_and_logged(outcome="Done")) == 0


def test_a_move_in_the_log_that_never_began_does_not_count() -> None:
    assert in_flight_at(60, *charged_and_logged(begins=99)) == 0


def test_an_outcome_in_the_log_wakes_the_budgets_that_were_charged() -> None:
    _, move = charged_and_logged()
    _, done = charged_and_logged(outcome="Done")
    view = FakeView()
    assert [key.name for key in budgets_of_finished_move(move, done, view)] == ["b"]
    assert not [*budgets_of_finished_move(None, move, view), *budgets_of_finished_move(done, done, view)]
    assert not list(budgets_of_finished_move(done, None, view))


def test_a_charge_ends_after_twice_the_longest_move_even_if_its_hold_stays() -> None:
    """Otherwise a hold that nobody removes would use up the budget for ever."""
    charge = InFlightDisruption(object="Deployment/web", replicas=1, from_="m1", since=NOON)
    shares = (TargetCluster(name="m1", replicas=2), TargetCluster(name="m2", replicas=2))
    held = web(
        {"m1": 2, "m2": 2},
        status_holds=(HeldReplicas(cluster="m1", replicas=1, since=NOON, until=NOON + 600 * SECOND),),
        status_replacement=StateBeforeMove(before=shares),
    )
    subject = workload_budget(DisruptionBudgetStatus(in_flight=(charge,)), max_concurrent=1)
    assert len(reconcile(subject, held, now=NOON + 1199 * SECOND)[0].in_flight) == 1
    assert reconcile(subject, held, now=NOON + 1200 * SECOND)[0].in_flight == ()


def test_a_move_is_in_flight_as_long_as_replicas_are_held_for_it() -> None:
    in_flight = DisruptionBudgetStatus(
        in_flight=(InFlightDisruption(object="Deployment/web", replicas=1, from_="m1", since=NOON),)
    )
    before = StateBeforeMove(before=(TargetCluster(name="m1", replicas=2), TargetCluster(name="m2", replicas=2)))
    held = web(
        {"m1": 2, "m2": 2},
        status_holds=(HeldReplicas(cluster="m1", replicas=1, since=NOON, until=NOON + 600 * SECOND),),
        status_replacement=before,
    )
    status, _ = reconcile(workload_budget(in_flight, max_concurrent=1), held, now=NOON + 60 * SECOND)
    assert (len(status.in_flight), status.allowed_now) == (1, 0)


def test_a_used_up_rate_reports_when_the_next_move_is_allowed() -> None:
    recent = RecentDisruption(object="Deployment/web", at=NOON - 10 * SECOND)
    spent = DisruptionBudgetStatus(rate=RateStatus(recent=(recent,)))
    status, waits = reconcile(
        workload_budget(spent, rate=DisruptionRate(disruptions=1, period="1m")), web({"m1": 2, "m2": 2})
    )
    assert (status.allowed_now, status.next_allowed_at) == (0, NOON + 50 * SECOND)
    assert (status.rate.in_window, status.rate.limit) == (1, 1)
    assert 50 < min(waits) < 51
    status, _ = reconcile(
        workload_budget(spent, rate=DisruptionRate(disruptions=1, period="1m")),
        web({"m1": 2, "m2": 2}),
        now=NOON + 50 * SECOND,
    )
    assert (status.allowed_now, status.next_allowed_at, status.rate.recent) == (1, None, ())


def test_a_closed_window_reports_when_it_opens() -> None:
    status, _ = reconcile(
        workload_budget(windows=(BudgetWindow(schedule="0 13 * * *", duration="1h"),)), web({"m1": 2, "m2": 2})
    )
    assert (status.allowed_now, status.next_allowed_at) == (0, NOON + 3600 * SECOND)


def test_budgets_over_pods_are_ignored() -> None:
    assert reconcile(workload_budget(target="Pods"), web({"m1": 2, "m2": 2})) == (DisruptionBudgetStatus(), [])


def test_a_budget_without_a_selector_covers_nothing() -> None:
    status, _ = reconcile(workload_budget(selector=None, max_unavailable=1), web({"m1": 2, "m2": 2}))
    assert status.desired == 0


def test_a_move_stays_in_flight_while_only_the_stale_source_reports_enough_replicas() -> None:
    """The source cluster still reports three ready replicas, although its new share is two."""
    in_flight = (InFlightDisruption(object="Deployment/web", from_="m1", replicas=1, since=NOON - 10 * SECOND),)
    before = DisruptionBudgetStatus(in_flight=in_flight)
    status, _ = reconcile(workload_budget(before, max_unavailable=1), web({"m1": 3, "m2": 1}))
    assert status.in_flight == in_flight
    status, _ = reconcile(workload_budget(before, max_unavailable=1), web({"m1": 3, "m2": 2}))
    assert status.in_flight == ()


def test_moves_of_workloads_that_are_gone_are_not_in_flight() -> None:
    in_flight = DisruptionBudgetStatus(
        in_flight=(InFlightDisruption(object="Deployment/gone", replicas=1, from_="m1", since=NOON),)
    )
    status, _ = reconcile(workload_budget(in_flight, max_unavailable=2), web({"m1": 2, "m2": 2}), now=NOON + SECOND)
    assert status.in_flight == ()


def test_missing_replicas_are_counted_apart_by_their_cause() -> None:
    in_flight = DisruptionBudgetStatus(
        in_flight=(InFlightDisruption(object="Deployment/web", replicas=1, from_="m1", since=NOON),)
    )
    for ready, counts in (({"m1": 2, "m2": 2}, (1, 0)), ({"m1": 1, "m2": 1}, (1, 2)), ({"m1": 0, "m2": 0}, (1, 3))):
        status, _ = reconcile(workload_budget(in_flight, max_unavailable=2), web(ready), now=NOON + SECOND)
        assert (status.unavailable.voluntary, status.unavailable.involuntary) == counts
    spare, _ = reconcile(workload_budget(max_unavailable=2), web({"m1": 9, "m2": 9}))
    assert (spare.unavailable.voluntary, spare.unavailable.involuntary) == (0, 0)


def test_held_replicas_are_not_missing() -> None:
    in_flight = DisruptionBudgetStatus(
        in_flight=(InFlightDisruption(object="Deployment/web", replicas=2, from_="m1", since=NOON),)
    )
    held = web({"m1": 2, "m2": 1}, status_holds=(HeldReplicas(cluster="m1", replicas=2),))
    status, _ = reconcile(workload_budget(in_flight, max_unavailable=2), held, now=NOON + SECOND)
    assert (status.unavailable.voluntary, status.unavailable.involuntary) == (0, 1)


def test_a_budget_is_checked_again_when_time_changes_what_it_allows() -> None:
    rate = DisruptionRate(disruptions=2, period="1h")
    recent = RateStatus(recent=(RecentDisruption(at=NOON - 50 * 60 * SECOND),))
    _, (wait,) = reconcile(workload_budget(DisruptionBudgetStatus(rate=recent), rate=rate), web({"m1": 2, "m2": 2}))
    assert 600 <= wait < 601
    night = workload_budget(windows=(BudgetWindow(schedule="0 13 * * *", duration="1h"),))
    _, (wait,) = reconcile(night, web({"m1": 2, "m2": 2}))
    assert 3600 <= wait < 3601
    day = workload_budget(windows=(BudgetWindow(schedule="0 11 * * *", duration="3h"),))
    _, (wait,) = reconcile(day, web({"m1": 2, "m2": 2}))
    assert wait <= 61, "a window may close at any time"
    assert reconcile(workload_budget(max_unavailable=1), web({"m1": 2, "m2": 2}))[1] == []
