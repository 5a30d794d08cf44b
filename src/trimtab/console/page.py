"""What a page is: an address, a view model made of plain data, a template, and the parts that are kept current."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from trimtab.api.kinds.ocm_placement import OcmPlacement
from trimtab.api.kinds.work import Binding
from trimtab.api.profile import TRIMTAB, Profile
from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.console.decision_history import PastDecision
from trimtab.console.model import FleetModel
from trimtab.console.permissions import EVERYTHING, Visibility
from trimtab.controllers.settings import value_of
from trimtab.decide.explanation import Explanation
from trimtab.decide.ocm.explain import ClusterOutcome
from trimtab.dryrun.change import Change
from trimtab.dryrun.plan_result import Plan
from trimtab.errors import NotFound
from trimtab.registry import Registry
from trimtab.server.auth.authorize import Action

View = Mapping[str, Any]
"""What a page says, as data: the template renders it, and `Accept: application/json` returns it."""


class StoryBook(Protocol):
    """The stories that the server can play."""

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a story goes on."""

    def stories(self) -> "list[StoryFacts]": ...

    def play(self, name: str, user: str) -> None: ...

    def stop(self, name: str) -> None: ...

    async def close(self) -> None: ...


class StoryFacts(NamedTuple):
    """A story, and its last run."""

    name: str
    title: str
    description: str = ""
    state: str = ""
    """Empty: not played yet; else move, good or none."""
    verdict: str = ""
    lived: float = 0.0
    """Seconds on the clock of the story."""
    took: float = 0.0
    progress: float = 0.0
    lines: tuple[str, ...] = ()
    by: str = ""


class Services(NamedTuple):
    """What the program that serves the console provides."""

    profile: Profile = TRIMTAB
    settings: Mapping[str, Any] = {}
    last_decision: Callable[[Binding], Explanation | None] = lambda _: None
    """The remembered decision about a binding."""
    placement_outcomes: Callable[[OcmPlacement], list[ClusterOutcome]] = lambda _: []
    """What the decision about a Placement of OCM says about each cluster."""
    plan: Callable[[Change, datetime, str], Awaitable[Plan]] | None = None
    """What a change would do; the last argument is the user who asks."""
    known_plan: Callable[[str], Plan | None] | None = None
    """A plan that was made before, by its hash."""
    resource: Callable[[str, str], Resource | None] = lambda _, __: None
    """The resource of an API version and kind whose objects plans know."""
    policy: Callable[[str, str], Raw | None] = lambda _, __: None
    """A propagation policy by namespace and name; one without a namespace is cluster-wide."""
    stories: StoryBook | None = None
    inject_fault: Callable[[str, bool], Awaitable[None]] | None = None
    """Take a simulated member down, or end every fault of it."""
    loads: Callable[[str], list[float | None]] = lambda _: []
    """The load of a cluster in each minute of the last hour."""
    decisions: Callable[[str, str], list[PastDecision]] = lambda _, __: []
    """The decisions about a binding, the oldest first."""
    simulated: Callable[[], frozenset[str]] = frozenset
    """The members that are simulated."""
    faults: Callable[[], Mapping[str, str]] = dict
    """What is wrong with each simulated member that was let fail."""
    is_read_only: bool = False

    def setting(self, name: str) -> Any:
        """The value of a setting of the controllers: what was given, or the default."""
        return value_of(name, self.settings, self.profile)


async def allow(_: Action) -> bool:
    return True


class PageContext(NamedTuple):
    """What a view model is made of."""

    model: FleetModel
    now: datetime
    visibility: Visibility = EVERYTHING
    query: Mapping[str, str] = {}
    segments: tuple[str, ...] = ()
    """The values of the variable parts of the address."""
    may: Mapping[str, bool] = {}
    """Which actions of the page the user may carry out."""
    services: Services = Services()
    extra: Any = None
    """What the page had to compute or fetch first."""
    user: str = ""
    is_pending: bool = False
    """Whether the page is shown before it was computed."""
    allows: Callable[[Action], Awaitable[bool]] = allow
    """Whether the user may do something else that the form needs."""

    def values(self, name: str) -> list[str]:
        """The values of a filter that takes several, separated by commas."""
        return [value for value in self.query.get(name, "").split(",") if value]


class Page(NamedTuple):
    """One page of the console."""

    path: tuple[str, ...]
    """Segments; `{x}` stands for any."""
    template: str
    nav: str
    view: Callable[[PageContext], View]
    live: Mapping[str, tuple[str, ...]] = {}
    """The parts that are kept current: the id of an element, which is also a block of the template, and its topics."""
    rows: Mapping[str, tuple[str, str, tuple[str, ...]]] = {}
    """Tables whose rows are kept current: the id, the macro of a row, the name in the view, its topics."""
    actions: Callable[[PageContext], Mapping[str, Action]] = lambda _: {}
    prepare: Callable[[PageContext], Awaitable[Any]] | None = None
    """Computes or fetches what takes long; not repeated while the page is open."""
    is_slow: Callable[[PageContext], bool] = lambda _: False
    """Whether `prepare` takes long at this address: the page is then shown first, and its script fetches it again."""

    def match(self, segments: tuple[str, ...]) -> tuple[str, ...] | None:
        """The values of the variable parts, if the address is of this page."""
        if len(segments) != len(self.path):
            return None
        if any(not part.startswith("{") and part != given for part, given in zip(self.path, segments, strict=True)):
            return None
        return tuple(given for part, given in zip(self.path, segments, strict=True) if part.startswith("{"))


pages: Registry[Page] = Registry("console page")


def page(
    path: str, template: str, nav: str, **options: Any
) -> Callable[[Callable[[PageContext], View]], Callable[[PageContext], View]]:
    """Register a function from the context to the view model as a page."""

    def register(view: Callable[[PageContext], View]) -> Callable[[PageContext], View]:
        pages.add(path, Page(tuple(part for part in path.split("/") if part), template, nav, view, **options))
        return view

    return register


def find_page(segments: tuple[str, ...]) -> tuple[Page, tuple[str, ...]]:
    """The page at an address; fixed segments are preferred to variable ones."""
    found = [(one, values) for one in pages.values() if (values := one.match(segments)) is not None]
    if not found:
        raise NotFound("there is no such page")
    return min(found, key=lambda match: len(match[1]))
