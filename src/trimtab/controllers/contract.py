"""The contract of controllers: pure functions that read an object and a `View` and yield effects.

    @controller(ResourceBinding, writes=["Work"], triggers=[...])
    def dispatch(binding: ResourceBinding, view: View) -> Iterator[Effect]: ...

Effects are carried out in the order they are yielded, and the first that fails ends the reconcile: yield children first
and the status that reports on them last. Controllers are level-triggered: they describe the desired state as of now,
however often they run. An effect that is already true writes nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.profile import Profile
from trimtab.api.value import Key, Object, Raw
from trimtab.decide.fleet import Fleet
from trimtab.decide.ocm.snapshot import PlacementSnapshot
from trimtab.decide.request import PlacementRequest
from trimtab.decide.step_observer import StepObserver
from trimtab.decide.workload_counts import WorkloadCounts
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.lua.questions import Question
from trimtab.registry import Registry

if TYPE_CHECKING:
    from trimtab.interpret.cel.expressions import Evaluator  # most readers of a View evaluate no expressions

T = TypeVar("T", bound=Object)
K = TypeVar("K")
V = TypeVar("V")


class Ref(NamedTuple):
    """A reference to an object of any kind: the subject of an event, or a template of a kind that has no class here."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


class RequeueAfter(NamedTuple):
    """Reconcile this key again after this many seconds."""

    seconds: float


class Delete(NamedTuple):
    """Delete this object, provided it is still the one in the view (same uid)."""

    target: Object | Ref
    revision: str = ""
    """When set, delete only if the object still has this resourceVersion."""


class Ensure(NamedTuple):
    """Create or update an object of any kind to equal `wanted`; `seen` is its state in the view (None: create it)."""

    wanted: Raw
    seen: Raw | None = None
    subresource: str = ""
    replace: bool = False
    """Send the whole object (PUT) instead of a patch of what differs."""
    apply_as: str = ""
    """Send it by server-side apply, as this field manager."""
    force: bool = False
    """With `apply_as`: take fields over from other managers."""
    recheck_if_unchanged: bool = False
    """In a member: reconcile again if the write changed nothing there, since no event will follow."""


class RecordEvent(NamedTuple):
    """Record a Kubernetes Event about an object."""

    about: Ref
    reason: str
    message: str
    source: str
    type: str = "Normal"
    routine: bool = False
    """The event reports an expected step that needs no action; it is recorded only where the profile says so."""


class WriteSequence(NamedTuple):
    """Write one object several times in order; a crash leaves the object as one of the steps describes it.

    This makes a status visible before the spec changes: otherwise the status of an object is written after its spec.
    A server that takes both in one write gets the last step only.
    """

    steps: tuple[Object, ...]


class CreateCompleted(NamedTuple):
    """Create an object with what another controller decides about it, in one write where the server takes its status.

    The controller `by` reconciles the object before it exists, and creates it. Where it does not run, the object is
    created as it is. The next effect is carried out when the object exists.
    """

    wanted: Object
    by: str


class InCluster(NamedTuple):
    """Carry out the effect in a member cluster instead of the host."""

    cluster: str
    effect: "Ensure | Delete"


class Fetch(NamedTuple):
    """Fetch this object from the member and reconcile again; the view does not contain it yet."""

    cluster: str
    ref: Ref


class FollowKind(NamedTuple):
    """List and watch all objects of a kind in a member from now on, and reconcile again.

    `View.member_all` then has them, and member triggers get their changes.
    """

    cluster: str
    api_version: str
    kind: str


class CheckAccess(NamedTuple):
    """Send SubjectAccessReviews to a member for these verbs of a user on an object, and reconcile again.

    The answer is `View.recall(ACCESS, this)`.
    """

    cluster: str
    user: str
    ref: Ref
    verbs: tuple[str, ...]


class FindForeignObjects(NamedTuple):
    """List the objects in a namespace of a member that would be lost with it, and reconcile again.

    The answer is `View.recall(FOREIGN_OBJECTS, this)`.
    """

    cluster: str
    namespace: str


class ReadPodUse(NamedTuple):
    """Read the pods that a selector matches and their metrics, and reconcile again.

    The answer is `View.recall(POD_USE, this)` of `controllers/autoscaling/pod_use.py`.
    """

    cluster: str
    """The member; empty for the cluster of the controller itself."""
    namespace: str
    selector: str


class Topic(Generic[K, V]):
    """A kind of value that is kept in memory while the process runs: by keys of one type, values of another.

    A topic is declared once, next to the controller that remembers its values, and compared by identity.
    """

    __slots__ = ("limit", "name", "shared")

    def __init__(self, name: str, *, limit: int = 1_000_000, shared: bool = False) -> None:
        """At most `limit` values are kept; the oldest are dropped first.

        A value is forgotten when the object whose reconcile remembered it is deleted, unless the topic is `shared`: its
        values concern all objects.
        """
        self.name = name
        self.limit = limit
        self.shared = shared

    def __repr__(self) -> str:
        return f"Topic({self.name!r})"


