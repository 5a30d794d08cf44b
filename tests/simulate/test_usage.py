from trimtab.api.kinds.native.pod import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Meta
from trimtab.simulate.usage import PodLoad, SimulatedUsage


def pod(name: str, phase: str = "Running") -> Pod:
    requests = ResourceRequirements(requests={"cpu": "1", "memory": "100Mi"})
    return Pod(
        metadata=Meta(name=name, namespace="default", labels={"app": name}),
        spec=PodSpec(containers=(Container(name="main", resources=requests),)),
        status=PodStatus(phase=phase),
    )


def test_pod_uses_half_of_its_requests_unless_a_load_is_set() -> None:
    usage = SimulatedUsage()
    assert usage.of(pod("web")) == {"cpu": 500, "memory": 50 << 20}
    usage.set(PodLoad("noisy", selector=LabelSelector(match_labels={"app": "web"}), amounts={"cpu": 3000}))
    assert usage.of(pod("web")) == {"cpu": 3000, "memory": 50 << 20}
    assert usage.of(pod("db")) == {"cpu": 500, "memory": 50 << 20}
    usage.set(PodLoad("idle", fraction=0.0))
    assert usage.of(pod("web"))["cpu"] == 0
    usage.clear("idle")
    assert usage.of(pod("old", "Failed")) == {}


def test_pods_of_an_overloaded_node_get_equal_fractions_of_their_cpu() -> None:
    usage, pods, room = SimulatedUsage(), [pod("web"), pod("db")], {"cpu": 2000}
    assert [one["cpu"] for one in usage.actual_usage(pods, room)] == [500, 500]
    assert usage.cpu_waiting_percent(pods, room) == 0.0
    usage.set(PodLoad("noisy", selector=LabelSelector(match_labels={"app": "web"}), amounts={"cpu": 7500}))
    assert [one["cpu"] for one in usage.actual_usage(pods, room)] == [1875, 125]
    assert usage.cpu_waiting_percent(pods, room) == 75.0
