from pod_builders import node, pod

from trimtab.api.selectors import parse_selector
from trimtab.decide.pods.descheduling.cluster_view import ClusterView

READY = {"conditions": [{"type": "Ready", "status": "True"}]}
VIEW = ClusterView.of(
    [node("a"), node("b", labels={"pool": "x"})],
    [
        pod("z", on="a", status=READY),
        pod("done", on="a", status={"phase": "Succeeded"}),
        pod("waits"),
        pod("lost", on="gone"),
    ],
)


def test_pods_are_grouped_by_node_and_phase() -> None:
    assert [one.name for one in VIEW.pods_on("a")] == ["z"]
    assert [one.name for one in VIEW.all_pods_on("a")] == ["done", "z"]
    assert [one.name for one in VIEW.pending] == ["waits"]


def test_replicas_are_counted_wherever_their_pods_are() -> None:
    assert VIEW.pods_per_owner == {"default-ReplicaSet/web": 4}
    assert VIEW.ready_pods_per_owner == {"default-ReplicaSet/web": 1}


def test_selector_restricts_the_considered_nodes() -> None:
    assert [one.name for one in VIEW.nodes] == ["a", "b"]
    assert [one.name for one in VIEW.with_node_selector(parse_selector("pool=x")).nodes] == ["b"]
