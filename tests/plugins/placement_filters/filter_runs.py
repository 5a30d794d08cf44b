"""Applies one placement filter to managed clusters."""

from views import NOON

from trimtab.api.kinds.ocm_clusters import ManagedCluster, ManagedClusterSpec, ManagedClusterTaint
from trimtab.api.kinds.ocm_placement import (
    PlacementSpec,
)
from trimtab.api.value import Meta
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import filter_mask, placement_filters
from trimtab.decide.ocm.request import OcmRequest
from trimtab.interpret.cel.expressions import compiler
from trimtab.plugins import load

load()


def ocm_request(spec: PlacementSpec, *placed: str, cel: bool = True) -> OcmRequest:
    return OcmRequest(namespace="ns", name="p", spec=spec, now=NOON, placed=placed, cel=compiler() if cel else None)


def cluster(name: str, *taints: ManagedClusterTaint, **labels: str) -> ManagedCluster:
    return ManagedCluster(metadata=Meta(name=name, labels=labels), spec=ManagedClusterSpec(taints=taints))


def accepted_by(name: str, question: OcmRequest, *clusters: ManagedCluster) -> list[str]:
    """The clusters that the filter accepts; its check and its mask must agree."""
    fleet = Fleet.of(clusters, now=NOON)
    plugin = placement_filters[name]
    mask = filter_mask(plugin, question, fleet).tolist()
    check = plugin.prepare(question, fleet)
    assert mask == [check(target) is None for target in fleet.targets]
    return [target.name for target, passes in zip(fleet.targets, mask, strict=True) if passes]
