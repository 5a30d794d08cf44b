from typing import Any

import msgspec
from pod_builders import node, pod

from trimtab.api.kinds.native.pod import Toleration
from trimtab.decide.pods.fit.node_predicates import REPELLING, node_requirements, untolerated, wants
from trimtab.decide.pods.node_info import host


def affinity(**rule: Any) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def test_node_must_match_node_selector_and_required_affinity() -> None:
    plain, labelled = host(node("a")), host(node("b", labels={"pool": "x", "disk": "ssd"}))
    both = pod("p", nodeSelector={"pool": "x"}, **affinity(key="disk", operator="In", values=["ssd"])).spec
    assert (wants(both)(plain), wants(both)(labelled)) == (False, True)
    assert not wants(pod("p", nodeSelector={"pool": "y"}).spec)(labelled)
    assert not wants(pod("p", **affinity(key="disk", operator="DoesNotExist")).spec)(labelled)


def test_pods_with_the_same_requirements_share_a_key() -> None:
    assert node_requirements(pod("p", nodeSelector={"a": "1", "b": "2"}).spec) == node_requirements(
        pod("q", nodeSelector={"b": "2", "a": "1"}).spec
    )


def test_first_taint_without_toleration_is_returned() -> None:
    taints = node("a", taints=["soft=x:PreferNoSchedule", "one=x:NoSchedule", "two=x:NoExecute"]).spec.taints
    one = msgspec.convert({"key": "one", "operator": "Exists"}, Toleration)
    first, second = untolerated(taints, (), REPELLING), untolerated(taints, (one,), REPELLING)
    assert first is not None
    assert second is not None
    assert (first.key, second.key) == ("one", "two")
    assert untolerated(taints, (one,), {"NoSchedule"}) is None
