"""Whether a pod fits on another node, for thousands of pods per descheduling cycle."""

from functools import cached_property

import numpy as np

from trimtab.decide.fleet import Array
from trimtab.decide.framework import Mask
from trimtab.decide.pods.affinity.affinity_terms import AffinityTerm
from trimtab.decide.pods.descheduling.cluster_view import ClusterView
from trimtab.decide.pods.fit.node_predicates import (
    REPELLING,
    first_untolerated_taint,
    node_requirements,
    required_node_matcher,
)
from trimtab.decide.pods.node_info import NodeInfo, PodInfo
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.request import pod_request_for
from trimtab.decide.pods.schedule import DEFAULT_SCHEDULER_PROFILE, best_column, feasible_nodes, total_scores


class NodeFit:
    """Fit by the current free resources, without the evictions of this cycle: the descheduler's own check."""

    def __init__(self, cluster_view: ClusterView) -> None:
        self.cluster_view = cluster_view
        self.nodes = cluster_view.nodes
        self.columns = {node_info.name: column for column, node_info in enumerate(self.nodes)}
        self._masks: dict[object, Mask] = {}
        self._name_masks: dict[frozenset[str], Mask] = {}
        self._free_arrays: dict[str, Array] = {}

    def fits(self, pod: PodInfo, *, other_than: str, among: frozenset[str] | None = None) -> bool:
        """Return whether a node (one of `among`, when given) fits the pod."""
        mask = self._fit_mask(pod, other_than, among)
        if not any(own.is_required and own.is_anti_affinity for own in pod.affinity_terms):
            return bool(mask.any())
        return any(not self._violates_anti_affinity(pod, self.nodes[column]) for column in np.flatnonzero(mask))

    def fits_own_node(self, pod: PodInfo) -> bool:
        """Return whether its own node still accepts the pod, ignoring resources, which it already has there."""
        column = self.columns.get(pod.pod.spec.node_name)
        return (
            column is not None
            and bool(self._eligible_mask(pod)[column])
            and not self._violates_anti_affinity(pod, self.nodes[column])
        )

    def expected_node(self, pod: PodInfo) -> str | None:
        """Return the node where the pod was last found to fit; here none, because nothing is forecast."""
        return None

    def record_move(self, pod: PodInfo) -> None:
        """Record that the pod is evicted; here without effect."""

    def free_array(self, resource: str) -> Array:
        if resource not in self._free_arrays:
            self._free_arrays[resource] = np.array(
                [node_info.free_amount(resource) for node_info in self.nodes], dtype=np.int64
            )
        return self._free_arrays[resource]

    def _fit_mask(self, pod: PodInfo, other_than: str, among: frozenset[str] | None) -> Mask:
        mask: Mask = self._eligible_mask(pod) & (self.free_array("pods") >= 1)
        for resource, amount in pod.resources.requests.items():
            mask &= self.free_array(resource) >= amount
        if among is not None:
            mask &= self._name_mask(among)
        if other_than in self.columns:
            mask[self.columns[other_than]] = False
        return mask

    def _name_mask(self, among: frozenset[str]) -> Mask:
        if among not in self._name_masks:
            self._name_masks[among] = np.array([node_info.name in among for node_info in self.nodes], dtype=bool)
        return self._name_masks[among]

    def _violates_anti_affinity(self, pod: PodInfo, node_info: NodeInfo) -> bool:
        """Return whether a pod on this node matches a required anti-affinity term of the pod."""
        return any(
            own.term.matches(one.namespace, one.labels, self.cluster_view.fleet.namespaces)
            for own in pod.affinity_terms
            if own.is_required and own.is_anti_affinity and own.term.topology_key in node_info.labels
            for one in node_info.pods
            if one.name != pod.name
        )

    def _eligible_mask(self, pod: PodInfo) -> Mask:
        """Return nodes that accept the pod, whatever their free resources."""
        spec = pod.pod.spec
        key = (node_requirements(spec), spec.tolerations)
        if key not in self._masks:
            wanted = required_node_matcher(spec)
            self._masks[key] = np.array(
                [
                    not node_info.node.spec.unschedulable
                    and wanted(node_info)
                    and first_untolerated_taint(node_info.node.spec.taints, spec.tolerations, REPELLING) is None
                    for node_info in self.nodes
                ],
                dtype=bool,
            )
        return self._masks[key]


