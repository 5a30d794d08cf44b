import numpy as np
import pytest
from views import NOON

from trimtab.api.kinds.ocm_clusters import ManagedCluster, ManagedClusterClaim, ManagedClusterStatus
from trimtab.api.kinds.ocm_placement import SpreadConstraintsTerm
from trimtab.api.value import Meta
from trimtab.decide.fleet import Fleet
from trimtab.decide.ocm.spread import select_spread

PLACES = {"a1": "a", "a2": "a", "a3": "a", "b1": "b", "b2": "b", "c1": "c", "x1": ""}
FLEET = Fleet.of(
    [
        ManagedCluster(
            metadata=Meta(name=name, labels={"region": place} if place else {}),
            status=ManagedClusterStatus(
                cluster_claims=(ManagedClusterClaim(name="zone", value=name[-1]),),
            ),
        )
        for name, place in PLACES.items()
    ],
    now=NOON,
)
TOTALS = {"a1": 90, "a2": 80, "a3": 70, "b1": 10, "b2": 5, "c1": -50, "x1": 100}


def select(wanted: int | None, *terms: SpreadConstraintsTerm) -> list[str]:
    totals = np.array([TOTALS[name] for name in FLEET.names])
    return FLEET.names_at(select_spread(totals, np.arange(len(FLEET)), wanted, terms, FLEET))


def region_term(
    skew: int = 1, *, strictly: bool = True, key: str = "region", kind: str = "Label"
) -> SpreadConstraintsTerm:
    how = "DoNotSchedule" if strictly else "ScheduleAnyway"
    return SpreadConstraintsTerm(topology_key=key, topology_key_type=kind, max_skew=skew, when_unsatisfiable=how)


def test_each_region_gets_one_cluster_before_the_best_gets_a_second() -> None:
    assert select(3, region_term()) == ["a1", "b1", "c1"]
    assert select(5, region_term()) == ["a1", "a2", "b1", "b2", "c1"]


def test_a_strict_constraint_selects_fewer_rather_than_uneven_clusters() -> None:
    assert select(7, region_term()) == ["a1", "a2", "b1", "b2", "c1"]
    assert select(None, region_term()) == ["a1", "a2", "b1", "b2", "c1"]


def test_a_larger_max_skew_allows_more_of_the_best() -> None:
    assert select(3, region_term(2)) == ["a1", "a2", "b1"]


def test_a_soft_constraint_prefers_even_domains_and_selects_all_wanted() -> None:
    assert select(3, region_term(strictly=False)) == ["a1", "b1", "c1"]
    assert select(7, region_term(strictly=False)) == sorted(PLACES)


@pytest.mark.parametrize("strictly", [True, False])
def test_a_cluster_without_a_domain_comes_last_or_is_excluded(strictly: bool) -> None:
    assert ("x1" in select(6, region_term(strictly=strictly))) is False


def test_constraints_apply_together_and_claims_work_like_labels() -> None:
    zones = region_term(key="zone", kind="Claim")
    assert select(2, region_term(), zones) == ["a1", "b2"]
