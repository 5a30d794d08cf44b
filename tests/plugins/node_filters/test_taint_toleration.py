import pytest
from pod_builders import node, pod

from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.schedule import explain, schedule


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_an_untolerated_taint_is_rejected_and_named(effect: str) -> None:
    (opinion,) = explain(pod("p"), NodeSnapshot.of([node("a", taints=[f"gpu=yes:{effect}"])]))
    assert opinion.rejection is not None
    assert "{gpu: yes}" in opinion.rejection.reason.message


def test_a_tolerated_taint_is_accepted() -> None:
    tolerant = pod("p", tolerations=[{"key": "gpu", "operator": "Exists"}])
    assert schedule(tolerant, NodeSnapshot.of([node("a", taints=["gpu=yes:NoExecute"])])).node == "a"
