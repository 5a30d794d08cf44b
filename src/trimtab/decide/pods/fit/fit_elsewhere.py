"""Whether a pod fits on another node, for thousands of pods per descheduling cycle."""

from functools import cached_property

import numpy as np

from trimtab.decide.fleet import Array
from trimtab.decide.framework import Mask
from trimtab.decide.pods.affinity.affinity_terms import Term
from trimtab.decide.pods.descheduling.cluster_view import Scene
from trimtab.decide.pods.fit.node_predicates import REPELLING, node_requirements, untolerated, wants
from trimtab.decide.pods.node_info import Host, Resident
from trimtab.decide.pods.node_snapshot import NodeFleet
from trimtab.decide.pods.request import ask_for
from trimtab.decide.pods.schedule import DEFAULT, best, sifted, totals


class Room:
    """Fit by the current free resources, without the evictions of this cycle: the descheduler's own check."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.hosts = scene.hosts
        self.columns = {node_info.name: column for column, node_info in enumerate(self.hosts)}
        self._masks: dict[object, Mask] = {}
        self._choices: dict[frozenset[str], Mask] = {}
        self._free: dict[str, Array] = {}

    def fits(self, pod: Resident, *, other_than: str, among: frozenset[str] | None = None) -> bool:
        """Return whether a node (one of `among`, when given) fits the pod."""
        mask = self._with_room(pod, other_than, among)
        if not any(own.required and own.repels for own in pod.carried):
            return bool(mask.any())
        return any(not self._meets(pod, self.hosts[column]) for column in np.flatnonzero(mask))

    def suits_own(self, pod: Resident) -> bool:
        """Return whether its own node still accepts the pod, ignoring resources, which it already has there."""
        column = self.columns.get(pod.pod.spec.node_name)
        return column is not None and bool(self._open(pod)[column]) and not self._meets(pod, self.hosts[column])

    def expects(self, pod: Resident) -> str | None:
        """Return the node where the pod was last found to fit; here none, because nothing is forecast."""
        return None

    def moved(self, pod: Resident) -> None:
        """Record that the pod is evicted; here without effect."""

    def free(self, resource: str) -> Array:
        if resource not in self._free:
            self._free[resource] = np.array([node_info.free(resource) for node_info in self.hosts], dtype=np.int64)
        return self._free[resource]

    def _with_room(self, pod: Resident, other_than: str, among: frozenset[str] | None) -> Mask:
        mask: Mask = self._open(pod) & (self.free("pods") >= 1)
        for resource, amount in pod.demand.requests.items():
            mask &= self.free(resource) >= amount
        if among is not None:
            mask &= self._allowed(among)
        if other_than in self.columns:
            mask[self.columns[other_than]] = False
        return mask

    def _allowed(self, among: frozenset[str]) -> Mask:
        if among not in self._choices:
            self._choices[among] = np.array([node_info.name in among for node_info in self.hosts], dtype=bool)
        return self._choices[among]

    def _meets(self, pod: Resident, here: Host) -> bool:
        """Return whether a pod on this node matches a required anti-affinity term of the pod."""
        return any(
            own.term.covers(one.namespace, one.labels, self.scene.fleet.namespaces)
            for own in pod.carried
            if own.required and own.repels and own.term.topology_key in here.labels
            for one in here.residents
            if one.name != pod.name
        )

    def _open(self, pod: Resident) -> Mask:
        """Return nodes that accept the pod, whatever their free resources."""
        spec = pod.pod.spec
        key = (node_requirements(spec), spec.tolerations)
        if key not in self._masks:
            wanted = wants(spec)
            self._masks[key] = np.array(
                [
                    not node_info.node.spec.unschedulable
                    and wanted(node_info)
                    and untolerated(node_info.node.spec.taints, spec.tolerations, REPELLING) is None
                    for node_info in self.hosts
                ],
                dtype=bool,
            )
        return self._masks[key]


class Foresight(Room):
    """Fit once the evicted pods have been rescheduled, by all filters and scores of the scheduler."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._fleet: NodeFleet | None = None
        self._pending: list[tuple[Resident, str | None]] = []
        self._promised: tuple[tuple[str, str], str | None] = (("", ""), None)

    def fits(self, pod: Resident, *, other_than: str, among: frozenset[str] | None = None) -> bool:
        target = self._target(pod, other_than, among)
        if among is None:
            self._promised = (pod.key, target)
        return target is not None

    def expects(self, pod: Resident) -> str | None:
        key, target = self._promised
        return target if key == pod.key else None

    def moved(self, pod: Resident) -> None:
        """Reserve the node that the scheduler will most likely choose for the replacement."""
        source = pod.pod.spec.node_name
        key, target = self._promised
        if key != pod.key:
            target = self._target(pod, source, None)
        if not pod.pod.is_terminal:
            self._book(pod, source, -1)
            self._pending.append((pod, target))
        if target is not None:
            self._book(pod, target, 1)

    def _book(self, pod: Resident, node: str, sign: int) -> None:
        column = self.columns.get(node)
        if column is None:
            return
        self.free("pods")[column] -= sign
        for resource, amount in pod.demand.requests.items():
            self.free(resource)[column] -= sign * amount
        self._slack[column] = self.free("cpu")[column] / max(1, self.hosts[column].allocatable.get("cpu", 0))

    def _target(self, pod: Resident, other_than: str, among: frozenset[str] | None) -> str | None:
        mask = self._with_room(pod, other_than, among)
        if self._has_company(pod):
            return self._considered(pod, mask)
        # when other pods do not matter, the scheduler's strongest preference is the emptiest node
        column = int(np.where(mask, self._slack, -np.inf).argmax())
        return self.hosts[column].name if mask[column] else None

    @cached_property
    def _slack(self) -> Array:
        """The free share of each node's cpu."""
        size = np.array([node_info.allocatable.get("cpu", 0) for node_info in self.hosts], dtype=np.int64)
        share: Array = self.free("cpu") / np.maximum(size, 1)
        return share

    @cached_property
    def _avoiding(self) -> list[Term]:
        """Required anti-affinity terms of running pods."""
        return [other.term for other in self.scene.fleet.carried if other.required and other.repels]

    def _has_company(self, pod: Resident) -> bool:
        """Return whether other pods restrict where this one can run."""
        if pod.carried or pod.demand.ports or pod.pod.spec.topology_spread_constraints:
            return True
        namespaces = self.scene.fleet.namespaces
        return any(term.covers(pod.namespace, pod.labels, namespaces) for term in self._avoiding)

    def _considered(self, pod: Resident, mask: Mask) -> str | None:
        """Return the scheduler's choice among these nodes, with the pod removed from its node."""
        node = pod.pod.spec.node_name
        fleet = self._after_moves()
        without = fleet if pod.pod.is_terminal else fleet.vacated([pod], node)
        request = ask_for(pod._replace(pod=pod.pod.but(spec=pod.pod.spec.but(node_name=""))), without)
        allowed = np.zeros(len(fleet), dtype=bool)
        allowed[[fleet.hosts.index[self.hosts[column].name] for column in np.flatnonzero(mask)]] = True
        feasible = sifted(request, without, DEFAULT) & allowed
        chosen = None
        if feasible.any():
            column, _ = best(totals(request, without, feasible, DEFAULT), feasible, without)
            chosen = fleet.hosts.names[column]
        self._fleet = without if pod.pod.is_terminal else without.settled(pod, node)
        return chosen

    def _after_moves(self) -> NodeFleet:
        """Return the cluster after all moves so far; updated only on demand."""
        fleet = self.scene.fleet.fork() if self._fleet is None else self._fleet
        for pod, target in self._pending:
            fleet = fleet.vacated([pod], pod.pod.spec.node_name)
            if target is not None:
                fleet = fleet.settled(pod, target)
        self._pending.clear()
        return fleet
