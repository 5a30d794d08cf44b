"""Keeps the replica counts of budgets in step with the cache."""

from typing import cast

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.work import ResourceBinding, Work
from trimtab.api.selectors import LabelSelector
from trimtab.controllers.clusters.readiness import is_ready
from trimtab.controllers.contract import View
from trimtab.controllers.movement.budget_coverage import count_again
from trimtab.controllers.well_known import labels_of
from trimtab.decide.workload_counts import WorkloadCounts
from trimtab.runtime.cache import Cache, CacheEntry, Table

BINDINGS, CLUSTERS, BUDGETS, WORKS = (kind_of(type_).id for type_ in (ResourceBinding, Cluster, DisruptionBudget, Work))


class WorkloadCountsCache:
    """The counts of each budget that was read, with the changes since then."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._removed_tables = 0
        self._kept: dict[str, dict[str, tuple[LabelSelector | None, WorkloadCounts]]] = {}
        """By namespace and name of the budget."""
        cache.add_table_listener(self._follow)

    def current(self, budget: DisruptionBudget, view: View) -> WorkloadCounts:
        """The counts as of now."""
        if self._cache.removed_tables != self._removed_tables:
            self._removed_tables, self._kept = self._cache.removed_tables, {}
        found = self._kept.get(budget.namespace, {}).get(budget.name)
        if found is None or found[0] != budget.spec.selector:
            names = self._cache.table_of(ResourceBinding).names(budget.namespace)
            found = budget.spec.selector, WorkloadCounts(name for _, name in names)
            self._kept.setdefault(budget.namespace, {})[budget.name] = found
        count_again(found[1], budget, view)
        return found[1]

    def _follow(self, table: Table) -> None:
        id_ = table.resource.id
        if id_ == BINDINGS:
            table.add_listener(self._binding_changed)
        elif id_ == CLUSTERS:
            table.add_listener(self._cluster_changed)
        elif id_ == BUDGETS:
            table.add_listener(self._budget_changed)
        elif table.resource.namespaced and id_ != WORKS:  # any other kind may be a template
            kind = table.resource.kind
            table.add_listener(lambda old, new: self._template_changed(kind, old, new))

    def _binding_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        namespace, name = (new or cast("CacheEntry", old)).name
        for _, counts in self._kept.get(namespace, {}).values():
            counts.binding_changed(name)

    def _template_changed(self, kind: str, old: CacheEntry | None, new: CacheEntry | None) -> None:
        namespace, name = (new or cast("CacheEntry", old)).name
        kept = self._kept.get(namespace)
        if not kept or (old is not None and new is not None and labels_of(old.raw) == labels_of(new.raw)):
            return
        for _, counts in kept.values():
            counts.object_changed(f"{kind}/{name}")

    def _cluster_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        if (
            old is not None
            and new is not None
            and is_ready(cast("Cluster", old.typed)) == is_ready(cast("Cluster", new.typed))
        ):
            return
        name = (new or cast("CacheEntry", old)).name[1]
        for kept in self._kept.values():
            for _, counts in kept.values():
                counts.cluster_changed(name)

    def _budget_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        """Forget the counts of a budget that no longer exists."""
        if new is None and old is not None:
            namespace, name = old.name
            kept = self._kept.get(namespace, {})
            kept.pop(name, None)
            if not kept:
                self._kept.pop(namespace, None)
