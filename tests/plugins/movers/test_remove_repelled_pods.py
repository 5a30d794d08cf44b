from pod_builders import HOSTNAME, pod, pod_affinity

from plugins.movers.mover_runs import PAIR, evicted_by


def test_of_two_conflicting_pods_the_lower_priority_is_evicted() -> None:
    avoids = pod_affinity(HOSTNAME, anti=True)
    pods = [pod("high", on="a", priority=9, **avoids), pod("low", on="a", priority=1, **avoids)]
    assert evicted_by("RemovePodsViolatingInterPodAntiAffinity", PAIR, pods) == ["low"]
