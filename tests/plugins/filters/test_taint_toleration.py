import pytest

from plugins.clusters import ask, cluster, verdict
from trimtab.plugins import load

load()
TAINTED = cluster(
    taints=[{"key": "soft", "effect": "PreferNoSchedule"}, {"key": "k", "value": "v", "effect": "NoSchedule"}]
)


def test_the_first_taint_that_is_not_tolerated_is_named() -> None:
    reason = verdict("TaintToleration", ask(placement={}), TAINTED)
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
    tolerant = ask(placement={"clusterTolerations": [toleration]})
    assert (verdict("TaintToleration", tolerant, TAINTED) is None) is passes
