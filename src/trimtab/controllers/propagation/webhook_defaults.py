"""Sets the defaults that an admission webhook would have set, where none is installed."""

from collections.abc import Iterator
from datetime import datetime

from trimtab.api.admission.ocm import stamp_unset_taints
from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm_clusters import ManagedCluster
from trimtab.api.kinds.override_policy import ClusterOverridePolicy, OverridePolicy
from trimtab.api.kinds.policy import ClusterPropagationPolicy, PropagationPolicy
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.paths import map_objects_at
from trimtab.api.value import Object, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Effect, Ensure, View, controller, spec_changed


@controller(
    PropagationPolicy,
    ClusterPropagationPolicy,
    OverridePolicy,
    ClusterOverridePolicy,
    WorkloadRebalancer,
    Cluster,
    ManagedCluster,
    writes=["spec", "metadata.labels"],
    predicate=spec_changed,
)
def webhook_defaults(subject: Object, view: View) -> Iterator[Effect]:
    seen = view.raw(well_known.ref_of(subject))
    if seen is None or subject.metadata.deletion_timestamp is not None:
        return
    wanted = with_defaults(seen, subject)
    if isinstance(subject, Cluster):
        wanted = with_taint_times(wanted, view.now)
    elif isinstance(subject, ManagedCluster):
        wanted = stamp_unset_taints(wanted, None, view.now)
    if wanted != seen:
        yield Ensure(wanted, seen=seen)


def with_defaults(raw: Raw, subject: Object) -> Raw:
    """The object with every default that a schema cannot express."""
    kind = kind_of(subject)
    for fill in (*kind.defaults, *kind.admission_defaults):
        raw = fill(raw)
    return raw


def with_taint_times(cluster: Raw, now: datetime) -> Raw:
    """The cluster with `timeAdded` on every NoExecute taint: `tolerationSeconds` count from it."""

    def with_time(taint: Raw) -> Raw:
        if taint.get("effect") != "NoExecute" or taint.get("timeAdded"):
            return taint
        return {**taint, "timeAdded": now.strftime("%Y-%m-%dT%H:%M:%SZ")}

    return map_objects_at(cluster, ("spec", "taints"), with_time)
