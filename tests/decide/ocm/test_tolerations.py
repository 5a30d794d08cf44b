from datetime import timedelta

import pytest
from views import NOON

from trimtab.api.kinds.ocm_clusters import ManagedCluster, ManagedClusterSpec, ManagedClusterTaint
from trimtab.api.kinds.ocm_placement import PlacementToleration
from trimtab.api.value import Meta
from trimtab.decide.ocm.tolerations import FOREVER, NEVER, is_harmless, matches_taint, tolerated_until

TAINT = ManagedClusterTaint(key="gpu", value="a", effect="NoSelect", time_added=NOON)


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"key": "gpu", "value": "a"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "b"}, False),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "PreferNoSelect"}, False),
        ({"key": "cpu", "operator": "Exists"}, False),
    ],
)
def test_a_toleration_matches_by_key_value_and_effect(toleration: dict[str, str], expected: bool) -> None:
    assert matches_taint(PlacementToleration(**toleration), TAINT) is expected


@pytest.mark.parametrize(
    ("effect", "new", "in_use"),
    [("NoSelect", False, False), ("PreferNoSelect", True, True), ("NoSelectIfNew", False, True)],
)
def test_only_some_effects_exclude_a_cluster(effect: str, new: bool, in_use: bool) -> None:
    taint = TAINT.but(effect=effect)
    assert (is_harmless(taint, in_use=False), is_harmless(taint, in_use=True)) == (new, in_use)


def test_all_taints_must_be_tolerated_and_the_first_end_counts() -> None:
    def until(*seconds: int | None) -> float:
        tolerations = [PlacementToleration(key="gpu", operator="Exists", toleration_seconds=one) for one in seconds]
        cluster = ManagedCluster(metadata=Meta(name="a"), spec=ManagedClusterSpec(taints=(TAINT,)))
        return tolerated_until(tolerations, in_use=False)(cluster)

    assert until() == NEVER
    assert until(60) == (NOON + timedelta(seconds=60)).timestamp()
    assert until(60, None) == FOREVER
