from api.kinds.kind_helpers import decode
from trimtab.api.kinds.native.scheduling import PriorityClass, RuntimeClass


def test_priority_class_keeps_value_and_preemption_policy() -> None:
    raw = {"metadata": {"name": "p"}, "value": -10, "globalDefault": True, "preemptionPolicy": "Never"}
    priority_class = decode(PriorityClass, raw)
    assert (priority_class.value, priority_class.global_default) == (-10, True)
    assert priority_class.preemption_policy == "Never"


def test_runtime_class_keeps_the_overhead_of_its_pods() -> None:
    raw = {"metadata": {"name": "r"}, "handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}}}
    runtime_class = decode(RuntimeClass, raw)
    assert runtime_class.handler == "kata"
    assert runtime_class.overhead is not None
    assert runtime_class.overhead.pod_fixed == {"cpu": "250m"}
    assert decode(RuntimeClass, {"metadata": {"name": "r"}}).overhead is None
