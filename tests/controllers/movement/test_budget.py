"""What a budget over workloads says of itself."""

from datetime import timedelta
from typing import Any

from builders import NOON, binding, cluster, deployment, item
from views import FakeView

from trimtab.api.kinds.disruption import (
    DisruptionBudget,
    DisruptionBudgetSpec,
    DisruptionBudgetStatus,
    InFlight,
    Move,
    MovedObject,
    MoveSpec,
    MoveStatus,
    Rate,
    RateStatus,
    RecentDisruption,
    Window,
)
from trimtab.api.kinds.work import Binding, Hold, Replacement, TargetCluster
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Meta
from trimtab.controllers.contract import Again
from trimtab.controllers.movement.budget import budget

SECOND = timedelta(seconds=1)


def subject(status: DisruptionBudgetStatus | None = None, **spec: Any) -> DisruptionBudget:
    return DisruptionBudget(
        metadata=Meta(name="b", namespace="demo", resource_version="2", generation=1),
        spec=DisruptionBudgetSpec(target="Workloads", selector=LabelSelector()).but(**spec),
        status=status or DisruptionBudgetStatus(),
    )


def web(ready: dict[str, int], **fields: Any) -> Binding:
    items = tuple(item(name, status={"readyReplicas": n}) for name, n in ready.items())
    return binding(clusters={"m1": 2, "m2": 2}, status_aggregated_status=items, **fields)


def seen(it: DisruptionBudget, workload: Binding, *clusters: Any, **options: Any) -> tuple[Any, list[float]]:
    fleet = clusters or (cluster("m1"), cluster("m2"))
    wishes = list(budget(it, FakeView([*fleet, workload], raws=[deployment("web")], **options)))
    changed = [wish.status for wish in wishes if isinstance(wish, DisruptionBudget)]
    return (changed[-1] if changed else it.status), [wish.seconds for wish in wishes if isinstance(wish, Again)]


def test_replicas_are_counted_over_all_clusters() -> None:
    status, _ = seen(subject(max_unavailable=1), web({"m1": 2, "m2": 1}))
    assert (status.desired, status.available, status.allowed_now) == (4, 3, 0)
    assert (status.down.voluntary, status.down.involuntary) == (0, 1)
    said = {c.type: (c.status, c.message) for c in status.conditions}
    assert said["Ready"] == ("True", "3 of 4 replicas are available; what moves must have its replacement ready first")
    assert said["Allowing"] == ("True", "0 moves in flight")


def test_a_budget_whose_replicas_are_missing_already_says_so() -> None:
    status, _ = seen(subject(max_unavailable=1), web({"m1": 2}))
    said = {c.type: (c.status, c.message) for c in status.conditions}
    assert said["Allowing"] == ("False", "budget b: 1 replicas are missing already")
    assert (said["Ready"][0], said["Reconciling"][0], said["Stalled"][0]) == ("True", "False", "False")


def test_replicas_in_a_cluster_that_does_not_answer_are_not_available() -> None:
    status, _ = seen(
        subject(max_unavailable="50%"), web({"m1": 2, "m2": 2}), cluster("m1"), cluster("m2", ready="False")
    )
    assert (status.available, status.allowed_now) == (2, 0)


def test_what_a_workload_has_twice_while_it_moves_is_not_to_spare() -> None:
    moving = web(
        {"m1": 2, "m2": 4},
        status_holds=(Hold(cluster="m1", replicas=2),),
        status_replacement=Replacement(
            before=(TargetCluster(name="m1", replicas=2), TargetCluster(name="m2", replicas=2))
        ),
    )
    status, _ = seen(subject(min_available=3), moving)
    assert (status.desired, status.available, status.allowed_now) == (4, 4, 1)


def test_a_granted_move_counts_until_it_is_over() -> None:
    flying = DisruptionBudgetStatus(in_flight=(InFlight(object="Deployment/web", replicas=1, from_="m1", since=NOON),))
    status, _ = seen(subject(flying, max_unavailable=2), web({"m1": 2, "m2": 2}), now=NOON + SECOND)
    assert (len(status.in_flight), status.available, status.allowed_now) == (1, 3, 1)
    status, _ = seen(subject(flying, max_unavailable=2), web({"m1": 2, "m2": 2}), now=NOON + 6 * SECOND)
    assert (status.in_flight, status.allowed_now) == ((), 2)


def test_a_move_whose_end_is_in_the_log_counts_no_longer() -> None:
    flying = DisruptionBudgetStatus(in_flight=(InFlight(object="Deployment/web", replicas=1, from_="m1", since=NOON),))
    about = MovedObject(api_version="apps/v1", kind="Deployment", namespace="demo", name="web")
    ended = Move(
        metadata=Meta(name="e", namespace="demo"),
        spec=MoveSpec(object=about, cause="Rebalance", from_="m1", replicas=1),
        status=MoveStatus(started=NOON, outcome="Done"),
    )
    fleet = (cluster("m1"), cluster("m2"), ended)
    status, _ = seen(subject(flying, max_unavailable=2), web({"m1": 2, "m2": 2}), *fleet, now=NOON + SECOND)
    assert (status.in_flight, status.allowed_now) == ((), 2)


def test_it_says_when_the_next_move_is_allowed() -> None:
    recent = RecentDisruption(object="Deployment/web", at=NOON - 10 * SECOND)
    spent = DisruptionBudgetStatus(rate=RateStatus(recent=(recent,)))
    status, waits = seen(subject(spent, rate=Rate(disruptions=1, period="1m")), web({"m1": 2, "m2": 2}))
    assert (status.allowed_now, status.next_allowed_at) == (0, NOON + 50 * SECOND)
    assert (status.rate.in_window, status.rate.limit) == (1, 1)
    assert 50 < min(waits) < 51
    status, _ = seen(
        subject(spent, rate=Rate(disruptions=1, period="1m")), web({"m1": 2, "m2": 2}), now=NOON + 50 * SECOND
    )
    assert (status.allowed_now, status.next_allowed_at, status.rate.recent) == (1, None, ())


def test_a_closed_window_says_when_it_opens() -> None:
    status, _ = seen(subject(windows=(Window(schedule="0 13 * * *", duration="1h"),)), web({"m1": 2, "m2": 2}))
    assert (status.allowed_now, status.next_allowed_at) == (0, NOON + 3600 * SECOND)


def test_budgets_over_pods_are_not_ours() -> None:
    assert seen(subject(target="Pods"), web({"m1": 2, "m2": 2})) == (DisruptionBudgetStatus(), [])


def test_a_budget_without_a_selector_covers_nothing() -> None:
    status, _ = seen(subject(selector=None, max_unavailable=1), web({"m1": 2, "m2": 2}))
    assert status.desired == 0


def test_a_move_at_once_is_under_way_while_only_the_cluster_it_left_tells_of_enough() -> None:
    """The cluster that is left has not told yet that it has less: three ready, where two are to be."""
    flying = (InFlight(object="Deployment/web", from_="m1", replicas=1, since=NOON - 10 * SECOND),)
    before = DisruptionBudgetStatus(in_flight=flying)
    status, _ = seen(subject(before, max_unavailable=1), web({"m1": 3, "m2": 1}))
    assert status.in_flight == flying
    status, _ = seen(subject(before, max_unavailable=1), web({"m1": 3, "m2": 2}))
    assert status.in_flight == ()
