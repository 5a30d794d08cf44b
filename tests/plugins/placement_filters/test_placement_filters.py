from datetime import timedelta

import pytest
from views import NOON

from trimtab.api.kinds.ocm import (
    ClusterCelSelector,
    ClusterPredicate,
    ClusterSelector,
    ManagedCluster,
    ManagedClusterSpec,
    ManagedClusterTaint,
    PlacementSpec,
    PlacementToleration,
)
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Meta
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import placement_filters, verdicts
from trimtab.decide.ocm.decision import Misconfigured
from trimtab.decide.ocm.request import PlacementAsk
from trimtab.decide.ocm.tolerations import first_end
from trimtab.interpret.cel.expressions import compiler
from trimtab.plugins import load

load()


def ask(spec: PlacementSpec, *placed: str, cel: bool = True) -> PlacementAsk:
    return PlacementAsk(namespace="ns", name="p", spec=spec, now=NOON, placed=placed, cel=compiler() if cel else None)


def cluster(name: str, *taints: ManagedClusterTaint, **labels: str) -> ManagedCluster:
    return ManagedCluster(metadata=Meta(name=name, labels=labels), spec=ManagedClusterSpec(taints=taints))


def taint(effect: str = "NoSelect", ago: int = 0, key: str = "gpu") -> ManagedClusterTaint:
    return ManagedClusterTaint(key=key, effect=effect, time_added=NOON - timedelta(seconds=ago))


def passing(name: str, question: PlacementAsk, *clusters: ManagedCluster) -> list[str]:
    """Those whom the filter lets pass; its words and its arrays must agree."""
    fleet = Fleet.of(clusters, now=NOON)
    plugin = placement_filters[name]
    mask = verdicts(plugin, question, fleet).tolist()
    check = plugin.study(question, fleet)
    assert mask == [check(target) is None for target in fleet.targets]
    return [target.name for target, passes in zip(fleet.targets, mask, strict=True) if passes]


def by(**fields: object) -> ClusterPredicate:
    return ClusterPredicate(required_cluster_selector=ClusterSelector(**fields))


def test_one_predicate_is_enough() -> None:
    spec = PlacementSpec(
        predicates=(
            by(label_selector=LabelSelector(match_labels={"env": "prod"})),
            by(cel_selector=ClusterCelSelector(cel_expressions=('managedCluster.metadata.name == "b"',))),
        )
    )
    clusters = (cluster("a", env="prod"), cluster("b", env="dev"), cluster("c", env="dev"))
    assert passing("Predicate", ask(spec), *clusters) == ["a", "b"]


def test_expressions_without_the_extra_are_refused_in_a_sentence() -> None:
    spec = PlacementSpec(predicates=(by(cel_selector=ClusterCelSelector(cel_expressions=("true",))),))
    with pytest.raises(Misconfigured, match="extra `cel`"):
        passing("Predicate", ask(spec, cel=False), cluster("a"))


def test_untolerated_taints_repel_unless_they_only_mean_newcomers() -> None:
    clusters = (
        cluster("a", taint()),
        cluster("b", taint("PreferNoSelect")),
        cluster("c", taint("NoSelectIfNew")),
        cluster("d"),
    )
    assert passing("TaintToleration", ask(PlacementSpec()), *clusters) == ["b", "d"]
    assert passing("TaintToleration", ask(PlacementSpec(), "c"), *clusters) == ["b", "c", "d"]


def test_a_toleration_lasts_as_long_as_it_says_and_the_next_takes_over() -> None:
    short = PlacementToleration(key="gpu", operator="Exists", toleration_seconds=60)
    long = PlacementToleration(key="gpu", operator="Exists", toleration_seconds=600)
    young, old = cluster("a", taint(ago=59)), cluster("b", taint(ago=60))
    assert passing("TaintToleration", ask(PlacementSpec(tolerations=(short,))), young, old) == ["a"]
    both = ask(PlacementSpec(tolerations=(short, long)), "a", "b")
    assert passing("TaintToleration", both, young, old) == ["a", "b"]
    assert first_end(both, Fleet.of((young, old))) == NOON + timedelta(seconds=1)


def test_a_taint_of_unknown_age_is_older_than_any_toleration_lasts() -> None:
    ageless = cluster("a", ManagedClusterTaint(key="gpu", effect="NoSelect"))
    timed = PlacementToleration(key="gpu", operator="Exists", toleration_seconds=10**6)
    assert passing("TaintToleration", ask(PlacementSpec(tolerations=(timed,))), ageless) == []
    endless = timed.but(toleration_seconds=None)
    assert passing("TaintToleration", ask(PlacementSpec(tolerations=(endless,))), ageless) == ["a"]


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
def test_tolerations_that_contradict_themselves_are_refused(toleration: PlacementToleration, text: str) -> None:
    with pytest.raises(Misconfigured, match=text):
        passing("TaintToleration", ask(PlacementSpec(tolerations=(toleration,))), cluster("a"))
