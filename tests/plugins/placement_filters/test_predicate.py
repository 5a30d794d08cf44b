import pytest

from plugins.placement_filters.filter_runs import accepted_by, cluster, ocm_request
from trimtab.api.kinds.ocm_placement import (
    ClusterCelSelector,
    ClusterPredicate,
    ClusterSelector,
    PlacementSpec,
)
from trimtab.api.selectors import LabelSelector
from trimtab.decide.ocm.decision import Misconfigured


def predicate_for(**fields: object) -> ClusterPredicate:
    return ClusterPredicate(required_cluster_selector=ClusterSelector(**fields))


def test_one_matching_predicate_is_enough() -> None:
    spec = PlacementSpec(
        predicates=(
            predicate_for(label_selector=LabelSelector(match_labels={"env": "prod"})),
            predicate_for(cel_selector=ClusterCelSelector(cel_expressions=('managedCluster.metadata.name == "b"',))),
        )
    )
    clusters = (cluster("a", env="prod"), cluster("b", env="dev"), cluster("c", env="dev"))
    assert accepted_by("Predicate", ocm_request(spec), *clusters) == ["a", "b"]


def test_cel_expressions_without_the_extra_are_rejected() -> None:
    spec = PlacementSpec(predicates=(predicate_for(cel_selector=ClusterCelSelector(cel_expressions=("true",))),))
    with pytest.raises(Misconfigured, match="extra `cel`"):
        accepted_by("Predicate", ocm_request(spec, cel=False), cluster("a"))
