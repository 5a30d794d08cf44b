from trimtab.api.value import Key
from trimtab.simulate.kubelets.pod_admission import PodAdmission

CAPACITY = {"cpu": 2000, "pods": 2}
A, B = Key("pods", "default", "a"), Key("pods", "default", "b")


def test_pod_is_refused_when_the_admitted_ones_leave_too_little() -> None:
    admission = PodAdmission()
    admission.add(A, "one", {"cpu": 1500})
    assert admission.insufficient_resource("one", CAPACITY, {"cpu": 600}) == "cpu"
    assert admission.insufficient_resource("one", CAPACITY, {"cpu": 500}) is None
    assert admission.insufficient_resource("two", CAPACITY, {"cpu": 600}) is None
    message = admission.rejection_message("one", CAPACITY, {"cpu": 600}, "cpu")
    assert message.endswith("enough resource: cpu, requested: 600, used: 1500, capacity: 2000")


def test_number_of_pods_is_limited_and_a_removed_pod_gives_its_place_back() -> None:
    admission = PodAdmission()
    admission.add(A, "one", {})
    admission.add(B, "one", {})
    assert admission.insufficient_resource("one", CAPACITY, {}) == "pods"
    admission.remove(B, "one")
    assert admission.insufficient_resource("one", CAPACITY, {}) is None