class RememberInProcess(NamedTuple, Generic[K, V]):
    """Keep this value in memory for `View.recall`; a restart loses it, so correctness may not depend on it."""

    topic: Topic[K, V]
    key: K
    value: V


class AccessAnswer(NamedTuple):
    """The answer to `CheckAccess`."""

    at: datetime
    """By the clock for durations."""
    allowed: bool
    """Whether every verb is allowed."""


class ForeignObjectsAnswer(NamedTuple):
    """The answer to `FindForeignObjects`."""

    at: datetime
    names: tuple[str, ...]
    """Some of the objects; empty if there are none."""


ACCESS: Topic[CheckAccess, AccessAnswer] = Topic("access")
FOREIGN_OBJECTS: Topic[FindForeignObjects, ForeignObjectsAnswer] = Topic("foreign objects")


class CapacityReservation(NamedTuple):
    """The replicas that a decision adds to clusters, which the members do not report yet."""

    binding: Key
    request: PlacementRequest
    arriving: tuple[tuple[str, int], ...]
    """Replicas, or sets of components, by cluster; empty when the decision adds none."""


class ReserveCapacity(NamedTuple):
    """Reserve the capacity that these decisions take, until the members report it or the reservations lapse.

    Earlier reservations of the same bindings whose decisions were never written are dropped.
    """

    since: datetime
    reservations: tuple[CapacityReservation, ...]
    until_healthy: bool = False
    """They last until the workload is healthy in the cluster, and lapse later than others."""


class RunScript(NamedTuple):
    """Run a script, or call a webhook, whose answer this reconcile lacks, and reconcile again: always the only effect of a reconcile.

    No controller yields it: the interpreter raises `AnswerPending`, which becomes this effect.
    """

    question: Question


Effect: TypeAlias = (
    Object
    | WriteSequence
    | CreateCompleted
    | Ensure
    | Delete
    | RequeueAfter
    | RecordEvent
    | InCluster
    | Fetch
    | FollowKind
    | CheckAccess
    | FindForeignObjects
    | ReadPodUse
    | RememberInProcess[Any, Any]
    | ReserveCapacity
    | RunScript
)


class ReconcileFault(NamedTuple):
    """Why the last attempt to carry out the effects of this key failed."""

    code: int
    reason: str
    message: str
    cluster: str
    """The member in which it failed; empty for the host."""
    attempts: int


class Index(NamedTuple, Generic[T]):
    """An index of a cache: finds objects by something other than their name."""

    name: str
    type: type[T]
    values: Callable[[T], Iterable[str]]


class NotFetched:
    """The member object has not been fetched yet, so it is not known whether it exists."""

    def __bool__(self) -> bool:
        return False


NOT_FETCHED = NotFetched()


class View(Protocol):
    """The read-only snapshot a controller may use, as of `now`."""

    @property
    def now(self) -> datetime: ...

    @property
    def steady_now(self) -> datetime:
        """The time for durations inside the process: it goes on evenly when somebody sets the clock.

        Values of `RememberInProcess` are compared with it. What is stored in objects uses `now`.
        """
        ...

    @property
    def profile(self) -> Profile:
        """The profile of the subject's namespace; in a trigger that of the control plane."""
        ...

    def profile_in(self, namespace: str) -> Profile: ...

    @property
    def settings(self) -> Mapping[str, Any]: ...

    @property
    def fault(self) -> ReconcileFault | None:
        """Why the last attempt for this key failed; None after a success."""
        ...

    def get(self, type_: type[T], namespace: str, name: str) -> T | None: ...

    def all(self, type_: type[T], namespace: str | None = None) -> Sequence[T]:
        """All objects of the type (in the namespace when given), sorted by namespace and name."""
        ...

    def by_index(self, index: Index[T], value: str) -> Sequence[T]:
        """The objects with this value in the index, sorted by namespace and name."""
        ...

    def count(self, index: Index[T], value: str) -> int:
        """The number of objects with this value in the index."""
        ...

    def raw(self, ref: Ref) -> Raw | None:
        """An object of any watched kind on the host, in its wire form."""
        ...

    def raws(self, api_version: str, kind: str, namespace: str | None = None) -> Sequence[Raw]: ...

    def member(self, cluster: str, ref: Ref) -> Raw | NotFetched | None:
        """The object in a member as last fetched or watched."""
        ...

    def member_all(self, cluster: str, api_version: str, kind: str) -> Sequence[Raw] | NotFetched:
        """All objects of a kind in a member, sorted by namespace and name, once `FollowKind` was carried out."""
        ...

    def key(self, ref: Ref) -> Key | None:
        """The key of an object of any watched kind on the host; None when the host does not serve its kind."""
        ...

    @property
    def interpreter(self) -> Interpreter: ...

    @property
    def cel(self) -> "Evaluator | None":
        """The evaluator of CEL expressions; None where it is not installed."""
        ...

    @property
    def step_observer(self) -> StepObserver | None:
        """Measures steps of a reconcile; None where nobody asked for it."""
        ...

    @property
    def fleet(self) -> Fleet[Cluster]:
        """All clusters, with the capacity that earlier decisions reserved."""
        ...

    def fleet_for(self, requests: Mapping[Key, PlacementRequest]) -> Fleet[Cluster]:
        """The fleet for deciding these bindings: without what their own unwritten decisions reserved."""
        ...

    @property
    def next_lapse(self) -> datetime | None:
        """When the next reservation of capacity lapses."""
        ...

    def workload_counts(self, budget: DisruptionBudget) -> WorkloadCounts:
        """The replicas of the workloads that this budget covers."""
        ...

    @property
    def placement_snapshot(self) -> PlacementSnapshot:
        """What decisions about Placements read."""
        ...

    def recall(self, topic: Topic[K, V], key: K) -> V | None:
        """What `RememberInProcess`, or the shell, last kept under this key."""
        ...


