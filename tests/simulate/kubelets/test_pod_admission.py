from trimtab.api.value import Key
from trimtab.decide.pods.fit.requests import Amounts, HostPort, PodResources
from trimtab.simulate.kubelets.pod_admission import PodAdmission

HTTP = HostPort("0.0.0.0", "TCP", 80)
CAPACITY = {"cpu": 2000, "pods": 2}
A, B = Key("pods", "default", "a"), Key("pods", "default", "b")


def resources(requests: Amounts, *ports: HostPort) -> PodResources:
    return PodResources(requests, 0, 0, ports)


def test_pod_is_refused_when_the_admitted_ones_leave_too_little() -> None:
    admission = PodAdmission()
    admission.add(A, "one", resources({"cpu": 1500}))
    assert admission.insufficient_resource("one", CAPACITY, {"cpu": 600}) == "cpu"
    assert admission.insufficient_resource("one", CAPACITY, {"cpu": 500}) is None
    assert admission.insufficient_resource("two", CAPACITY, {"cpu": 600}) is None
    message = admission.rejection_message("one", CAPACITY, {"cpu": 600}, "cpu")
    assert message.endswith("enough resource: cpu, requested: 600, used: 1500, capacity: 2000")


def test_number_of_pods_is_limited_and_a_removed_pod_gives_its_place_back() -> None:
    admission = PodAdmission()
    admission.add(A, "one", resources({}))
    admission.add(B, "one", resources({}))
    assert admission.insufficient_resource("one", CAPACITY, {}) == "pods"
    admission.remove(B, "one")
    assert admission.insufficient_resource("one", CAPACITY, {}) is None


def test_host_port_is_taken_until_its_pod_is_removed() -> None:
    admission = PodAdmission()
    admission.add(A, "one", resources({}, HTTP))
    assert admission.has_port_conflict("one", [HTTP])
    assert not admission.has_port_conflict("one", [HostPort("0.0.0.0", "UDP", 80)])
    assert not admission.has_port_conflict("two", [HTTP])
    admission.remove(A, "one")
    assert not admission.has_port_conflict("one", [HTTP])


def test_rejection_names_the_system_then_the_lacking_resource_then_the_port() -> None:
    admission = PodAdmission()
    admission.add(A, "one", resources({"cpu": 1500}, HTTP))
    pod = {"spec": {"nodeName": "one"}}
    windows = {"spec": {"nodeName": "one", "os": {"name": "windows"}}}
    needs = [(windows, {}, ()), (pod, {"cpu": 600}, (HTTP,)), (pod, {"cpu": 500}, (HTTP,)), (pod, {"cpu": 500}, ())]
    rejections = [admission.check(raw, resources(amounts, *ports), CAPACITY) for raw, amounts, ports in needs]
    assert [one and one.reason for one in rejections] == ["PodOSNotSupported", "OutOfcpu", "NodePorts", None]
