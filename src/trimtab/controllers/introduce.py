"""What an admission webhook would have filled in, filled in at first sight where none is installed."""

from collections.abc import Iterator

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm import ManagedCluster
from trimtab.api.kinds.policy import (
    ClusterOverridePolicy,
    ClusterPropagationPolicy,
    OverridePolicy,
    PropagationPolicy,
)
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.value import Object, Raw
from trimtab.controllers import marks
from trimtab.controllers.contract import Make, View, Wish, controller, spec_changed


@controller(
    PropagationPolicy,
    ClusterPropagationPolicy,
    OverridePolicy,
    ClusterOverridePolicy,
    WorkloadRebalancer,
    Cluster,
    ManagedCluster,
    writes=["spec", "metadata.labels"],
    changed=spec_changed,
)
def introduce(newcomer: Object, view: View) -> Iterator[Wish]:
    seen = view.raw(marks.ref_of(newcomer))
    if seen is None or newcomer.metadata.deletion_timestamp is not None:
        return
    wanted = filled(seen, newcomer)
    if wanted != seen:
        yield Make(wanted, seen=seen)


def filled(raw: Raw, thing: Object) -> Raw:
    """The object with every default that its schema alone cannot give."""
    kind = kind_of(thing)
    for fill in (*kind.defaults, *kind.admission_defaults):
        raw = fill(raw)
    return raw
