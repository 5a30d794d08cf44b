from typing import Any

from pod_builders import node, pod

from trimtab.decide.pods.descheduling.cluster_view import Scene
from trimtab.decide.pods.descheduling.evictor import Answer, Cycle, Limits, Round
from trimtab.decide.pods.descheduling.evictor_filter import EvictorArgs
from trimtab.decide.pods.node_info import resident

NODES = [node("a"), node("b", labels={"pool": "x"})]
PODS = [pod("p", on="a"), pod("q", on="a"), pod("r", on="b"), pod("s", on="b", namespace="other")]
P, Q, R, S = (resident(one) for one in PODS)


def mover_run(limits: Limits, **args: Any) -> Round:
    return Round(Cycle(Scene.of(NODES, PODS), limits=limits), EvictorArgs(**args), "Mine")


def test_limits_hold_per_node_namespace_and_cycle() -> None:
    per_node = mover_run(Limits(per_node=1))
    assert [per_node.evict(one, "x") for one in (P, Q, R)] == [Answer.EVICTED, Answer.NODE_LIMIT, Answer.EVICTED]
    per_namespace = mover_run(Limits(per_namespace=1))
    assert [per_namespace.evict(one, "x") for one in (P, R, S)] == [
        Answer.EVICTED,
        Answer.NAMESPACE_LIMIT,
        Answer.EVICTED,
    ]
    total = mover_run(Limits(total=1))
    assert [total.evict(one, "x") for one in (P, S)] == [Answer.EVICTED, Answer.TOTAL_LIMIT]
    assert [(one.pod.name, one.strategy) for one in total.cycle.evictions] == [("p", "Mine")]


def test_evicted_terminating_and_protected_pods_are_not_evictable() -> None:
    run = mover_run(Limits())
    assert run.evictable(P)
    run.evict(P, "x")
    assert not run.evictable(P)
    assert not run.evictable(resident(pod("t", on="a", metadata={"deletionTimestamp": "2026-08-01T00:00:00Z"})))
    assert not run.evictable(resident(pod("d", on="a", owner="DaemonSet/d")))
    annotations = {"annotations": {"descheduler.alpha.kubernetes.io/evict": "true"}}
    assert run.evictable(resident(pod("d", on="a", owner="DaemonSet/d", metadata=annotations)))


def test_node_fit_checks_the_selected_destinations() -> None:
    assert mover_run(Limits(), node_fit=True, node_selector="pool=x").ready_to_go(P)
    run = mover_run(Limits(), node_fit=True, node_selector="pool=y")
    assert not run.ready_to_go(P)
    assert [one.pod.name for one in run.cycle.refused] == ["p"]
    assert mover_run(Limits(), node_selector="pool=y").ready_to_go(P)
