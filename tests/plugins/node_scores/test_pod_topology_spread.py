import pytest
from pod_builders import HOSTNAME, ZONE, node, pod, topology_spread

from plugins.node_scores.score_runs import scores_by_node


@pytest.mark.parametrize("key", [ZONE, HOSTNAME])
def test_domains_with_fewer_matching_pods_score_higher(key: str) -> None:
    nodes = [node("a", zone="east"), node("b", zone="west")]
    found = scores_by_node("PodTopologySpread", pod("p", **topology_spread(key, soft=True)), nodes, [pod("r", on="a")])
    assert found == {"a": 0, "b": 200}
