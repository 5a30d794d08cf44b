import pytest

from plugins.clusters import check_filter, cluster, placement_request
from trimtab.plugins import load

load()
TAINTED = cluster(
    taints=[{"key": "soft", "effect": "PreferNoSchedule"}, {"key": "k", "value": "v", "effect": "NoSchedule"}]
)


def test_the_first_taint_that_is_not_tolerated_is_named() -> None:
    reason = check_filter("TaintToleration", placement_request(placement={}), TAINTED)
    assert reason is not None
    assert reason.message == "cluster(s) had untolerated taint {k=v:NoSchedule}"


@pytest.mark.parametrize(
    ("toleration", "passes"),
    [
        ({"key": "k", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "value": "w"}, False),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "k", "operator": "Gt", "value": "v"}, False),
    ],
)
def test_a_toleration_matches_by_key_value_and_effect(toleration: dict[str, str], passes: bool) -> None:
    tolerant = placement_request(placement={"clusterTolerations": [toleration]})
    assert (check_filter("TaintToleration", tolerant, TAINTED) is None) is passes


@pytest.mark.parametrize(
    ("effect", "passes"), [("NoSchedule", False), ("NoExecute", False), ("PreferNoSchedule", True)]
)
def test_taints_that_repel_are_rejected_and_preferences_are_not(effect: str, passes: bool) -> None:
    tainted = cluster(taints=[{"key": "k", "effect": effect}])
    assert (check_filter("TaintToleration", placement_request(placement={}), tainted) is None) is passes
