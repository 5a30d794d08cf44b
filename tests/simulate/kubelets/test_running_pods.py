from datetime import UTC, datetime

from trimtab.api.kinds.native.pod import Pod, PodSpec
from trimtab.api.value import Meta, Raw
from trimtab.simulate.kubelets.behaviour import Behaviour
from trimtab.simulate.kubelets.pod_lifecycle import PodLifecycle
from trimtab.simulate.kubelets.running_pods import RunningPods, key_of_pod


def pod(name: str, uid: str, node: str) -> Raw:
    return {
        "metadata": {"namespace": "default", "name": name, "uid": uid},
        "spec": {"nodeName": node, "containers": [{"name": "a", "image": "a"}]},
    }


def lifecycle(raw: Raw) -> PodLifecycle:
    behaviour = Behaviour(start=0.0, ready=0.0, stop=0.0, run=None)
    metadata = raw["metadata"]
    meta = Meta(name=metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"])
    pod = Pod(metadata=meta, spec=PodSpec(node_name=raw["spec"]["nodeName"]))
    return PodLifecycle(pod, raw, behaviour, 0.0, lambda moment: datetime.fromtimestamp(moment, tz=UTC))


def test_pods_are_found_by_their_node_until_they_are_removed() -> None:
    pods, first, second = RunningPods(), pod("first", "1", "one"), pod("second", "2", "two")
    for raw in (first, second):
        pods.lifecycles[key_of_pod(raw)] = lifecycle(raw)
    assert [key.name for key, _ in pods.on_node("one")] == ["first"]
    removed = pods.remove(key_of_pod(first))
    assert removed is not None
    assert removed.uid == "1"
    assert list(pods.on_node("one")) == []
    assert pods.remove(key_of_pod(first)) is None


def test_pod_created_again_under_the_same_name_is_another_one() -> None:
    pods, raw = RunningPods(), pod("first", "1", "one")
    pods.lifecycles[key_of_pod(raw)] = lifecycle(raw)
    assert pods.find_lifecycle(raw) is not None
    assert pods.find_lifecycle(pod("first", "another", "one")) is None
