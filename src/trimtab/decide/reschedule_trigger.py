"""Whether a binding must be decided again, and why."""

import msgspec

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.policy import ClusterAffinityTerm, Placement
from trimtab.api.kinds.work import Binding
from trimtab.decide.fleet import Fleet
from trimtab.decide.request import DEFAULT_FEATURE_GATES, DUPLICATED, FeatureGates, placement_request_of

APPLIED_PLACEMENT = "policy.karmada.io/applied-placement"


def read_placement(text: str) -> Placement | None:
    """The placement in an annotation, which anybody who may change the object can write; None when it is invalid."""
    try:
        return msgspec.json.decode(text, type=Placement, strict=False)
    except (msgspec.MsgspecError, RecursionError):
        return None


def reschedule_reason(
    binding: Binding, fleet: Fleet[Cluster], feature_gates: FeatureGates = DEFAULT_FEATURE_GATES
) -> str:
    """The first reason to decide: PlacementChanged, ReplicasChanged, RescheduleTriggered, DuplicatedOrNonWorkload,
    TargetClusterTerminating; or None, and then the placement stays.
    """
    if has_placement_changed(binding):
        return "PlacementChanged"
    if have_replicas_changed(binding, feature_gates):
        return "ReplicasChanged"
    request = placement_request_of(binding)
    if request.fresh:
        return "RescheduleTriggered"
    if not request.is_workload or request.placement.strategy == DUPLICATED:
        return "DuplicatedOrNonWorkload"
    targets = [fleet.get(target.name) for target in binding.spec.clusters]
    if any(cluster is not None and cluster.metadata.deletion_timestamp is not None for cluster in targets):
        return "TargetClusterTerminating"
    return "None"


def has_placement_changed(binding: Binding) -> bool:
    """Whether the placement differs from the one applied last, in a part that affects the current clusters."""
    text = binding.metadata.annotations.get(APPLIED_PLACEMENT, "")
    placement = binding.spec.placement or Placement()
    if not text:
        return True
    applied = read_placement(text)
    if applied is None or applied == placement:
        return False
    common = {"cluster_affinities": (), "workload_affinity": None}
    if applied.but(**common) != placement.but(**common):
        return True
    observed = binding.status.scheduler_observing_affinity_name
    if not observed:
        return True
    before, now = _affinity_term(applied, observed), _affinity_term(placement, observed)
    return before is None or now is None or before != now


def _affinity_term(placement: Placement, name: str) -> ClusterAffinityTerm | None:
    return next((term for term in placement.cluster_affinities if term.affinity_name == name), None)


def have_replicas_changed(binding: Binding, feature_gates: FeatureGates = DEFAULT_FEATURE_GATES) -> bool:
    spec = binding.spec
    scheduling = spec.placement.replica_scheduling if spec.placement is not None else None
    if scheduling is None:
        return False
    if feature_gates.components and spec.components and not spec.clusters:
        return True
    if scheduling.replica_scheduling_type == "Duplicated":
        return any(target.replicas != spec.replicas for target in spec.clusters)
    if scheduling.replica_scheduling_type == "Divided":
        return sum(target.replicas for target in spec.clusters) != spec.replicas
    return False
