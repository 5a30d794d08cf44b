from pod_builders import HOSTNAME, node, pod, pod_affinity

from trimtab.decide.pods.descheduling.cluster_view import ClusterView
from trimtab.decide.pods.fit.fit_elsewhere import ForecastNodeFit, NodeFit
from trimtab.decide.pods.node_info import build_pod_info

NODES = [node("a", cpu="2"), node("b", cpu="2"), node("c", cpu="2", cordoned=True)]
RUNNING = [pod("p", on="a", cpu="1500m"), pod("q", on="a", cpu="500m"), pod("r", on="b", cpu="500m")]


def test_pod_fits_where_resources_are_free_and_the_node_is_not_cordoned() -> None:
    node_fit, first = NodeFit(ClusterView.of(NODES, RUNNING)), build_pod_info(RUNNING[0])
    assert node_fit.fits(first, other_than="a")
    assert not node_fit.fits(first, other_than="b")
    assert not node_fit.fits(first, other_than="a", among=frozenset(("c",)))
    assert node_fit.fits_own_node(first)


def test_required_anti_affinity_excludes_a_node() -> None:
    lonely = pod("l", on="a", cpu="100m", **pod_affinity(HOSTNAME, anti=True))
    assert not NodeFit(ClusterView.of(NODES, [*RUNNING, lonely])).fits(build_pod_info(lonely), other_than="a")


def test_only_the_forecast_counts_earlier_evictions_of_the_cycle() -> None:
    view, first = ClusterView.of(NODES, RUNNING), build_pod_info(RUNNING[0])
    current, forecast = NodeFit(view), ForecastNodeFit(view)
    for node_fit in (current, forecast):
        assert node_fit.fits(first, other_than="a")
        node_fit.record_move(first)
    second = build_pod_info(pod("s", on="a", cpu="500m"))
    assert current.fits(second, other_than="a")
    assert not forecast.fits(second, other_than="a")
    assert (current.expected_node(first), forecast.expected_node(second)) == (None, None)
