from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.node import Taint
from trimtab.api.kinds.native.pod import NodeSelectorTerm, Pod, Toleration


def test_pod_keeps_the_fields_that_scheduling_reads() -> None:
    raw = {
        "metadata": {
            "name": "a",
            "ownerReferences": [{"kind": "ReplicaSet", "name": "rs", "uid": "u", "controller": True}],
        },
        "spec": {"containers": [{"name": "c", "tty": True, "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    pod = kind_of(Pod).decode(raw)
    assert isinstance(pod, Pod)
    assert pod.spec.containers[0].resources.requests == {"cpu": "1"}
    assert pod.status.pod_ip == "10.0.0.1"
    assert pod.is_ready
    assert not pod.is_terminal
    assert pod.controller is not None
    assert pod.controller.name == "rs"


def test_toleration_without_key_tolerates_every_taint_of_its_effect() -> None:
    everything = Toleration(operator="Exists", effect="NoSchedule")
    assert everything.tolerates(Taint(key="a", effect="NoSchedule"))
    assert not everything.tolerates(Taint(key="a", effect="NoExecute"))
    assert not Toleration(key="a", value="x").tolerates(Taint(key="a", value="y", effect="NoSchedule"))


def test_node_selector_term_without_parts_matches_nothing() -> None:
    assert not NodeSelectorTerm().matches({"a": "b"}, {})
