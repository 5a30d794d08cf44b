"""The change that a plan is about: objects to apply, clusters to lose or drain, taints to set, workloads to rebalance."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import msgspec
from msgspec.structs import asdict

from trimtab.api.kind import find_kind
from trimtab.api.kinds.cluster import CORDON_TAINT, NOT_READY_TAINT, Cluster, Taint
from trimtab.api.kinds.ocm_clusters import ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding
from trimtab.api.kinds.ocm_placement import AddOnPlacementScore, OcmPlacement, PlacementDecision
from trimtab.api.kinds.rebalancer import RebalancerSpec, WorkloadRebalancer
from trimtab.api.value import Field, Meta, Object, Raw, Value
from trimtab.client.client import resource_of
from trimtab.controllers.clusters.health import ready_condition
from trimtab.controllers.conditions import with_condition
from trimtab.controllers.ocm.placement import placement_request
from trimtab.controllers.ocm.placement_decisions import new_decision
from trimtab.controllers.well_known import DRAIN
from trimtab.decide.ocm.groups import decision_pages
from trimtab.decide.ocm.pipeline import UnlistableClusterSet, decide
from trimtab.dryrun.documents import documents_in
from trimtab.dryrun.fleet_state import FleetState, name_of
from trimtab.errors import InputError
from trimtab.runtime.propagatable import is_propagatable

PLANNED_REBALANCER = "planned-rebalance"
"""The name of the WorkloadRebalancer that stands for a rebalance in a plan."""
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
TAINT_SYNTAX = f"KEY[=VALUE]:EFFECT with one of the effects {', '.join(EFFECTS)}, and a `-` at the end to remove it"
OCM_KINDS = (OcmPlacement, ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, AddOnPlacementScore)
MAX_LISTED = 20


class TaintChange(Value):
    """A taint that is set on a cluster, or removed from it."""

    cluster: str
    key: str
    value: str = ""
    effect: str = ""
    remove: bool = False


class Change(Value):
    """Everything that a plan assumes to happen, in this order: objects, drains, taints, losses, rebalance."""

    objects: Annotated[tuple[Raw, ...], Field("Objects to apply, as they were written.")] = ()
    drain: Annotated[tuple[str, ...], Field("Clusters to drain.")] = ()
    taints: Annotated[tuple[TaintChange, ...], Field("Taints to set or to remove.")] = ()
    lose_clusters: Annotated[tuple[str, ...], Field("Clusters that fail.")] = ()
    lose_regions: Annotated[tuple[str, ...], Field("Regions whose clusters fail.")] = ()
    rebalance: Annotated[Raw | None, Field("The spec of a WorkloadRebalancer to create.")] = None

    @property
    def is_loss(self) -> bool:
        return bool(self.lose_clusters or self.lose_regions)

    @property
    def is_empty(self) -> bool:
        return self == Change()


def parse_taint(text: str) -> TaintChange:
    """`member1:key=value:NoExecute`; a `-` at the end removes the taint."""
    cluster, _, rest = text.partition(":")
    change = parse_taint_of(cluster, rest)
    if change is None:
        raise InputError(f"{text!r} is not a taint; use CLUSTER:{TAINT_SYNTAX}")
    return change


def parse_taint_of(cluster: str, text: str) -> TaintChange | None:
    """`key=value:NoExecute` for a cluster; None where the text is no taint."""
    remove = text.endswith("-")
    label, _, effect = text.removesuffix("-").rpartition(":")
    if remove and effect and not label:
        label, effect = effect, ""  # a removal may leave the effect out
    key, _, value = label.partition("=")
    if not cluster or not key or (effect not in EFFECTS and not (remove and not effect)):
        return None
    return TaintChange(cluster=cluster, key=key, value=value, effect=effect, remove=remove)


def lost_clusters(state: FleetState, change: Change) -> list[str]:
    """The names of the clusters that fail; raises InputError for unknown clusters and regions."""
    known = {cluster.name: cluster for cluster in state.all(Cluster)}
    for name in change.lose_clusters:
        require_cluster(name, known)
    names = set(change.lose_clusters)
    for region in change.lose_regions:
        found = {name for name, cluster in known.items() if cluster.spec.region == region}
        if not found:
            regions = sorted({cluster.spec.region for cluster in known.values() if cluster.spec.region})
            raise InputError(f"no cluster is in the region {region!r}; regions: {list_some(regions)}")
        names |= found
    return sorted(names)


def require_cluster(name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise InputError(f"there is no cluster {name!r}; clusters: {list_some(sorted(known))}")


def list_some(names: Sequence[str]) -> str:
    return (", ".join(names[:MAX_LISTED]) + (" and more" if len(names) > MAX_LISTED else "")) or "none"


def apply_change(state: FleetState, change: Change) -> FleetState:
    """The state right after the change, before any controller has reacted."""
    after = apply_objects(state, change.objects) if change.objects else state
    known = {cluster.name: cluster for cluster in after.all(Cluster)}
    for name in (*change.drain, *(taint.cluster for taint in change.taints)):
        require_cluster(name, known)
    for name in change.drain:
        known[name] = with_drain(known[name], state)
    for taint in change.taints:
        known[taint.cluster] = with_taint_change(known[taint.cluster], taint, state)
    for name in lost_clusters(after, change):
        known[name] = with_failure(known[name], state)
    after = after.with_objects(known.values())
    if change.rebalance is not None:
        after = after.with_objects([planned_rebalancer(change.rebalance)])
    return after


def planned_rebalancer(spec: Raw) -> WorkloadRebalancer:
    try:
        typed = msgspec.convert(spec, RebalancerSpec, strict=False)
    except msgspec.ValidationError as fault:
        raise InputError(f"the rebalance is invalid: {fault}") from fault
    return WorkloadRebalancer(metadata=Meta(name=PLANNED_REBALANCER, generation=1), spec=typed)


def apply_objects(state: FleetState, raws: Sequence[Raw]) -> FleetState:
    """The state with these objects applied: what only the server sets stays as it is."""
    from trimtab.dryrun.manifests import complete_documents  # noqa: PLC0415 - it imports the API server

    objects, templates = [], []
    documents = [
        document for position, raw in enumerate(raws, 1) for document in documents_in(raw, "the change", position)
    ]
    for raw in (item.raw for item in complete_documents(documents).items):
        kind = find_kind(raw["apiVersion"], raw["kind"])
        if kind is not None and not is_propagatable(resource_of(kind)):
            objects.append(_applied_object(kind.decode(raw), state))
        else:
            templates.append(_applied_template(raw, state))
            if kind is not None and kind.type in state.objects:
                objects.append(_applied_object(kind.decode(raw), state))
    after = state.with_objects(objects).with_templates(templates)
    return decide_placements_again(after) if any(isinstance(thing, OCM_KINDS) for thing in objects) else after


def _applied_object(wanted: Object, state: FleetState) -> Object:
    seen = state.get(type(wanted), wanted.namespace, wanted.name)
    if seen is None:
        return wanted
    changes: dict[str, Any] = {
        "metadata": seen.metadata.but(
            labels=seen.metadata.labels | wanted.metadata.labels,
            annotations=seen.metadata.annotations | wanted.metadata.annotations,
        )
    }
    fields = asdict(seen)
    if "status" in fields and not isinstance(wanted, AddOnPlacementScore):
        changes["status"] = fields["status"]
    applied = wanted.but(**changes)
    if applied.but(metadata=seen.metadata) == seen:
        return applied
    return applied.but(metadata=applied.metadata.but(generation=seen.metadata.generation + 1))


def _applied_template(wanted: Raw, state: FleetState) -> Raw:
    seen = state.templates.get((wanted["apiVersion"], wanted["kind"]), {}).get(name_of(wanted))
    if seen is None:
        return wanted
    metadata = {**seen["metadata"], **wanted["metadata"]}
    for section in ("labels", "annotations"):
        merged = {**(seen["metadata"].get(section) or {}), **(wanted["metadata"].get(section) or {})}
        if merged:
            metadata[section] = merged
    return {**wanted, "metadata": metadata, **({"status": seen["status"]} if "status" in seen else {})}


def decide_placements_again(state: FleetState) -> FleetState:
    """The state with new decisions of all Placements."""
    view = state.view()
    snapshot = view.placement_snapshot
    pages: list[PlacementDecision] = []
    for placement in state.all(OcmPlacement):
        try:
            decision = decide(placement_request(placement, snapshot, view.cel, view), snapshot)
        except UnlistableClusterSet:
            continue
        pages += [new_decision(placement, page, None) for page in decision_pages(placement.name, decision.groups)]
    return state.without(PlacementDecision).with_objects(pages)


def with_drain(cluster: Cluster, state: FleetState) -> Cluster:
    if DRAIN in cluster.metadata.annotations:
        return cluster
    since = state.now.isoformat(timespec="seconds")
    drained = cluster.but(
        metadata=cluster.metadata.but(annotations=cluster.metadata.annotations | {DRAIN: since}),
    )
    return with_taint(drained, Taint(key=CORDON_TAINT, effect="NoSchedule"))


def with_taint_change(cluster: Cluster, change: TaintChange, state: FleetState) -> Cluster:
    if change.remove:
        kept = tuple(t for t in cluster.spec.taints if t.key != change.key or change.effect not in ("", t.effect))
        return cluster.but(spec=cluster.spec.but(taints=kept))
    now = state.now.replace(microsecond=0)
    added = now if change.effect == "NoExecute" else None
    return with_taint(cluster, Taint(key=change.key, value=change.value, effect=change.effect, time_added=added))


def with_taint(cluster: Cluster, taint: Taint) -> Cluster:
    others = tuple(t for t in cluster.spec.taints if (t.key, t.effect) != (taint.key, taint.effect))
    return cluster.but(spec=cluster.spec.but(taints=(*others, taint)))


def with_failure(cluster: Cluster, state: FleetState) -> Cluster:
    """The cluster as the control plane sees it when it has been unreachable for long enough to be evacuated."""
    now = state.now.replace(microsecond=0)
    lost = ready_condition("False", "ClusterNotReachable", "cluster is not reachable", now)
    failed = cluster.but(status=cluster.status.but(conditions=with_condition(cluster.status.conditions, lost)))
    failed = with_taint(failed, Taint(key=NOT_READY_TAINT, effect="NoSchedule", time_added=now))
    return with_taint(failed, Taint(key=NOT_READY_TAINT, effect="NoExecute", time_added=now))
