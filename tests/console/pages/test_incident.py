"""The incident report: what a failure did, apart from what moved for other reasons."""

from datetime import timedelta

from console.fake_console import NOW, fill, new_console
from trimtab.api.kinds.disruption import Move, MovedObject, MoveSpec, MoveStatus, MoveTarget
from trimtab.api.value import Meta
from trimtab.console.application import Console
from trimtab.console.page import PageContext
from trimtab.console.pages.incident import incident
from trimtab.console.workload_facts import NOWHERE

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


def put_dark(console: Console, *names: str) -> None:
    for name in names:
        found = console.model.typed_clusters[name]
        conditions = tuple(one.but(status="False", last_transition_time=DARK_SINCE) for one in found.status.conditions)
        console.model.put_cluster(name, found.but(status=found.status.but(conditions=conditions)))


def test_report_is_about_all_clusters_that_do_not_answer() -> None:
    console = new_console()
    fill(console)
    put_dark(console, "web-c1", "web-c2")
    put_move(console, "failover", "ClusterFailover", timedelta(seconds=30), timedelta(seconds=7))
    view = incident(PageContext(console.model, NOW))
    assert view["title"] == "web-c1 and web-c2 do not answer since 16:12:53 UTC"
    assert [point.partition(";")[0] for point in view["open"]][:2] == [
        "web-c1 does not answer",
        "web-c2 does not answer",
    ]
    assert incident(PageContext(console.model, NOW, query={"cluster": "web-c1"}))["moves"] == []


def test_an_earlier_failure_of_the_cluster_does_not_shorten_the_time_until_evictions() -> None:
    console = new_console()
    fill(console)
    put_dark(console, "web-c2")
    put_move(console, "earlier", "ClusterFailover", -timedelta(minutes=20), timedelta(seconds=5))
    put_move(console, "failover", "ClusterFailover", timedelta(seconds=30), timedelta(seconds=7))
    assert incident(PageContext(console.model, NOW, query={"cluster": "web-c2"}))["delay"] == 30.0


def test_evictions_that_are_spread_over_time_are_one_entry() -> None:
    console = new_console()
    fill(console)
    for number in range(8):
        put_move(console, f"m{number}", "ClusterFailover", timedelta(seconds=number), timedelta(seconds=5))
    put_move(console, "later", "ClusterFailover", timedelta(seconds=60), timedelta(seconds=5))
    entries = incident(PageContext(console.model, NOW, query={"cluster": "web-c2"}))["timeline"]
    assert [entry["title"] for entry in entries if entry["state"] == "move"] == [
        "1 workload with 8 replicas leaves within 7 s: failover",
        "1 workload with 1 replica leaves: failover",
    ]


def test_report_of_the_fleet_names_workloads_without_a_place_that_the_user_may_see() -> None:
    console = new_console()
    fill(console)
    for namespace in ("shop", "hidden"):
        key = f"{namespace}/Deployment/web"
        console.model.workloads[key] = console.model.workloads[key].but(state=NOWHERE, why="no cluster fits")
        console.model.by_state.setdefault(NOWHERE, set()).add(key)
    context = PageContext(console.model, NOW, query={"cluster": ""})
    assert incident(context)["open"] == [
        "hidden/web runs nowhere: no cluster fits",
        "shop/web runs nowhere: no cluster fits",
        "shop/web: 2 replicas from web-c0 are still moving.",
    ]
    seen = context._replace(visibility=context.visibility._replace(workloads=frozenset({"shop"})))
    assert incident(seen)["open"][0] == "shop/web runs nowhere: no cluster fits"
