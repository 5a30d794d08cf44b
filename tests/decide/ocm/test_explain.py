from views import NOON

from trimtab import plugins
from trimtab.api.kinds.ocm_clusters import (
    ManagedCluster,
    ManagedClusterSelector,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    ManagedClusterSetBindingSpec,
    ManagedClusterSetSpec,
    ManagedClusterSpec,
    ManagedClusterTaint,
)
from trimtab.api.kinds.ocm_placement import ClusterPredicate, ClusterSelector, OcmPlacement, PlacementSpec
from trimtab.api.kinds.policy import PrioritizerPolicy
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Meta
from trimtab.decide.ocm.explain import cluster_outcomes, debug_document
from trimtab.decide.ocm.request import ocm_request_of
from trimtab.decide.ocm.snapshot import PlacementSnapshotCache

plugins.load()
TAINTED = ManagedClusterSpec(taints=(ManagedClusterTaint(key="gpu", effect="NoSelect"),))
THINGS = [
    ManagedCluster(metadata=Meta(name="a", labels={"set": "x", "env": "prod"})),
    ManagedCluster(metadata=Meta(name="b", labels={"set": "x", "env": "prod"})),
    ManagedCluster(metadata=Meta(name="c", labels={"set": "x", "env": "dev"})),
    ManagedCluster(metadata=Meta(name="d", labels={"set": "x", "env": "prod"}), spec=TAINTED),
    ManagedCluster(metadata=Meta(name="e")),
    ManagedClusterSet(
        metadata=Meta(name="x"),
        spec=ManagedClusterSetSpec(
            cluster_selector=ManagedClusterSelector(
                selector_type="LabelSelector", label_selector=LabelSelector(match_labels={"set": "x"})
            )
        ),
    ),
    ManagedClusterSetBinding(
        metadata=Meta(name="x", namespace="ns"), spec=ManagedClusterSetBindingSpec(cluster_set="x")
    ),
]
PROD = ClusterPredicate(
    required_cluster_selector=ClusterSelector(label_selector=LabelSelector(match_labels={"env": "prod"}))
)
PLACEMENT = OcmPlacement(
    metadata=Meta(name="p", namespace="ns", uid="u"), spec=PlacementSpec(number_of_clusters=1, predicates=(PROD,))
)


def test_every_cluster_has_an_outcome() -> None:
    scene = PlacementSnapshotCache(THINGS).snapshot(NOON)
    told = {fate.cluster: fate for fate in cluster_outcomes(ocm_request_of(PLACEMENT, scene), scene)}
    assert {name: fate.outcome for name, fate in told.items()} == {
        "a": "Selected",
        "b": "NotNeeded",
        "c": "Filtered",
        "d": "Filtered",
        "e": "NotInSets",
    }
    assert (told["c"].plugin, told["d"].plugin) == ("Predicate", "TaintToleration")
    assert told["d"].reason == "the cluster has the taint gpu:NoSelect"
    assert told["a"].total == told["b"].total == 100


def test_the_debug_document_has_the_shape_of_ocm() -> None:
    scene = PlacementSnapshotCache(THINGS).snapshot(NOON)
    assert debug_document(PLACEMENT, ocm_request_of(PLACEMENT, scene), scene) == {
        "placement": {
            "metadata": {"name": "p", "namespace": "ns"},
            "spec": {
                "numberOfClusters": 1,
                "predicates": [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"env": "prod"}}}}],
            },
        },
        "filteredPipelineResults": [
            {"name": "Predicate", "filteredClusters": ["a", "b", "d"]},
            {"name": "Predicate,TaintToleration", "filteredClusters": ["a", "b"]},
        ],
        "prioritizeResults": [
            {"name": "Balance", "weight": 1, "scores": {"a": 100, "b": 100}},
            {"name": "Steady", "weight": 1, "scores": {"a": 0, "b": 0}},
        ],
        "aggregatedScores": [{"clusterName": "a", "score": 100}, {"clusterName": "b", "score": 100}],
    }


def test_a_misconfigured_placement_reports_the_error_and_earlier_stages() -> None:
    scene = PlacementSnapshotCache(THINGS).snapshot(NOON)
    odd = PLACEMENT.but(spec=PlacementSpec(prioritizer_policy=PrioritizerPolicy(mode="Odd")))
    debug = debug_document(odd, ocm_request_of(odd, scene), scene)
    assert debug["error"] == "incorrect prioritizer policy mode: Odd"
    assert [step["name"] for step in debug["filteredPipelineResults"]] == ["Predicate", "Predicate,TaintToleration"]
