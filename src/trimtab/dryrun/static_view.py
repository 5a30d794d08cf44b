"""A `View` over a fixed set of objects."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from trimtab.api.kind import find_kind
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.ocm_placement import AddOnPlacementScore
from trimtab.api.profile import Profile
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Key, Object, Raw
from trimtab.controllers.contract import NOT_FETCHED, Index, NotFetched, Ref, Topic
from trimtab.controllers.movement.budget_coverage import count_workloads
from trimtab.decide.fleet import Fleet
from trimtab.decide.ocm.snapshot import PlacementSnapshot, PlacementSnapshotCache, external_value_of, score_key
from trimtab.decide.request import PlacementRequest
from trimtab.decide.workload_counts import WorkloadCounts
from trimtab.dryrun.manifest import Manifest
from trimtab.interpret.interpreter import Interpreter

if TYPE_CHECKING:
    from trimtab.interpret.cel.expressions import Evaluator

T = TypeVar("T", bound=Object)
K = TypeVar("K")
V = TypeVar("V")
Name = tuple[str, str]
"""Namespace and name."""


class StaticView:
    """A controller's View of the given objects, without members and without process memory.

    Objects are found by type and name, because a plan asks for the clusters and budgets of thousands of bindings.
    """

    fault = None
    step_observer = None
    next_lapse = None

    def __init__(
        self,
        items: Sequence[Manifest],
        *,
        now: datetime,
        profile: Profile,
        customizations: Sequence[Raw] = (),
        more: Iterable[Object] = (),
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.now = self.steady_now = now
        self.profile = profile
        self.settings: Mapping[str, Any] = settings or {}
        self._new_interpreter = cache(lambda: Interpreter.of(customizations, profile=cast("Any", profile.name)))
        raws: dict[tuple[str, str], dict[Name, Raw]] = {}
        for raw in (item.raw for item in items):
            metadata = raw["metadata"]
            found = raws.setdefault((raw["apiVersion"], raw["kind"]), {})
            found[metadata.get("namespace", ""), metadata["name"]] = raw
        self._raws = raws
        objects: dict[type[Object], dict[Name, Object]] = {}
        for thing in [*(item.typed for item in items if item.typed is not None), *more]:
            objects.setdefault(type(thing), {})[thing.namespace, thing.name] = thing
        self._objects = {type_: dict(sorted(found.items())) for type_, found in objects.items()}
        self._indexes: dict[str, dict[str, list[Object]]] = {}
        self._counts: dict[Name, tuple[LabelSelector | None, WorkloadCounts]] = {}

    def profile_in(self, namespace: str) -> Profile:
        """The one profile of the view."""
        return self.profile

    def with_replaced(self, objects: Iterable[Object]) -> Self:
        """The view in which these objects replace those of the same name; the fleet and all other objects are shared."""
        changed = type(self).__new__(type(self))
        changed.__dict__.update(self.__dict__)
        changed._objects = dict(self._objects)  # noqa: SLF001 - the same class
        changed._indexes = {}  # noqa: SLF001
        changed._counts = {}  # noqa: SLF001
        changed.__dict__["fleet"] = self.fleet
        for thing in objects:
            of_type = changed._objects.get(type(thing), {})  # noqa: SLF001
            changed._objects[type(thing)] = {**of_type, (thing.namespace, thing.name): thing}  # noqa: SLF001
        return changed

    def get(self, type_: type[T], namespace: str, name: str) -> T | None:
        return cast("T | None", self._objects.get(type_, {}).get((namespace, name)))

    def all(self, type_: type[T], namespace: str | None = None) -> Sequence[T]:
        found = self._objects.get(type_, {})
        return [cast("T", thing) for name, thing in found.items() if namespace is None or name[0] == namespace]

    def by_index(self, index: Index[T], value: str) -> Sequence[T]:
        entries = self._indexes.get(index.name)
        if entries is None:
            entries = self._indexes[index.name] = {}
            for thing in self.all(index.type):
                for key in index.values(thing):
                    entries.setdefault(key, []).append(thing)
        return [cast("T", thing) for thing in entries.get(value, ())]

    def count(self, index: Index[T], value: str) -> int:
        return len(self.by_index(index, value))

    def raw(self, ref: Ref) -> Raw | None:
        return self._raws.get((ref.api_version, ref.kind), {}).get((ref.namespace, ref.name))

    def raws(self, api_version: str, kind: str, namespace: str | None = None) -> Sequence[Raw]:
        found = self._raws.get((api_version, kind), {})
        return [raw for name, raw in found.items() if namespace is None or name[0] == namespace]

    def member(self, cluster: str, ref: Ref) -> Raw | NotFetched | None:
        return NOT_FETCHED

    def member_all(self, cluster: str, api_version: str, kind: str) -> Sequence[Raw] | NotFetched:
        return NOT_FETCHED

    def key(self, ref: Ref) -> Key | None:
        kind = find_kind(ref.api_version, ref.kind)
        return Key(kind.id, ref.namespace, ref.name) if kind is not None else None

    @property
    def cel(self) -> "Evaluator | None":
        from trimtab.interpret.cel.expressions import compiler  # noqa: PLC0415 - few objects have expressions

        return compiler()

    @property
    def interpreter(self) -> Interpreter:
        """Built when it is first used, once for all views that share objects: it reads the shipped scripts."""
        return self._new_interpreter()

    @cached_property
    def fleet(self) -> Fleet[Cluster]:
        fleet = Fleet.of(self.all(Cluster), now=self.now)
        for score in self.all(AddOnPlacementScore):
            values = {score.namespace: external_value_of(score)}
            fleet = fleet.with_external_value_changes(score_key(score.name), values)
        return fleet

    def fleet_for(self, requests: Mapping[Key, PlacementRequest]) -> Fleet[Cluster]:
        return self.fleet

    def workload_counts(self, budget: DisruptionBudget) -> WorkloadCounts:
        name, selector = (budget.namespace, budget.name), budget.spec.selector
        found = self._counts.get(name)
        if found is None or found[0] != selector:
            found = self._counts[name] = selector, count_workloads(budget, self)
        return found[1]

    @cached_property
    def placement_snapshot(self) -> PlacementSnapshot:
        return PlacementSnapshotCache(
            thing for type_ in PlacementSnapshotCache.kinds for thing in self.all(type_)
        ).snapshot(self.now)

    def recall(self, topic: Topic[K, V], key: K) -> V | None:
        return None
