"""A controller is a pure function: it sees an object and a `View`, and yields what should become true.

    @controller(ResourceBinding, writes=["Work"], wakes=[...])
    def dispatch(binding: ResourceBinding, view: View) -> Iterator[Wish]: ...

Wishes are carried out in the order they are yielded, and the first that fails ends the beat: yield children first and
the status that speaks of them last. A controller describes what should be true now, however often it is asked; a wish
that is already true costs nothing.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from trimtab.api.profile import Profile
from trimtab.api.value import Key, Object, Raw
from trimtab.registry import Registry

T = TypeVar("T", bound=Object)


class Ref(NamedTuple):
    """Which object, of whatever kind: what an event is about, or a template that has no type of ours."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


class Again(NamedTuple):
    """Wake me once more, after this many seconds."""

    seconds: float


class Gone(NamedTuple):
    """This object should no longer exist, provided it is still the one that was seen."""

    target: Object | Ref
    revision: str = ""
    """When given, only if the object still has this resourceVersion."""


class Make(NamedTuple):
    """An object of any kind should be as `wanted`; `seen` is what it was when this was thought (None: create it)."""

    wanted: Raw
    seen: Raw | None = None
    subresource: str = ""
    replace: bool = False
    """Send the whole object (PUT) instead of a patch of what differs."""
    apply_as: str = ""
    """Send it by server-side apply, as this field manager."""
    force: bool = False
    """With `apply_as`: take fields over from other managers."""


class Note(NamedTuple):
    """Tell the people who look after `about`: a Kubernetes Event."""

    about: Ref
    reason: str
    message: str
    source: str
    type: str = "Normal"
    routine: bool = False
    """A step that went as it should and that nobody acts on; told only where the profile says so."""


class Steps(NamedTuple):
    """Write one object several times over, each step on top of the one before; a crash leaves a whole step behind.

    For what must be visible before the rest is: the status of an object is otherwise written after its spec.
    """

    steps: tuple[Object, ...]


class Within(NamedTuple):
    """The wish is for a member cluster, not for the host."""

    cluster: str
    wish: "Make | Gone"


class Look(NamedTuple):
    """Fetch this member object and think again: the view does not know whether it exists."""

    cluster: str
    ref: Ref


class Inquire(NamedTuple):
    """Ask a member whether a user may do all this to an object there; the answer is remembered, and thought goes on.

    `View.recall("allowed", this)` is then (when it was asked, what the answer was).
    """

    cluster: str
    user: str
    ref: Ref
    verbs: tuple[str, ...]


class Remember(NamedTuple):
    """Keep this value in memory for others to see (`View.recall`); it is lost at a restart and may never matter then."""

    topic: str
    key: Hashable
    value: Any


Wish: TypeAlias = Object | Steps | Make | Gone | Again | Note | Within | Look | Inquire | Remember


class Fault(NamedTuple):
    """How the last attempt to carry out this key's wishes ended, if it failed."""

    code: int
    reason: str
    message: str
    cluster: str
    """The member where it failed; empty for the host."""
    attempts: int


class Index(NamedTuple, Generic[T]):
    """A way to find objects by something other than their name."""

    name: str
    type: type[T]
    values: Callable[[T], Iterable[str]]


class Unseen:
    """The view has not looked there yet; different from "does not exist"."""

    def __bool__(self) -> bool:
        return False


UNSEEN = Unseen()


class View(Protocol):
    """Everything a controller may look at, as it stood at `now`."""

    @property
    def now(self) -> datetime: ...

    @property
    def profile(self) -> Profile: ...

    @property
    def settings(self) -> Mapping[str, Any]: ...

    @property
    def fault(self) -> Fault | None:
        """The fault of the last attempt for the object at hand; None after a success."""
        ...

    def get(self, type_: type[T], namespace: str, name: str) -> T | None: ...

    def all(self, type_: type[T], namespace: str | None = None) -> Sequence[T]:
        """Every object of the type (in the namespace when given), sorted by namespace and name."""
        ...

    def having(self, index: Index[T], value: str) -> Sequence[T]:
        """The objects that the index files under `value`, sorted by namespace and name."""
        ...

    def raw(self, ref: Ref) -> Raw | None:
        """An object of any watched kind on the host, as it is on the wire."""
        ...

    def raws(self, api_version: str, kind: str, namespace: str | None = None) -> Sequence[Raw]: ...

    def member(self, cluster: str, ref: Ref) -> Raw | Unseen | None:
        """The object in a member as last seen."""
        ...

    def key(self, ref: Ref) -> Key | None:
        """The key of an object of any watched kind on the host; None when the host does not serve its kind."""
        ...

    def part(self, name: str) -> Any:
        """A long-lived collaborator assembled above the waterline: the interpreter, the fleet."""
        ...

    def recall(self, topic: str, key: Hashable) -> Any: ...


