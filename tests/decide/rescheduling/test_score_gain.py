import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from pod_builders import node, pod

from trimtab.decide.pods.node_info import PodInfo, build_pod_info
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.request import pod_request_for
from trimtab.decide.pods.schedule import DEFAULT_SCHEDULER_PROFILE, best_column, feasible_nodes, weighted_scores
from trimtab.decide.rescheduling.score_gain import SCORE_WEIGHTS, MoveForecast, TrialFleet, without_node, without_pod

NODES = [node("a", cpu="4"), node("b", cpu="8"), node("c", cpu="4", taints=["slow=yes:PreferNoSchedule"])]
sizes = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 30), st.integers(1, 40)), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(sizes)
def test_the_forecast_without_removing_an_independent_pod_is_the_same(placed: list[tuple[str, int, int]]) -> None:
    pods = [
        pod(f"p{i}", on=where, cpu=f"{cpu}00m", memory=f"{memory}00Mi") for i, (where, cpu, memory) in enumerate(placed)
    ]
    fleet = NodeSnapshot.of(NODES, pods)
    one = build_pod_info(pods[0])
    assert TrialFleet(fleet).best_move(one) == forecast_after_removal(one, fleet)


def forecast_after_removal(one: PodInfo, fleet: NodeSnapshot) -> MoveForecast:
    """The slow path: remove the pod, then score every node."""
    rest = without_pod(one, fleet)
    ask, here = pod_request_for(without_node(one), rest), rest.nodes.index[one.pod.spec.node_name]
    feasible = feasible_nodes(ask, rest, DEFAULT_SCHEDULER_PROFILE)
    others, compared = feasible.copy(), feasible.copy()
    others[here], compared[here] = False, True
    if not others.any():
        return MoveForecast(None)
    marks = dict(weighted_scores(ask, rest, compared, DEFAULT_SCHEDULER_PROFILE))
    total = np.sum(list(marks.values()), axis=0)
    column, _ = best_column(total, others, rest)
    scale = 100 * sum(SCORE_WEIGHTS[name] for name, array in marks.items() if np.ptp(array[compared]))
    parts = {
        name: float(array[column] - array[here]) / SCORE_WEIGHTS[name]
        for name, array in marks.items()
        if np.ptp(array[compared])
    }
    gain = 100 * float(total[column] - total[here]) / scale if scale else 0.0
    stays = bool(feasible[here]) and bool(total[here] > total[column])
    return MoveForecast(rest.nodes.names[column], gain, parts, int(others.sum()), stays)


def test_the_current_node_is_scored_without_the_pod() -> None:
    here = pod("big", on="a", cpu="3", memory="6Gi")
    fleet = NodeSnapshot.of([node("a", cpu="4"), node("b", cpu="4")], [here])
    found = TrialFleet(fleet).best_move(build_pod_info(here))
    assert (found.node, found.gain) == ("b", 0.0)  # both nodes are empty without it


def test_an_excluded_node_is_no_target_and_an_avoided_one_the_last() -> None:
    here = pod("p", on="a", cpu="1")
    bench = TrialFleet(NodeSnapshot.of([node("a"), node("b", cpu="8"), node("c")], [here]))
    assert bench.best_move(build_pod_info(here)).node == "b"
    assert bench.best_move(build_pod_info(here), frozenset("b")).node == "c"
    assert bench.best_move(build_pod_info(here), avoided=["b"]).node == "c"
    assert bench.best_move(build_pod_info(here), frozenset("bc")).node is None


def test_the_gain_of_some_plugins_uses_the_scheduler_weights() -> None:
    found = MoveForecast("b", 10.0, {"NodeAffinity": 100.0, "TaintToleration": -50.0, "NodeResourcesFit": 40.0})
    assert (SCORE_WEIGHTS["NodeAffinity"], SCORE_WEIGHTS["TaintToleration"]) == (2, 3)
    assert found.gain_of(("NodeAffinity", "TaintToleration", "PodTopologySpread")) == (2 * 100 - 3 * 50) / 5
    assert found.gain_of(("PodTopologySpread",)) == 0.0


def test_a_node_that_fits_the_pod_only_once_is_preferred_again() -> None:
    here = pod("big", on="b", cpu="6", memory="1Gi")
    fleet = NodeSnapshot.of([node("a", cpu="7"), node("b", cpu="8")], [here])
    assert TrialFleet(fleet).best_move(build_pod_info(here)).prefers_current