class ForecastNodeFit(NodeFit):
    """Fit once the evicted pods have been rescheduled, by all filters and scores of the scheduler."""

    def __init__(self, cluster_view: ClusterView) -> None:
        super().__init__(cluster_view)
        self._fleet: NodeSnapshot | None = None
        self._pending_moves: list[tuple[PodInfo, str | None]] = []
        self._last_fit: tuple[tuple[str, str], str | None] = (("", ""), None)

    def fits(self, pod: PodInfo, *, other_than: str, among: frozenset[str] | None = None) -> bool:
        target = self._choose_target(pod, other_than, among)
        if among is None:
            self._last_fit = (pod.key, target)
        return target is not None

    def expected_node(self, pod: PodInfo) -> str | None:
        key, target = self._last_fit
        return target if key == pod.key else None

    def record_move(self, pod: PodInfo) -> None:
        """Reserve the node that the scheduler will most likely choose for the replacement."""
        source = pod.pod.spec.node_name
        key, target = self._last_fit
        if key != pod.key:
            target = self._choose_target(pod, source, None)
        if not pod.pod.is_terminal:
            self._reserve(pod, source, -1)
            self._pending_moves.append((pod, target))
        if target is not None:
            self._reserve(pod, target, 1)

    def _reserve(self, pod: PodInfo, node: str, sign: int) -> None:
        column = self.columns.get(node)
        if column is None:
            return
        self.free_array("pods")[column] -= sign
        for resource, amount in pod.resources.requests.items():
            self.free_array(resource)[column] -= sign * amount
        self._free_cpu_share[column] = self.free_array("cpu")[column] / max(
            1, self.nodes[column].allocatable.get("cpu", 0)
        )

    def _choose_target(self, pod: PodInfo, other_than: str, among: frozenset[str] | None) -> str | None:
        mask = self._fit_mask(pod, other_than, among)
        if self._depends_on_other_pods(pod):
            return self._choose_by_scheduler(pod, mask)
        # when other pods do not matter, the scheduler's strongest preference is the emptiest node
        column = int(np.where(mask, self._free_cpu_share, -np.inf).argmax())
        return self.nodes[column].name if mask[column] else None

    @cached_property
    def _free_cpu_share(self) -> Array:
        """The free share of each node's cpu."""
        size = np.array([node_info.allocatable.get("cpu", 0) for node_info in self.nodes], dtype=np.int64)
        share: Array = self.free_array("cpu") / np.maximum(size, 1)
        return share

    @cached_property
    def _anti_affinity_terms(self) -> list[AffinityTerm]:
        """Required anti-affinity terms of running pods."""
        return [
            other.term
            for other in self.cluster_view.fleet.affinity_term_counts
            if other.is_required and other.is_anti_affinity
        ]

    def _depends_on_other_pods(self, pod: PodInfo) -> bool:
        """Return whether other pods restrict where this one can run."""
        if pod.affinity_terms or pod.resources.ports or pod.pod.spec.topology_spread_constraints:
            return True
        namespaces = self.cluster_view.fleet.namespaces
        return any(term.matches(pod.namespace, pod.labels, namespaces) for term in self._anti_affinity_terms)

    def _choose_by_scheduler(self, pod: PodInfo, mask: Mask) -> str | None:
        """Return the scheduler's choice among these nodes, with the pod removed from its node."""
        node = pod.pod.spec.node_name
        fleet = self._fleet_after_moves()
        without = fleet if pod.pod.is_terminal else fleet.without_pods([pod], node)
        request = pod_request_for(pod._replace(pod=pod.pod.but(spec=pod.pod.spec.but(node_name=""))), without)
        allowed = np.zeros(len(fleet), dtype=bool)
        allowed[[fleet.nodes.index[self.nodes[column].name] for column in np.flatnonzero(mask)]] = True
        feasible = feasible_nodes(request, without, DEFAULT_SCHEDULER_PROFILE) & allowed
        chosen = None
        if feasible.any():
            column, _ = best_column(
                total_scores(request, without, feasible, DEFAULT_SCHEDULER_PROFILE), feasible, without
            )
            chosen = fleet.nodes.names[column]
        self._fleet = without if pod.pod.is_terminal else without.with_pod_on(pod, node)
        return chosen

    def _fleet_after_moves(self) -> NodeSnapshot:
        """Return the cluster after all moves so far; updated only on demand."""
        fleet = self.cluster_view.fleet.fork() if self._fleet is None else self._fleet
        for pod, target in self._pending_moves:
            fleet = fleet.without_pods([pod], pod.pod.spec.node_name)
            if target is not None:
                fleet = fleet.with_pod_on(pod, target)
        self._pending_moves.clear()
        return fleet
