"""Applies one placement filter to managed clusters."""

from views import NOON

from trimtab.api.kinds.ocm_clusters import ManagedCluster, ManagedClusterSpec, ManagedClusterTaint
from trimtab.api.kinds.ocm_placement import (
    PlacementSpec,
)
from trimtab.api.value import Meta
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import placement_filters, verdicts
from trimtab.decide.ocm.request import PlacementAsk
from trimtab.interpret.cel.expressions import compiler
from trimtab.plugins import load

load()


def ask(spec: PlacementSpec, *placed: str, cel: bool = True) -> PlacementAsk:
    return PlacementAsk(namespace="ns", name="p", spec=spec, now=NOON, placed=placed, cel=compiler() if cel else None)


def cluster(name: str, *taints: ManagedClusterTaint, **labels: str) -> ManagedCluster:
    return ManagedCluster(metadata=Meta(name=name, labels=labels), spec=ManagedClusterSpec(taints=taints))


def passing(name: str, question: PlacementAsk, *clusters: ManagedCluster) -> list[str]:
    """The clusters that the filter accepts; its check and its mask must agree."""
    fleet = Fleet.of(clusters, now=NOON)
    plugin = placement_filters[name]
    mask = verdicts(plugin, question, fleet).tolist()
    check = plugin.study(question, fleet)
    assert mask == [check(target) is None for target in fleet.targets]
    return [target.name for target, passes in zip(fleet.targets, mask, strict=True) if passes]
