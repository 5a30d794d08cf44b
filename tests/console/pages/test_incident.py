"""The incident report: what a failure did, apart from what moved for other reasons."""

from datetime import timedelta

from console.fake_console import NOW, fill, new_console
from trimtab.api.kinds.disruption import Move, MovedObject, MoveSpec, MoveStatus, MoveTarget
from trimtab.api.value import Meta
from trimtab.console.application import Console
from trimtab.console.page import PageContext
from trimtab.console.pages.incident import incident

DARK_SINCE = NOW - timedelta(minutes=2)


TARGET = MoveTarget(name="web-c1", replicas=1)


def put_move(
    console: Console, name: str, cause: str, started: timedelta, took: timedelta, to: tuple[MoveTarget, ...] = (TARGET,)
) -> None:
    began = DARK_SINCE + started
    move = Move(
        metadata=Meta(name=name, namespace="shop", creation_timestamp=began),
        spec=MoveSpec(
            object=MovedObject(api_version="apps/v1", kind="Deployment", namespace="shop", name="web"),
            cause=cause,
            from_="web-c2",
            to=to,
            replicas=1,
        ),
        status=MoveStatus(started=began, finished=began + took, outcome="Done"),
    )
    console.model.put_move(f"shop/{name}", move)


def test_times_are_those_of_moves_that_the_failure_caused() -> None:
    console = new_console()
    fill(console)
    found = console.model.typed_clusters["web-c2"]
    conditions = tuple(one.but(last_transition_time=DARK_SINCE) for one in found.status.conditions)
    console.model.put_cluster("web-c2", found.but(status=found.status.but(conditions=conditions)))
    put_move(console, "earlier", "Rebalance", -timedelta(seconds=8), timedelta(seconds=50))
    put_move(console, "failover", "ClusterFailover", timedelta(seconds=30), timedelta(seconds=7))
    view = incident(PageContext(console.model, NOW, query={"cluster": "web-c2"}))
    assert (view["delay"], view["slowest"], view["failures"]) == (30.0, 7.0, 1)
    assert len(view["moves"]) == 2


def test_a_workload_that_leaves_two_clusters_is_counted_once() -> None:
    console = new_console()
    fill(console)
    put_move(console, "one", "Rebalance", timedelta(), timedelta(seconds=5))
    put_move(console, "two", "Rebalance", timedelta(), timedelta(seconds=5))
    entries = incident(PageContext(console.model, NOW, query={"cluster": "web-c2"}))["timeline"]
    assert "1 workload with 2 replicas leaves: rebalance" in [entry["title"] for entry in entries]


def test_replicas_without_a_replacement_are_told() -> None:
    console = new_console()
    fill(console)
    put_move(console, "one", "ClusterFailover", timedelta(), timedelta(seconds=5))
    put_move(console, "copy", "ClusterFailover", timedelta(), timedelta(seconds=5), to=())
    view = incident(PageContext(console.model, NOW, query={"cluster": "web-c2"}))
    assert (view["replicas"], view["unreplaced"], sum(flow.replicas for flow in view["flows"])) == (2, 1, 1)
