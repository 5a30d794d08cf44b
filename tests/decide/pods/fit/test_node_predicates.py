from typing import Any

import msgspec
from pod_builders import node, pod

from trimtab.api.kinds.native.pod import Toleration
from trimtab.decide.pods.fit.node_predicates import (
    REPELLING,
    first_untolerated_taint,
    node_requirements,
    required_node_matcher,
)
from trimtab.decide.pods.node_info import build_node_info


def affinity(**rule: Any) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def test_node_must_match_node_selector_and_required_affinity() -> None:
    plain, labelled = build_node_info(node("a")), build_node_info(node("b", labels={"pool": "x", "disk": "ssd"}))
    both = pod("p", nodeSelector={"pool": "x"}, **affinity(key="disk", operator="In", values=["ssd"])).spec
    assert (required_node_matcher(both)(plain), required_node_matcher(both)(labelled)) == (False, True)
    assert not required_node_matcher(pod("p", nodeSelector={"pool": "y"}).spec)(labelled)
    assert not required_node_matcher(pod("p", **affinity(key="disk", operator="DoesNotExist")).spec)(labelled)


def test_pods_with_the_same_requirements_share_a_key() -> None:
    assert node_requirements(pod("p", nodeSelector={"a": "1", "b": "2"}).spec) == node_requirements(
        pod("q", nodeSelector={"b": "2", "a": "1"}).spec
    )


def test_first_taint_without_toleration_is_returned() -> None:
    taints = node("a", taints=["soft=x:PreferNoSchedule", "one=x:NoSchedule", "two=x:NoExecute"]).spec.taints
    one = msgspec.convert({"key": "one", "operator": "Exists"}, Toleration)
    first, second = first_untolerated_taint(taints, (), REPELLING), first_untolerated_taint(taints, (one,), REPELLING)
    assert first is not None
    assert second is not None
    assert (first.key, second.key) == ("one", "two")
    assert first_untolerated_taint(taints, (one,), {"NoSchedule"}) is None
