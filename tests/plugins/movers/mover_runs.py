"""Runs one descheduler strategy on a small cluster."""

from datetime import UTC, datetime
from typing import Any

from pod_builders import node, pod

from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.profile import UPSTREAM, Profile
from trimtab.decide.pods.descheduling.cluster_view import ClusterView
from trimtab.decide.pods.descheduling.evictor import NO_CYCLE_LIMITS, CycleLimits, DeschedulingCycle
from trimtab.decide.pods.descheduling.evictor_filter import EvictorArgs
from trimtab.decide.pods.descheduling.movers import run_mover
from trimtab.decide.pods.metrics.measurements import UsageMetrics

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
PAIR = [node("a", zone="east"), node("b", zone="west")]
FAILED = {"phase": "Failed", "reason": "Evicted"}
LOW = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}


def evicted_by(
    name: str,
    nodes: list[Node],
    pods: list[Pod],
    *,
    evictor: EvictorArgs | None = None,
    profile: Profile = UPSTREAM,
    limits: CycleLimits = NO_CYCLE_LIMITS,
    measures: UsageMetrics | None = None,
    **args: Any,
) -> list[str]:
    cycle = DeschedulingCycle(ClusterView.of(nodes, pods, now=NOON), profile, limits, measures)
    run_mover(name, args, cycle, evictor)
    assert all(eviction.reason and eviction.strategy == name for eviction in cycle.evictions)
    return [eviction.pod.name for eviction in cycle.evictions]


def pods_on_a(count: int) -> list[Pod]:
    return [pod(f"p{i}", on="a", cpu="500m", priority=i) for i in range(count)]
