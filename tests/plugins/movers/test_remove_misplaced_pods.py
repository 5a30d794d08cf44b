from pod_builders import ZONE, pod

from plugins.movers.mover_runs import PAIR, evicted_by


def test_a_pod_whose_required_affinity_no_longer_holds_is_evicted() -> None:
    wanted = {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["west"]}]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": wanted}}
    kinds = ["requiredDuringSchedulingIgnoredDuringExecution"]
    pods = [pod("p", on="a", affinity=affinity), pod("q", on="b", affinity=affinity)]
    assert evicted_by("RemovePodsViolatingNodeAffinity", PAIR, pods, nodeAffinityType=kinds) == ["p"]
