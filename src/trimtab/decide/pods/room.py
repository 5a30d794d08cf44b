"""Would this pod fit on another node: asked for thousands of pods in one round of moves."""

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from trimtab.decide.fleet import Array
from trimtab.decide.framework import Mask
from trimtab.decide.pods.ask import ask_for
from trimtab.decide.pods.fleet import NodeFleet
from trimtab.decide.pods.host import Host, Resident
from trimtab.decide.pods.nodes import REPELLING, node_requirements, untolerated, wants
from trimtab.decide.pods.scene import Scene
from trimtab.decide.pods.schedule import DEFAULT, best, sifted, totals


class Room:
    """What is free as the scene stands, whatever the round has taken: the descheduler's own question."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.hosts = scene.hosts
        self.columns = {here.name: column for column, here in enumerate(self.hosts)}
        self._masks: dict[object, Mask] = {}
        self._free: dict[str, Array] = {}

    def fits(self, pod: Resident, *, other_than: str, among: Iterable[str] | None = None) -> bool:
        """Whether a node (one of `among`, when given) could take the pod."""
        mask = self._with_room(pod, other_than, among)
        if not any(own.required and own.repels for own in pod.carried):
            return bool(mask.any())
        return any(not self._meets(pod, self.hosts[column]) for column in np.flatnonzero(mask))

    def suits_own(self, pod: Resident) -> bool:
        """Whether its own node would still take the pod, which has its room there already."""
        column = self.columns.get(pod.pod.spec.node_name)
        return column is not None and bool(self._open(pod)[column]) and not self._meets(pod, self.hosts[column])

    def moved(self, pod: Resident) -> None:
        """The pod has been taken; here that changes nothing."""

    def free(self, resource: str) -> Array:
        if resource not in self._free:
            self._free[resource] = np.array([here.free(resource) for here in self.hosts], dtype=np.int64)
        return self._free[resource]

    def _with_room(self, pod: Resident, other_than: str, among: Iterable[str] | None) -> Mask:
        mask: Mask = self._open(pod) & (self.free("pods") >= 1)
        for resource, amount in pod.demand.requests.items():
            mask &= self.free(resource) >= amount
        if among is not None:
            allowed = np.zeros(len(self.hosts), dtype=bool)
            allowed[[self.columns[name] for name in among]] = True
            mask &= allowed
        if other_than in self.columns:
            mask[self.columns[other_than]] = False
        return mask

    def _meets(self, pod: Resident, here: Host) -> bool:
        """Whether a pod of that very node is one this pod must stay away from."""
        return any(
            own.term.covers(one.namespace, one.labels, self.scene.fleet.namespaces)
            for own in pod.carried
            if own.required and own.repels and own.term.topology_key in here.labels
            for one in here.residents
            if one.name != pod.name
        )

    def _open(self, pod: Resident) -> Mask:
        """Nodes that are open to this pod, whatever room they have."""
        spec = pod.pod.spec
        key = (node_requirements(spec), spec.tolerations)
        if key not in self._masks:
            wanted = wants(spec)
            self._masks[key] = np.array(
                [
                    not here.node.spec.unschedulable
                    and wanted(here)
                    and untolerated(here.node.spec.taints, spec.tolerations, REPELLING) is None
                    for here in self.hosts
                ],
                dtype=bool,
            )
        return self._masks[key]


class Foresight(Room):
    """What is free once the pods already taken have found their new nodes, by all the rules of the scheduler."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._fleet: NodeFleet | None = None
        self._pending: list[tuple[Resident, str]] = []
        self._gone: set[tuple[str, str]] = set()

    def fits(self, pod: Resident, *, other_than: str, among: Iterable[str] | None = None) -> bool:
        return self._target(pod, other_than, among) is not None

    def moved(self, pod: Resident) -> None:
        """Book the pod where the scheduler will most likely put its replacement."""
        source = pod.pod.spec.node_name
        target = self._target(pod, source, None)
        self._book(pod, source, -1)
        if target is not None:
            self._book(pod, target, 1)
        if not pod.pod.terminal:
            self._pending.append((pod, target or ""))

    def _book(self, pod: Resident, node: str, sign: int) -> None:
        column = self.columns.get(node)
        if column is None:
            return
        self.free("pods")[column] -= sign
        for resource, amount in pod.demand.requests.items():
            self.free(resource)[column] -= sign * amount

    def _target(self, pod: Resident, other_than: str, among: Iterable[str] | None) -> str | None:
        mask = self._with_room(pod, other_than, among)
        if not mask.any():
            return None
        if not self._has_company(pod):
            # with nobody to mind, the scheduler's strongest wish is the emptiest node
            emptiest = np.where(mask, self.free("cpu") / np.maximum(self._size, 1), -1)
            return self.hosts[int(emptiest.argmax())].name
        return self._considered(pod, mask)

    @cached_property
    def _size(self) -> Array:
        return np.array([here.allocatable.get("cpu", 0) for here in self.hosts], dtype=np.int64)

    def _has_company(self, pod: Resident) -> bool:
        """Whether other pods matter to where this one may go."""
        spec = pod.pod.spec
        return bool(
            pod.carried or pod.demand.ports or spec.topology_spread_constraints or ask_for(pod, self.fleet).watched
        )

    @property
    def fleet(self) -> NodeFleet:
        """The cluster after all moves so far; brought up to date only when somebody looks."""
        fleet = self.scene.fleet.fork() if self._fleet is None else self._fleet
        for pod, target in self._pending:
            fleet = fleet.vacated([pod], pod.pod.spec.node_name)
            if target:
                fleet = fleet.settled(pod, target)
        self._pending.clear()
        self._fleet = fleet
        return fleet

    def _considered(self, pod: Resident, mask: Mask) -> str | None:
        """The scheduler's own choice among these nodes, with the pod gone from where it is."""
        fleet = self.fleet
        without = fleet.vacated([pod], pod.pod.spec.node_name) if not pod.pod.terminal else fleet
        unbound = pod._replace(pod=pod.pod.but(spec=pod.pod.spec.but(node_name="")))
        ask = ask_for(unbound, without)
        allowed = np.zeros(len(fleet), dtype=bool)
        allowed[[fleet.hosts.index[self.hosts[column].name] for column in np.flatnonzero(mask)]] = True
        feasible = sifted(ask, without, DEFAULT) & allowed
        chosen = None
        if feasible.any():
            column, _ = best(totals(ask, without, feasible, DEFAULT), feasible)
            chosen = fleet.hosts.names[column]
        self._fleet = without if pod.pod.terminal else without.settled(pod, pod.pod.spec.node_name)
        return chosen
