from pod_builders import ZONE, pod, topology_spread

from plugins.movers.mover_runs import PAIR, evicted_by
from trimtab.api.profile import TRIMTAB


def test_pods_are_spread_and_our_profile_evicts_the_least_important() -> None:
    pods = [pod(f"p{i}", on="a", priority=i, **topology_spread(ZONE)) for i in range(4)]
    name = "RemovePodsViolatingTopologySpreadConstraint"
    assert sorted(evicted_by(name, PAIR, pods)) == ["p2", "p3"]
    assert sorted(evicted_by(name, PAIR, pods, profile=TRIMTAB)) == ["p0", "p1"]


def test_protected_replicas_count_for_the_skew_only_in_our_profile() -> None:
    """Two of a's five pods may move; upstream counts two against two and does nothing, our profile five against two."""
    held = {"annotations": {"kubernetes.io/config.mirror": "x"}}
    pods = [pod(f"held{i}", on="a", metadata=held, **topology_spread(ZONE)) for i in range(3)]
    pods += [pod(f"free{i}", on="a", **topology_spread(ZONE)) for i in range(2)]
    pods += [pod(f"there{i}", on="b", **topology_spread(ZONE)) for i in range(2)]
    name = "RemovePodsViolatingTopologySpreadConstraint"
    assert evicted_by(name, PAIR, pods) == []
    assert evicted_by(name, PAIR, pods, profile=TRIMTAB) == ["free1"]
