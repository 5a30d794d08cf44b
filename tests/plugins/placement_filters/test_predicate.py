import pytest

from plugins.placement_filters.filter_runs import ask, cluster, passing
from trimtab.api.kinds.ocm_placement import (
    ClusterCelSelector,
    ClusterPredicate,
    ClusterSelector,
    PlacementSpec,
)
from trimtab.api.selectors import LabelSelector
from trimtab.decide.ocm.decision import Misconfigured


def by(**fields: object) -> ClusterPredicate:
    return ClusterPredicate(required_cluster_selector=ClusterSelector(**fields))


def test_one_matching_predicate_is_enough() -> None:
    spec = PlacementSpec(
        predicates=(
            by(label_selector=LabelSelector(match_labels={"env": "prod"})),
            by(cel_selector=ClusterCelSelector(cel_expressions=('managedCluster.metadata.name == "b"',))),
        )
    )
    clusters = (cluster("a", env="prod"), cluster("b", env="dev"), cluster("c", env="dev"))
    assert passing("Predicate", ask(spec), *clusters) == ["a", "b"]


def test_cel_expressions_without_the_extra_are_rejected() -> None:
    spec = PlacementSpec(predicates=(by(cel_selector=ClusterCelSelector(cel_expressions=("true",))),))
    with pytest.raises(Misconfigured, match="extra `cel`"):
        passing("Predicate", ask(spec, cel=False), cluster("a"))