class Wake(NamedTuple):
    """When an object of `type` changes, these keys of the controller's own kind deserve another look.

    `keys(old, new, view)`: old is None at creation (and at start-up), new is None at deletion.
    """

    type: type[Object]
    keys: Callable[[Any, Any, View], Iterable[Key]]


class MemberWake(NamedTuple):
    """The same for objects in members: `keys(cluster, old, new, view)` over raw objects of every watched kind."""

    keys: Callable[[str, Raw | None, Raw | None, View], Iterable[Key]]


Reconcile: TypeAlias = Callable[..., Iterator[Any]]
"""Yields wishes; one that takes batches yields pairs of the object and the wish."""


class Controller(NamedTuple):
    """One entry of the registry."""

    name: str
    reconcile: Reconcile
    subjects: tuple[type[Object], ...]
    """Empty: every kind on the host that users may propagate, typed or not; the controller gets `Raw`."""
    writes: tuple[str, ...]
    wakes: tuple[Wake, ...]
    member_wakes: tuple[MemberWake, ...]
    changed: Callable[[Any, Any], bool]
    """Whether a change of the subject itself deserves a beat (old is None at first sight)."""
    batch: int
    """More than 1: `reconcile(objects, view)` is handed up to so many at once and yields `(object, wish)`."""
    priority: Callable[[Any], int]
    gone: Callable[..., Iterator[Wish]] | None
    """Called with (key, view) when the subject no longer exists."""
    alone: bool = False
    """One key after the other: what one key's wishes change, the next one's thoughts take into account."""


controllers: Registry[Controller] = Registry("controller")


def always(old: Any, new: Any) -> bool:
    return True


def never(old: Any, new: Any) -> bool:
    """For those whom only wakes and timers send to their subject."""
    return False


def spec_changed(old: Any, new: Any) -> bool:
    """The subject is new, its generation moved, or it is being deleted."""
    return old is None or (
        old.metadata.generation != new.metadata.generation
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
    )


def spec_differs(old: Any, new: Any) -> bool:
    """For those whom another object wakes: it came, went, or asks for something else."""
    return old is None or new is None or old.spec != new.spec


def same_rank(subject: Any) -> int:
    return 0


def controller(
    *subjects: type[Object],
    writes: Sequence[str],
    wakes: Sequence[Wake | MemberWake] = (),
    changed: Callable[[Any, Any], bool] = always,
    batch: int = 1,
    priority: Callable[[Any], int] = same_rank,
    gone: Callable[..., Iterator[Wish]] | None = None,
    alone: bool = False,
    name: str = "",
    registry: Registry[Controller] = controllers,
) -> Callable[[Reconcile], Reconcile]:
    """Wake this function for every object of the `subjects`, and let it change only the fields it `writes`.

    `writes` names what may be touched: `status`, `spec.clusters`, `metadata.finalizers` of the subject, or
    `Kind`, `Kind.spec.field` of another kind. Whoever runs another set of controllers keeps it in a `registry` of its own.
    """

    def register(reconcile: Reconcile) -> Reconcile:
        entry = Controller(
            name or reconcile.__name__,
            reconcile,
            subjects,
            tuple(writes),
            tuple(w for w in wakes if isinstance(w, Wake)),
            tuple(w for w in wakes if isinstance(w, MemberWake)),
            changed,
            batch,
            priority,
            gone,
            alone,
        )
        registry.add(entry.name, entry)
        return reconcile

    return register
