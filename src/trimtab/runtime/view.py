"""The state that all controllers of one control plane share, and the View of it that a controller reads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from trimtab.api.kind import find_kind
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.profile import PROFILES, Profile
from trimtab.api.value import Key, Object, Raw
from trimtab.client.client import Client, Resource, resource_of
from trimtab.clock import Clock, SteadyClock
from trimtab.controllers.contract import NOT_FETCHED, Index, NotFetched, ReconcileFault, Ref, RememberInProcess, Topic
from trimtab.controllers.well_known import PROFILE, annotations_of
from trimtab.decide.fleet import Fleet
from trimtab.decide.ocm.snapshot import PlacementSnapshot, PlacementSnapshotCache
from trimtab.decide.request import PlacementRequest
from trimtab.decide.step_observer import StepObserver
from trimtab.decide.workload_counts import WorkloadCounts
from trimtab.interpret.cel.expressions import Evaluator
from trimtab.interpret.interpreter import Interpreter
from trimtab.runtime.cache import Cache, CacheEntry, Table
from trimtab.runtime.drafts import Drafts
from trimtab.runtime.effects.event_recorder import EventRecorder
from trimtab.runtime.fleet_cache import FleetCache
from trimtab.runtime.observers.reconcile_observers import MemberWriteObserver, ReconcileObserver
from trimtab.runtime.process_memory import ProcessMemory
from trimtab.runtime.script_answers import ScriptAnswers
from trimtab.runtime.workload_counts import WorkloadCountsCache

T = TypeVar("T", bound=Object)
K = TypeVar("K")
V = TypeVar("V")
NAMESPACES = "namespaces"
CLOCK_STEP = timedelta(seconds=5)
"""The wall clock was set if it moved by this much more or less than the clock for durations between two reads."""


class MemberAccess(Protocol):
    """A member cluster: its client, and a cache of the objects read from it."""

    @property
    def client(self) -> Client: ...

    def get_cached(self, ref: Ref) -> Raw | NotFetched | None:
        """The cached object; `None` means it does not exist, `UNSEEN` that it was never read."""
        ...

    def list_followed(self, api_version: str, kind: str) -> Sequence[Raw] | NotFetched:
        """All objects of a kind that is followed."""
        ...

    async def follow(self, api_version: str, kind: str) -> None:
        """List and watch all objects of a kind from now on; returns when they are listed."""
        ...

    async def resource(self, api_version: str, kind: str) -> Resource: ...

    async def is_listed(self, resource: Resource, namespace: str, name: str) -> bool:
        """Whether the first list of the member's managed objects, which this waits for, has the object."""
        ...

    def put_cached(self, resource: Resource, namespace: str, name: str, raw: Raw | None) -> None:
        """Cache the result of a read or a write; `None` means the object does not exist."""
        ...


class MemberLookup(Protocol):
    """The joined clusters by name."""

    def get(self, cluster: str) -> MemberAccess | None: ...


class CurrentInterpreter:
    """The interpreter of this control plane; it is replaced when users change their customizations."""

    def __init__(self, interpreter: Interpreter | None = None) -> None:
        self.current = interpreter or Interpreter.of()


@dataclass(frozen=True)
class ViewSources:
    """What a View is made of besides the cache. By default it is empty, as in a member, where nothing is placed."""

    interpreter: CurrentInterpreter = field(default_factory=CurrentInterpreter)
    fleet: FleetCache = field(default_factory=FleetCache)
    placement_snapshots: PlacementSnapshotCache = field(default_factory=PlacementSnapshotCache)
    cel: Evaluator | None = None
    scripts: ScriptAnswers = field(default_factory=lambda: ScriptAnswers(None, steady_seconds=lambda: 0.0))


class ControlPlaneState:
    """The cache, clock, members, settings and memory that the controllers of one control plane share."""

    def __init__(
        self,
        *,
        cache: Cache,
        clock: Clock,
        profile: Profile,
        members: MemberLookup,
        settings: Mapping[str, Any] | None = None,
        sources: ViewSources | None = None,
        writes_exact_versions: bool = False,
    ) -> None:
        """`writes_exact_versions`: another process may take over, so deletions and server-side apply name the version seen."""
        self.cache = cache
        self.writes_exact_versions = writes_exact_versions
        self.client = cache.client
        self.clock = clock
        self.steady_clock = SteadyClock(clock)
        self.profile = profile
        self.members = members
        self.settings: Mapping[str, Any] = settings or {}
        self.sources = sources or ViewSources()
        self.memory = ProcessMemory()
        self.workload_counts = WorkloadCountsCache(cache)
        cache.add_table_listener(self._forget_deleted_objects)
        self.recorder = EventRecorder(cache.client)
        self.drafts = Drafts(cache)
        self.resources: dict[tuple[str, str], Resource] = {}
        self.reconcile_observers: list[ReconcileObserver] = []
        """Called after every reconcile; whoever observes is added before the reconcilers are built."""
        self.member_write_observers: list[MemberWriteObserver] = []
        """Called after every write in a member."""
        self.step_observer: StepObserver | None = None
        """Measures steps of reconciles, for metrics."""
        self.clock_listeners: list[Callable[[timedelta], None]] = []
        """Called when the wall clock was set, before anybody uses the new time."""
        self._clock_offset: timedelta | None = None
        self._profiles: dict[str, Profile] = {}
        self._profiles_at = -1

    def read_clock(self) -> datetime:
        """The wall-clock time. Something reads it every few seconds, so a step is found without a timer of its own."""
        now = self.clock.now()
        before, self._clock_offset = self._clock_offset, now - self.steady_clock.now()
        if before is not None and abs(self._clock_offset - before) > CLOCK_STEP:
            for listener in self.clock_listeners:
                listener(self._clock_offset - before)
        return now

    def remember(self, subject: Key, effect: RememberInProcess[Any, Any]) -> None:
        """Remember what a reconcile of `subject` found; unless it is shared, it is forgotten with the subject."""
        if effect.topic.shared:
            self.memory.remember(*effect)
            return
        table = self.cache.by_id.get(subject.kind)
        if table is not None and (subject.namespace, subject.name) in table.entries:
            self.memory.remember(*effect, subject)

    def _forget_deleted_objects(self, table: Table) -> None:
        def on_change(old: CacheEntry | None, new: CacheEntry | None) -> None:
            if new is None and old is not None:
                self.memory.forget(Key(table.resource.id, *old.name))

        table.add_listener(on_change, only_changes=True)

    def profile_in(self, namespace: str) -> Profile:
        """The profile that the namespace's annotation names; the default profile if it names none or an unknown one."""
        table = self.cache.by_id.get(NAMESPACES) if namespace else None
        if table is None:
            return self.profile
        if self._profiles_at != table.change_count:
            self._profiles, self._profiles_at = {}, table.change_count
        found = self._profiles.get(namespace)
        if found is None:
            entry = table.entries.get(("", namespace))
            wanted = annotations_of(entry.raw).get(PROFILE, "") if entry is not None else ""
            found = self._profiles[namespace] = PROFILES.get(wanted, self.profile)
        return found

    def resource(self, api_version: str, kind: str) -> Resource | None:
        """The resource that serves this apiVersion and kind on the host; `None` if the host does not serve it."""
        if found := self.resources.get((api_version, kind)):
            return found
        declared = find_kind(api_version, kind)
        return resource_of(declared) if declared else None


