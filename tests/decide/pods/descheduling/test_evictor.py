from typing import Any

from pod_builders import node, pod

from trimtab.decide.pods.descheduling.cluster_view import ClusterView
from trimtab.decide.pods.descheduling.evictor import CycleLimits, DeschedulingCycle, EvictionOutcome, MoverRun
from trimtab.decide.pods.descheduling.evictor_filter import EvictorArgs
from trimtab.decide.pods.node_info import build_pod_info

NODES = [node("a"), node("b", labels={"pool": "x"})]
PODS = [pod("p", on="a"), pod("q", on="a"), pod("r", on="b"), pod("s", on="b", namespace="other")]
P, Q, R, S = (build_pod_info(one) for one in PODS)


def mover_run(limits: CycleLimits, **args: Any) -> MoverRun:
    return MoverRun(DeschedulingCycle(ClusterView.of(NODES, PODS), limits=limits), EvictorArgs(**args), "Mine")


def test_limits_hold_per_node_namespace_and_cycle() -> None:
    per_node = mover_run(CycleLimits(per_node=1))
    assert [per_node.evict(one, "x") for one in (P, Q, R)] == [
        EvictionOutcome.EVICTED,
        EvictionOutcome.NODE_LIMIT,
        EvictionOutcome.EVICTED,
    ]
    per_namespace = mover_run(CycleLimits(per_namespace=1))
    assert [per_namespace.evict(one, "x") for one in (P, R, S)] == [
        EvictionOutcome.EVICTED,
        EvictionOutcome.NAMESPACE_LIMIT,
        EvictionOutcome.EVICTED,
    ]
    total = mover_run(CycleLimits(total=1))
    assert [total.evict(one, "x") for one in (P, S)] == [EvictionOutcome.EVICTED, EvictionOutcome.TOTAL_LIMIT]
    assert [(one.pod.name, one.strategy) for one in total.cycle.evictions] == [("p", "Mine")]


def test_evicted_terminating_and_protected_pods_are_not_evictable() -> None:
    run = mover_run(CycleLimits())
    assert run.is_evictable(P)
    run.evict(P, "x")
    assert not run.is_evictable(P)
    assert not run.is_evictable(
        build_pod_info(pod("t", on="a", metadata={"deletionTimestamp": "2026-08-01T00:00:00Z"}))
    )
    assert not run.is_evictable(build_pod_info(pod("d", on="a", owner="DaemonSet/d")))
    annotations = {"annotations": {"descheduler.alpha.kubernetes.io/evict": "true"}}
    assert run.is_evictable(build_pod_info(pod("d", on="a", owner="DaemonSet/d", metadata=annotations)))


def test_node_fit_checks_the_selected_destinations() -> None:
    assert mover_run(CycleLimits(), node_fit=True, node_selector="pool=x").passes_pre_eviction_filter(P)
    run = mover_run(CycleLimits(), node_fit=True, node_selector="pool=y")
    assert not run.passes_pre_eviction_filter(P)
    assert [one.pod.name for one in run.cycle.rejected] == ["p"]
    assert mover_run(CycleLimits(), node_selector="pool=y").passes_pre_eviction_filter(P)
