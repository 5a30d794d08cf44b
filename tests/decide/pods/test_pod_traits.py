from pod_builders import pod

from trimtab.decide.pods.pod_traits import BEST_EFFORT, BURSTABLE, GUARANTEED, pod_traits_of, qos_class


def test_qos_class_follows_requests_and_limits() -> None:
    def with_resources(**resources: dict[str, str]) -> int:
        return qos_class(pod("p", containers=[{"name": "c", "resources": resources}]))

    amounts = {"cpu": "1", "memory": "1Gi"}
    assert with_resources() == BEST_EFFORT
    assert with_resources(requests=amounts) == BURSTABLE
    assert with_resources(requests=amounts, limits=amounts) == GUARANTEED
    assert with_resources(limits=amounts) == GUARANTEED
    assert with_resources(requests={"cpu": "500m"}, limits=amounts) == BURSTABLE


def test_annotations_and_owners_set_the_traits() -> None:
    annotations = {"descheduler.alpha.kubernetes.io/prefer-no-eviction": "", "kubernetes.io/config.mirror": "x"}
    found = pod_traits_of(pod("p", owner="DaemonSet/d", metadata={"annotations": annotations}))
    assert (found.prefers_no_eviction, found.is_static_pod, found.is_daemon, found.is_annotated_for_eviction) == (
        True,
        True,
        True,
        False,
    )
    assert pod_traits_of(pod("p", owner="")).owner_uid == ""


def test_pods_of_lower_priority_and_qos_sort_first() -> None:
    low, high, none = pod("low", priority=1), pod("high", priority=2), pod("none")
    assert sorted([high, low, none], key=lambda one: pod_traits_of(one).order) == [none, low, high]
