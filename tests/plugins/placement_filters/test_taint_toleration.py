from datetime import timedelta

import pytest
from views import NOON

from plugins.placement_filters.filter_runs import accepted_by, cluster, ocm_request
from trimtab.api.kinds.ocm_clusters import ManagedClusterTaint
from trimtab.api.kinds.ocm_placement import (
    PlacementSpec,
    PlacementToleration,
)
from trimtab.decide.fleet import Fleet
from trimtab.decide.ocm.decision import Misconfigured
from trimtab.decide.ocm.tolerations import next_toleration_end


def taint(effect: str = "NoSelect", ago: int = 0, key: str = "gpu") -> ManagedClusterTaint:
    return ManagedClusterTaint(key=key, effect=effect, time_added=NOON - timedelta(seconds=ago))


def test_untolerated_taints_reject_except_no_select_if_new_in_use() -> None:
    clusters = (
        cluster("a", taint()),
        cluster("b", taint("PreferNoSelect")),
        cluster("c", taint("NoSelectIfNew")),
        cluster("d"),
    )
    assert accepted_by("TaintToleration", ocm_request(PlacementSpec()), *clusters) == ["b", "d"]
    assert accepted_by("TaintToleration", ocm_request(PlacementSpec(), "c"), *clusters) == ["b", "c", "d"]


def test_a_toleration_ends_after_its_seconds_and_a_longer_one_continues() -> None:
    short = PlacementToleration(key="gpu", operator="Exists", toleration_seconds=60)
    long = PlacementToleration(key="gpu", operator="Exists", toleration_seconds=600)
    young, old = cluster("a", taint(ago=59)), cluster("b", taint(ago=60))
    assert accepted_by("TaintToleration", ocm_request(PlacementSpec(tolerations=(short,))), young, old) == ["a"]
    both = ocm_request(PlacementSpec(tolerations=(short, long)), "a", "b")
    assert accepted_by("TaintToleration", both, young, old) == ["a", "b"]
    assert next_toleration_end(both, Fleet.of((young, old))) == NOON + timedelta(seconds=1)


def test_a_taint_without_time_added_exceeds_every_timed_toleration() -> None:
    ageless = cluster("a", ManagedClusterTaint(key="gpu", effect="NoSelect"))
    timed = PlacementToleration(key="gpu", operator="Exists", toleration_seconds=10**6)
    assert accepted_by("TaintToleration", ocm_request(PlacementSpec(tolerations=(timed,))), ageless) == []
    endless = timed.but(toleration_seconds=None)
    assert accepted_by("TaintToleration", ocm_request(PlacementSpec(tolerations=(endless,))), ageless) == ["a"]


@pytest.mark.parametrize(
    ("toleration", "text"),
    [
        (PlacementToleration(operator="Equal"), "If the key is empty, operator must be Exists."),
        (
            PlacementToleration(key="k", operator="Exists", value="v"),
            "If the operator is Exists, the value should be empty.",
        ),
    ],
)
def test_contradictory_tolerations_are_rejected(toleration: PlacementToleration, text: str) -> None:
    with pytest.raises(Misconfigured, match=text):
        accepted_by("TaintToleration", ocm_request(PlacementSpec(tolerations=(toleration,))), cluster("a"))