class Trigger(NamedTuple):
    """Maps a change of an object of `type` to the keys of the controller's own kind that are reconciled again.

    `keys(old, new, view)`: old is None at creation (and at start-up), new is None at deletion.
    """

    type: type[Object]
    keys: Callable[[Any, Any, View], Iterable[Key]]


class MemberTrigger(NamedTuple):
    """The same for objects in members: `keys(cluster, old, new, view)` gets raw objects of every watched kind."""

    keys: Callable[[str, Raw | None, Raw | None, View], Iterable[Key]]


Reconcile: TypeAlias = Callable[..., Iterator[Any]]
"""Yields effects; a batch controller yields pairs of an object and an effect."""


class Controller(NamedTuple):
    """A registered controller."""

    name: str
    reconcile: Reconcile
    subjects: tuple[type[Object], ...]
    """Empty: every propagatable kind on the host, with or without a class here; the controller gets `Raw`."""
    writes: tuple[str, ...]
    triggers: tuple[Trigger, ...]
    member_triggers: tuple[MemberTrigger, ...]
    predicate: Callable[[Any, Any], bool]
    """Whether a change of the subject itself causes a reconcile (old is None when the object is new to the cache)."""
    batch: int
    """More than 1: `reconcile(objects, view)` gets up to this many objects at once and yields `(object, effect)`."""
    priority: Callable[[Any], int]
    on_deleted: Callable[..., Iterator[Effect]] | None
    """Called with (key, view) when the subject no longer exists."""
    serial: bool = False
    """Reconcile one key after the other, so that each reconcile sees the writes of the one before."""
    resumes: bool = False
    """After a start from saved caches only keys that were unfinished, or that a change since then concerns, are reconciled.

    For controllers with a subject per workload, whose reconciles leave nothing in memory that another key needs. Others
    reconcile every subject at every start.
    """


controllers: Registry[Controller] = Registry("controller")


def always(old: Any, new: Any) -> bool:
    return True


def never(old: Any, new: Any) -> bool:
    """For controllers that only triggers and requeues start, never a change of the subject."""
    return False


def spec_changed(old: Any, new: Any) -> bool:
    """Whether the subject is new, has a new generation, or is being deleted."""
    return old is None or (
        old.metadata.generation != new.metadata.generation
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
    )


def spec_differs(old: Any, new: Any) -> bool:
    """For triggers: whether the other object was created or deleted, or its spec changed."""
    return old is None or new is None or old.spec != new.spec


def equal_priority(subject: Any) -> int:
    return 0


def controller(
    *subjects: type[Object],
    writes: Sequence[str],
    triggers: Sequence[Trigger | MemberTrigger] = (),
    predicate: Callable[[Any, Any], bool] = always,
    batch: int = 1,
    priority: Callable[[Any], int] = equal_priority,
    on_deleted: Callable[..., Iterator[Effect]] | None = None,
    serial: bool = False,
    resumes: bool = False,
    name: str = "",
    registry: Registry[Controller] = controllers,
) -> Callable[[Reconcile], Reconcile]:
    """Register a function that reconciles every object of the `subjects` and changes only the fields it `writes`.

    `writes` lists what may be written: `status`, `spec.clusters`, `metadata.finalizers` of the subject, or
    `Kind`, `Kind.spec.field` of another kind. Conditions are listed by type, annotations, labels and finalizers by key:
    `status.conditions[Ready]`, `metadata.annotations[example.io/key]`. A second set of controllers uses a `registry` of its own.
    """

    def register(reconcile: Reconcile) -> Reconcile:
        entry = Controller(
            name or reconcile.__name__,
            reconcile,
            subjects,
            tuple(writes),
            tuple(w for w in triggers if isinstance(w, Trigger)),
            tuple(w for w in triggers if isinstance(w, MemberTrigger)),
            predicate,
            batch,
            priority,
            on_deleted,
            serial,
            resumes,
        )
        registry.add(entry.name, entry)
        return reconcile

    return register
