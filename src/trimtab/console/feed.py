"""Feeds the shared model from the caches of a control plane, or from watches of its own."""

from collections.abc import Callable
from typing import Any, cast

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionPolicy, Move
from trimtab.api.kinds.native.apps import DaemonSet, Deployment, StatefulSet
from trimtab.api.kinds.native.event import Event
from trimtab.api.kinds.ocm_placement import AddOnPlacementScore, OcmPlacement, PlacementDecision
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.value import Object
from trimtab.console.facts import event_facts
from trimtab.console.model import FleetModel
from trimtab.controllers import well_known
from trimtab.runtime.cache import Cache, CacheEntry

TEMPLATES: tuple[type[Object], ...] = (Deployment, StatefulSet, DaemonSet)
"""Kinds whose labels the search knows."""


EVENT_SUBJECTS = {
    "ResourceBinding",
    "ClusterResourceBinding",
    "Cluster",
    "WorkloadRebalancer",
    *(one.__name__ for one in TEMPLATES),
}
"""Kinds whose events the timelines show."""


class Feed:
    """Puts every change of the tables of one cache into a model."""

    def __init__(self, model: FleetModel, cache: Cache) -> None:
        self._model = model
        self._cache = cache
        self._templates = {
            (table.resource.api_version, table.resource.kind): table for table in map(cache.table_of, TEMPLATES)
        }

    def start(self) -> None:
        """Listen to every table; objects that are cached already are put in at once."""
        self._follow(Cluster, lambda entry, typed: self._model.put_cluster(entry.name[1], typed))
        for type_ in (ResourceBinding, ClusterResourceBinding):
            self._cache.table_of(type_).add_listener(self._binding_changed)
        self._follow(Move, lambda entry, typed: self._model.put_move("/".join(entry.name), typed))
        self._follow(DisruptionBudget, lambda entry, typed: self._model.put_budget("/".join(entry.name), typed))
        self._follow(DisruptionPolicy, lambda entry, typed: self._model.put_policy(entry.name[1], typed))
        self._follow(WorkloadRebalancer, lambda entry, typed: self._model.put_rebalance(entry.name[1], typed))
        self._follow(OcmPlacement, lambda entry, typed: self._model.put_placement("/".join(entry.name), typed))
        self._follow(PlacementDecision, lambda entry, typed: self._model.put_decision("/".join(entry.name), typed))
        self._follow(AddOnPlacementScore, lambda entry, typed: self._model.put_score("/".join(entry.name), typed))

        self._cache.table_of(Event).add_listener(self._event_changed)

    def _event_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        raw = (new or cast("CacheEntry", old)).raw
        about = raw.get("involvedObject") or {}
        if about.get("kind") in EVENT_SUBJECTS:
            subject = (about["kind"], about.get("namespace", ""), about.get("name", ""))
            name = raw["metadata"]["name"]
            self._model.put_event(name, event_facts(new.raw) if new is not None else None, subject)

    def _follow(self, type_: type[Object], put: Callable[[CacheEntry, Any], None]) -> None:
        def listener(old: CacheEntry | None, new: CacheEntry | None) -> None:
            put(new or cast("CacheEntry", old), new.typed if new is not None else None)

        self._cache.table_of(type_).add_listener(listener)

    def _binding_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        self._model.put_binding(
            cast("Binding", new.typed) if new is not None else None,
            cast("Binding", old.typed) if old is not None else None,
        )

    def labels_of(self, binding: Binding) -> dict[str, str]:
        resource = binding.spec.resource
        table = self._templates.get((resource.api_version, resource.kind))
        entry = table.entries.get((resource.namespace, resource.name)) if table is not None else None
        return well_known.labels_of(entry.raw) if entry is not None else {}
