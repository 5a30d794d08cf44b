import numpy as np
import pytest
from views import NOON

from trimtab.api.kinds.ocm import ManagedCluster, ManagedClusterClaim, ManagedClusterStatus, SpreadConstraintsTerm
from trimtab.api.value import Meta
from trimtab.decide.fleet import Fleet
from trimtab.decide.ocm.spread import spread_out

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


def chosen(wanted: int | None, *terms: SpreadConstraintsTerm) -> list[str]:
    totals = np.array([TOTALS[name] for name in FLEET.names])
    return FLEET.called(spread_out(totals, np.arange(len(FLEET)), wanted, terms, FLEET))


def by_region(
    skew: int = 1, *, strictly: bool = True, key: str = "region", kind: str = "Label"
) -> SpreadConstraintsTerm:
    how = "DoNotSchedule" if strictly else "ScheduleAnyway"
    return SpreadConstraintsTerm(topology_key=key, topology_key_type=kind, max_skew=skew, when_unsatisfiable=how)


def test_one_of_each_region_comes_before_a_second_of_the_best() -> None:
    assert chosen(3, by_region()) == ["a1", "b1", "c1"]
    assert chosen(5, by_region()) == ["a1", "a2", "b1", "b2", "c1"]


def test_a_strict_constraint_gives_fewer_rather_than_uneven_ones() -> None:
    assert chosen(7, by_region()) == ["a1", "a2", "b1", "b2", "c1"]
    assert chosen(None, by_region()) == ["a1", "a2", "b1", "b2", "c1"]


def test_a_wider_skew_lets_the_best_go_further() -> None:
    assert chosen(3, by_region(2)) == ["a1", "a2", "b1"]


def test_a_mild_constraint_prefers_even_numbers_and_gives_all_that_are_wanted() -> None:
    assert chosen(3, by_region(strictly=False)) == ["a1", "b1", "c1"]
    assert chosen(7, by_region(strictly=False)) == sorted(PLACES)


@pytest.mark.parametrize("strictly", [True, False])
def test_a_cluster_that_does_not_say_where_it_is_comes_last_or_not_at_all(strictly: bool) -> None:
    assert ("x1" in chosen(6, by_region(strictly=strictly))) is False


def test_constraints_hold_together_and_claims_count_as_labels_do() -> None:
    zones = by_region(key="zone", kind="Claim")
    assert chosen(2, by_region(), zones) == ["a1", "b2"]
