"""A View over a list of objects, for calling controllers without a server."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar, cast

from trimtab.api.kind import find_kind, to_wire
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.profile import TRIMTAB, Profile
from trimtab.api.value import Key, Object, Raw
from trimtab.controllers.contract import NOT_FETCHED, Index, NotFetched, ReconcileFault, Ref, RememberInProcess, Topic
from trimtab.controllers.movement.budget_coverage import count_workloads
from trimtab.decide.fleet import Fleet
from trimtab.decide.ocm.snapshot import PlacementSnapshot, PlacementSnapshotCache
from trimtab.decide.request import PlacementRequest
from trimtab.decide.step_observer import StepObserver
from trimtab.decide.workload_counts import WorkloadCounts
from trimtab.interpret.cel.expressions import Evaluator
from trimtab.interpret.interpreter import Interpreter

T = TypeVar("T", bound=Object)
K = TypeVar("K")
V = TypeVar("V")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class FleetSource(Protocol):
    """Gives the fleet of a view."""

    def at(self, now: datetime) -> Fleet[Cluster]: ...


class FakeMemory(dict[tuple[Topic[Any, Any], Any], Any]):
    """What a view recalls, by topic and key."""

    def keep(self, effects: Iterable[Any]) -> None:
        """Remember what the effects ask to remember."""
        for effect in effects:
            if isinstance(effect, RememberInProcess):
                self[effect.topic, effect.key] = effect.value


class FakeView:
    """A View in which exactly these objects exist."""

    def __init__(
        self,
        objects: Iterable[Object] = (),
        *,
        now: datetime = NOON,
        profile: Profile = TRIMTAB,
        settings: Mapping[str, Any] | None = None,
        fault: ReconcileFault | None = None,
        interpreter: Interpreter | None = None,
        fleet: FleetSource | None = None,
        cel: Evaluator | None = None,
        members: Mapping[tuple[str, Ref], Raw | None] | None = None,
        raws: Iterable[Raw] = (),
        followed: Mapping[tuple[str, str, str], Sequence[Raw]] | None = None,
    ) -> None:
        self.objects = sorted(objects, key=lambda thing: (thing.namespace, thing.name))
        self.now = self.steady_now = now
        self.profile = profile
        self.profiles: Mapping[str, Profile] = {}
        """Of namespaces with another profile."""
        self.settings: Mapping[str, Any] = settings or {}
        self.fault = fault
        self.step_observer: StepObserver | None = None
        self.interpreter = interpreter or Interpreter.of()
        self.fleet_source = fleet
        self.cel = cel
        self.next_lapse: datetime | None = None
        self.placement_snapshots = PlacementSnapshotCache(self.objects)
        self.members = members or {}
        self.followed = followed or {}
        self.raw_objects = list(raws)
        self.memory = FakeMemory()

    def profile_in(self, namespace: str) -> Profile:
        return self.profiles.get(namespace, self.profile)

    def get(self, type_: type[T], namespace: str, name: str) -> T | None:
        return next((thing for thing in self.all(type_, namespace) if thing.name == name), None)

    def all(self, type_: type[T], namespace: str | None = None) -> Sequence[T]:
        return [
            thing
            for thing in self.objects
            if isinstance(thing, type_) and (namespace is None or thing.namespace == namespace)
        ]

    def by_index(self, index: Index[T], value: str) -> Sequence[T]:
        return [thing for thing in self.all(index.type) if value in index.values(thing)]

    def count(self, index: Index[T], value: str) -> int:
        return len(self.by_index(index, value))

    def raw(self, ref: Ref) -> Raw | None:
        here = self.raws(ref.api_version, ref.kind, ref.namespace)
        return next((raw for raw in here if raw["metadata"]["name"] == ref.name), None)

    def raws(self, api_version: str, kind: str, namespace: str | None = None) -> Sequence[Raw]:
        known = [to_wire(thing) for thing in self.objects] + self.raw_objects
        return [
            raw
            for raw in known
            if (raw["apiVersion"], raw["kind"]) == (api_version, kind)
            and (namespace is None or raw["metadata"].get("namespace", "") == namespace)
        ]

    def member(self, cluster: str, ref: Ref) -> Raw | NotFetched | None:
        return self.members.get((cluster, ref), NOT_FETCHED)

    def member_all(self, cluster: str, api_version: str, kind: str) -> Sequence[Raw] | NotFetched:
        return self.followed.get((cluster, api_version, kind), NOT_FETCHED)

    def key(self, ref: Ref) -> Key | None:
        kind = find_kind(ref.api_version, ref.kind)
        return Key(kind.id, ref.namespace, ref.name) if kind else None

    @property
    def fleet(self) -> Fleet[Cluster]:
        return self.fleet_source.at(self.now) if self.fleet_source is not None else Fleet.of(self.all(Cluster))

    def fleet_for(self, requests: Mapping[Key, PlacementRequest]) -> Fleet[Cluster]:
        return self.fleet

    def workload_counts(self, budget: DisruptionBudget) -> WorkloadCounts:
        return count_workloads(budget, self)

    @property
    def placement_snapshot(self) -> PlacementSnapshot:
        return self.placement_snapshots.snapshot(self.now)

    def recall(self, topic: Topic[K, V], key: K) -> V | None:
        return cast("V | None", self.memory.get((topic, key)))
