from pod_builders import node, pod

from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.schedule import schedule

CORDON = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}


def test_a_cordoned_node_takes_no_new_pods() -> None:
    assert schedule(pod("p"), NodeSnapshot.of([node("a", cordoned=True)])).node is None


def test_a_pod_may_tolerate_the_cordon() -> None:
    assert schedule(pod("p", tolerations=[CORDON]), NodeSnapshot.of([node("a", cordoned=True)])).node == "a"
