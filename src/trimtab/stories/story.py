"""The format of a story: the life of a fleet as a script, and what must be true in it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml

from trimtab.api.duration import duration
from trimtab.api.value import Field, Raw, Value
from trimtab.errors import InputFault
from trimtab.simulate.fleet import FleetPlan, MemberPlan, default_fleet, flows_fleet, parse_fleet
from trimtab.stories.expectations import Saying

_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h|d))+")
Duration = str | int | float
Names = str | tuple[str, ...]


class Patch(Value, forbid_unknown_fields=True):
    object: str
    body: Annotated[Any, Field("The patch itself.")]
    type: str = "merge"
    subresource: str = ""


class Scale(Value, forbid_unknown_fields=True):
    object: str
    replicas: int


class Trouble(Value, forbid_unknown_fields=True):
    """What fails, or recovers: a whole cluster, one of its nodes, or pods of an app."""

    cluster: Names = ()
    node: str = ""
    app: Annotated[str, Field("`namespace/name`, by the label `app`; with a node, only there.")] = ""
    how: Annotated[str, Field("Of an app: `not-ready`, `crash` or `out-of-memory`.")] = "not-ready"


class Tainted(Value, forbid_unknown_fields=True):
    cluster: Names
    key: str
    value: str = ""
    effect: str = "NoSchedule"


class Scored(Value, forbid_unknown_fields=True):
    """What somebody outside thinks of a cluster."""

    cluster: str
    resource: str
    scores: dict[str, int]
    valid: Duration | None = None


class Loaded(Value, forbid_unknown_fields=True):
    cluster: Names
    part: float = 1.0


class Drained(Value, forbid_unknown_fields=True):
    """A node that somebody empties for maintenance, for as long as its budgets make it take."""

    cluster: str
    node: str


class Evicted(Value, forbid_unknown_fields=True):
    """Evictions that are all asked for at the same moment."""

    cluster: str
    pods: Annotated[
        str, Field("`namespace/name` or `name`, which may have wildcards; pods that are ending are left out.")
    ]
    node: Annotated[str, Field("Only pods on this node.")] = ""
    count: Annotated[int | None, Field("Only so many of them, in the order of names.")] = None
    annotations: Annotated[dict[str, str], Field("Those of the Eviction.")] = {}
    granted: Annotated[int | None, Field("How many must be granted; the others must be refused.")] = None


class Used(Value, forbid_unknown_fields=True):
    """How much CPU the pods of an app really use, in cores; nothing is as usual."""

    cluster: Names
    app: str
    cpu: float | None = None


class Claimed(Value, forbid_unknown_fields=True):
    cluster: Names
    factor: float


class Slowed(Value, forbid_unknown_fields=True):
    cluster: Names
    by: Duration


class Restarted(Value, forbid_unknown_fields=True):
    """The control plane dies, and comes back after a while."""

    down: Duration = 0


class Expectation(Value, forbid_unknown_fields=True):
    """Exactly one of `that` (it becomes true within a time), `always` and `never`."""

    that: str = ""
    always: str = ""
    never: str = ""
    within: Duration | None = None
    start: Annotated[Duration | None, Field("From when: a time, or the name of a step.")] = msgspec.field(
        default=None, name="from"
    )
    until: Duration | None = None
    because: Annotated[str, Field("Why it must be so; shown when it is not.")] = ""

    @property
    def text(self) -> str:
        return self.that or self.always or self.never

    def __str__(self) -> str:
        return f"always {self.always}" if self.always else f"never {self.never}" if self.never else self.that


class Step(Value, forbid_unknown_fields=True):
    """Something that happens, at a time, some time after the step before it, or when something is true."""

    name: str = ""
    at: Duration | None = None
    after: Duration | None = None
    when: str = ""
    timeout: Annotated[Duration, Field("How long to wait for `when`.")] = "10m"
    say: str = ""
    where: Annotated[str, Field("The member in which objects are applied, patched or deleted; else the host.")] = (
        msgspec.field(default="", name="in")  # `on`, which would read as well, is a boolean in YAML
    )
    apply: Any = None
    patch: Patch | None = None
    scale: Scale | None = None
    delete: Names = ()
    fail: Trouble | None = None
    recover: Trouble | None = None
    partition: Names = ()
    heal: Names = ()
    slow: Slowed | None = None
    taint: Tainted | None = None
    untaint: Tainted | None = None
    score: Scored | None = None
    load: Loaded | None = None
    empty: Names = ()
    drain: Drained | None = None
    evict: Evicted | None = None
    use: Used | None = None
    claim: Claimed | None = None
    join: MemberPlan | None = None
    leave: Names = ()
    restart: str | Restarted | None = None
    wait: Duration | None = None
    expect: tuple[Expectation, ...] = ()


class Story(Value, forbid_unknown_fields=True):
    name: str
    description: str = ""
    profile: str = "trimtab"
    seed: int = 0
    settings: dict[str, Any] = {}
    fleet: Any = "default"
    lasts: Annotated[Duration, Field("At least so long.")] = 0
    every: Annotated[Duration, Field("How often `always` and `never` are looked at.")] = "1s"
    timeline: tuple[Step, ...] = ()
    expect: tuple[Expectation, ...] = ()

    @property
    def plan(self) -> FleetPlan:
        if self.fleet == "default":
            return default_fleet()
        return flows_fleet() if self.fleet == "flows" else parse_fleet(self.fleet)


def seconds(text: Duration) -> float:
    """`90`, `90s`, `1h30m` in seconds."""
    if isinstance(text, int | float):
        return float(text)
    if _DURATION.fullmatch(text) is None:
        raise InputFault(f"{text!r} is not a length of time such as 90s or 1h30m")
    return duration(text).total_seconds()


def many(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def read_story(path: Path) -> Story:
    """The story in a file; `InputFault` says what is wrong with it."""
    try:
        found = parse_story(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise InputFault(f"cannot read {path}: {error}") from error
    except yaml.YAMLError as error:
        raise InputFault(f"{path} is not YAML: {error}") from error
    except InputFault as fault:
        raise InputFault(f"{path}: {fault}") from fault
    return found.but(timeline=tuple(step.but(apply=list(_objects(step.apply, path.parent))) for step in found.timeline))


def _objects(given: Any, folder: Path) -> Iterator[Raw]:
    """What `apply` stands for: objects, or files of objects beside the story."""
    if isinstance(given, str):
        try:
            text = (folder / given).read_text(encoding="utf-8")
        except OSError as error:
            raise InputFault(f"cannot read {folder / given}: {error}") from error
        try:
            yield from (document for document in yaml.safe_load_all(text) if document)
        except yaml.YAMLError as error:
            raise InputFault(f"{folder / given} is not YAML: {error}") from error
    elif isinstance(given, list):
        for one in given:
            yield from _objects(one, folder)
    elif isinstance(given, dict):
        yield given


def parse_story(description: Any) -> Story:
    """The story of an already decoded description."""
    try:
        story = msgspec.convert(description, Story, strict=False)
    except msgspec.ValidationError as error:
        raise InputFault(f"the story cannot be read: {error}") from error
    for complaint in _complaints(story):
        raise InputFault(complaint)
    return story


def _complaints(story: Story) -> Iterator[str]:
    """What can be found wrong before anything has happened."""
    if story.profile not in ("trimtab", "upstream"):
        yield f"the profile is {story.profile!r}; it must be trimtab or upstream"
    _ = story.plan, seconds(story.lasts)
    if seconds(story.every) <= 0:
        yield f"`every` is {story.every}; it must be more than nothing, or no time would pass between two looks"
    for number, step in enumerate(story.timeline, 1):
        if sum((step.at is not None, step.after is not None, bool(step.when))) > 1:
            yield f"step {number} has more than one of at, after and when"
        for time in (step.at, step.after, step.timeout, step.wait):
            _ = seconds(time) if time is not None else 0
        if step.when:
            Saying(step.when)
    names = {step.name for step in story.timeline if step.name}
    expectations = [*story.expect, *(one for step in story.timeline for one in step.expect)]
    if not expectations and not any(step.when for step in story.timeline):
        yield "the story expects nothing"
    for expectation in expectations:
        yield from _doubts(expectation, names)


def _doubts(expectation: Expectation, names: set[str]) -> Iterator[str]:
    if sum(map(bool, (expectation.that, expectation.always, expectation.never))) != 1:
        yield "an expectation has exactly one of that, always and never"
    Saying(expectation.text)
    for time in (expectation.start, expectation.until):
        if time is not None and time not in names:
            seconds(time)
    if expectation.within is not None:
        seconds(expectation.within)
        if not expectation.that:
            yield f"{expectation}: `within` belongs to `that`"
