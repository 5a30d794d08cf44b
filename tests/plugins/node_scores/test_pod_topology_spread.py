import pytest
from pod_builders import HOSTNAME, ZONE, node, pod, spread

from plugins.node_scores.score_runs import marks


@pytest.mark.parametrize("key", [ZONE, HOSTNAME])
def test_domains_with_fewer_matching_pods_score_higher(key: str) -> None:
    nodes = [node("a", zone="east"), node("b", zone="west")]
    found = marks("PodTopologySpread", pod("p", **spread(key, soft=True)), nodes, [pod("r", on="a")])
    assert found == {"a": 0, "b": 200}