class LiveView:
    """The View of one reconcile of one key: the current cache, at one point in time."""

    __slots__ = ("_now", "_state", "fault", "profile", "settings")

    def __init__(
        self, state: ControlPlaneState, fault: ReconcileFault | None = None, profile: Profile | None = None
    ) -> None:
        self._state = state
        self._now: datetime | None = None
        self.settings = state.settings
        self.fault = fault
        self.profile = profile or state.profile

    @property
    def now(self) -> datetime:
        """The time of the first access: most reconciles never read the clock."""
        if self._now is None:
            self._now = self._state.read_clock()
        return self._now

    @property
    def steady_now(self) -> datetime:
        return self._state.steady_clock.now()

    def profile_in(self, namespace: str) -> Profile:
        return self._state.profile_in(namespace)

    def get(self, type_: type[T], namespace: str, name: str) -> T | None:
        entry: Any = self._state.cache.by_type[type_].entries.get((namespace, name))
        found: T | None = entry.typed if entry else None
        return found

    def all(self, type_: type[T], namespace: str | None = None) -> Sequence[T]:
        table = self._state.cache.by_type[type_]
        entries: Any = table.entries
        return [entries[name].typed for name in table.names(namespace)]

    def by_index(self, index: Index[T], value: str) -> Sequence[T]:
        return self._state.cache.by_type[index.type].by_index(index, value)

    def count(self, index: Index[T], value: str) -> int:
        return self._state.cache.by_type[index.type].count_by_index(index, value)

    def raw(self, ref: Ref) -> Raw | None:
        table = self._table(ref.api_version, ref.kind)
        entry = table.entries.get((ref.namespace, ref.name)) if table else None
        return entry.raw if entry else None

    def raws(self, api_version: str, kind: str, namespace: str | None = None) -> Sequence[Raw]:
        table = self._table(api_version, kind)
        if table is None:
            return ()
        return [table.entries[name].raw for name in table.names(namespace)]

    def _table(self, api_version: str, kind: str) -> Table | None:
        resource = self._state.resource(api_version, kind)
        return self._state.cache.by_id.get(resource.id) if resource else None

    def member(self, cluster: str, ref: Ref) -> Raw | NotFetched | None:
        member = self._state.members.get(cluster)
        return member.get_cached(ref) if member else NOT_FETCHED

    def member_all(self, cluster: str, api_version: str, kind: str) -> Sequence[Raw] | NotFetched:
        member = self._state.members.get(cluster)
        return member.list_followed(api_version, kind) if member else NOT_FETCHED

    def key(self, ref: Ref) -> Key | None:
        resource = self._state.resource(ref.api_version, ref.kind)
        return Key(resource.id, ref.namespace, ref.name) if resource else None

    @property
    def interpreter(self) -> Interpreter:
        return self._state.sources.interpreter.current

    @property
    def cel(self) -> Evaluator | None:
        return self._state.sources.cel

    @property
    def step_observer(self) -> StepObserver | None:
        return self._state.step_observer

    @property
    def fleet(self) -> Fleet[Cluster]:
        return self._state.sources.fleet.at(self.now)

    def fleet_for(self, requests: Mapping[Key, PlacementRequest]) -> Fleet[Cluster]:
        return self._state.sources.fleet.fleet_for(requests, self.now)

    @property
    def next_lapse(self) -> datetime | None:
        return self._state.sources.fleet.next_lapse

    def workload_counts(self, budget: DisruptionBudget) -> WorkloadCounts:
        return self._state.workload_counts.current(budget, self)

    @property
    def placement_snapshot(self) -> PlacementSnapshot:
        return self._state.sources.placement_snapshots.snapshot(self.now)

    def recall(self, topic: Topic[K, V], key: K) -> V | None:
        return self._state.memory.recall(topic, key)


class TriggerView(LiveView):
    """The View with which wakes map a change to keys: one for all changes, so `now` is the current time."""

    __slots__ = ()

    @property
    def now(self) -> datetime:
        return self._state.read_clock()
