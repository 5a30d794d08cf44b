"""The file format of stories: a timeline of actions on a fleet, and expectations."""

import difflib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec

from trimtab.api.duration import parse_duration
from trimtab.api.value import Field, Raw, Value
from trimtab.api.yaml_documents import FILE, YamlError, load_yaml, load_yaml_documents
from trimtab.controllers.settings import SETTINGS, value_fault
from trimtab.errors import InputError, unreadable
from trimtab.simulate.fleet import (
    FleetError,
    FleetPlan,
    MemberPlan,
    default_fleet,
    field_and_message,
    flows_fleet,
    parse_fleet,
)
from trimtab.stories.expectations import Expression
from trimtab.stories.story_lines import line_of

_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h|d))+")
Duration = str | int | float
Names = str | tuple[str, ...]
APP_FAILURE_NAMES = ("not-ready", "crash", "out-of-memory")


class PatchAction(Value, forbid_unknown_fields=True):
    object: str
    body: Annotated[Any, Field("The patch.")]
    type: str = "merge"
    subresource: str = ""


class ScaleAction(Value, forbid_unknown_fields=True):
    object: str
    replicas: int


class FailureAction(Value, forbid_unknown_fields=True):
    """What fails or recovers: a cluster, one of its nodes, or the pods of an app."""

    cluster: Names = ()
    node: str = ""
    app: Annotated[
        str, Field("`namespace/name`; pods are selected by the label `app`, with `node` only on that node.")
    ] = ""
    how: Annotated[str, Field("How an app fails: `not-ready`, `crash` or `out-of-memory`.")] = "not-ready"


class TaintAction(Value, forbid_unknown_fields=True):
    cluster: Names
    key: str
    value: str = ""
    effect: str = "NoSchedule"


class ScoreAction(Value, forbid_unknown_fields=True):
    """An AddOnPlacementScore of a cluster."""

    cluster: str
    resource: str
    scores: dict[str, int]
    valid: Duration | None = None


class LoadAction(Value, forbid_unknown_fields=True):
    cluster: Names
    part: float = 1.0


class DrainAction(Value, forbid_unknown_fields=True):
    """A node to drain; the drain takes as long as the budgets require."""

    cluster: str
    node: str


class EvictAction(Value, forbid_unknown_fields=True):
    """Evictions that are all requested at the same time."""

    cluster: str
    pods: Annotated[str, Field("`namespace/name` or `name`, with wildcards; pods that are being deleted are skipped.")]
    node: Annotated[str, Field("Only pods on this node.")] = ""
    count: Annotated[int | None, Field("At most this number of pods, ordered by name.")] = None
    annotations: Annotated[dict[str, str], Field("Annotations of the Eviction.")] = {}
    granted: Annotated[
        int | None, Field("The number of evictions that must be granted; the others must be refused.")
    ] = None


class UsageAction(Value, forbid_unknown_fields=True):
    """The CPU that each pod of an app uses, in cores; without `cpu` the default usage."""

    cluster: Names
    app: str
    cpu: float | None = None


class ClaimAction(Value, forbid_unknown_fields=True):
    cluster: Names
    factor: float


class SlowAction(Value, forbid_unknown_fields=True):
    cluster: Names
    by: Duration


class RestartAction(Value, forbid_unknown_fields=True):
    """The control plane stops, and starts again after `down`."""

    down: Duration = 0


class Expectation(Value, forbid_unknown_fields=True):
    """Exactly one of `that` (becomes true within a time), `always` and `never`."""

    that: str = ""
    always: str = ""
    never: str = ""
    within: Duration | None = None
    start: Annotated[Duration | None, Field("Start of the period: a time, or the name of a step.")] = msgspec.field(
        default=None, name="from"
    )
    until: Duration | None = None
    because: Annotated[str, Field("The reason for the expectation; shown when it fails.")] = ""

    @property
    def text(self) -> str:
        return self.that or self.always or self.never

    def __str__(self) -> str:
        return f"always {self.always}" if self.always else f"never {self.never}" if self.never else self.that


class StoryStep(Value, forbid_unknown_fields=True):
    """Actions at a time, some time after the previous step, or when an expression becomes true."""

    name: str = ""
    at: Duration | None = None
    after: Duration | None = None
    when: str = ""
    timeout: Annotated[Duration, Field("How long to wait for `when` before the story fails.")] = "10m"
    say: str = ""
    where: Annotated[str, Field("The member in which objects are applied, patched or deleted; default: the host.")] = (
        msgspec.field(default="", name="in")  # not `on`: that is a boolean in YAML
    )
    apply: Any = None
    patch: PatchAction | None = None
    scale: ScaleAction | None = None
    delete: Names = ()
    fail: FailureAction | None = None
    recover: FailureAction | None = None
    partition: Names = ()
    heal: Names = ()
    slow: SlowAction | None = None
    taint: TaintAction | None = None
    untaint: TaintAction | None = None
    score: ScoreAction | None = None
    load: LoadAction | None = None
    empty: Names = ()
    drain: DrainAction | None = None
    evict: EvictAction | None = None
    use: UsageAction | None = None
    claim: ClaimAction | None = None
    join: MemberPlan | None = None
    leave: Names = ()
    restart: str | RestartAction | None = None
    wait: Duration | None = None
    expect: tuple[Expectation, ...] = ()


class Story(Value, forbid_unknown_fields=True):
    name: str
    description: str = ""
    profile: str = "trimtab"
    seed: int = 0
    settings: dict[str, Any] = {}
    fleet: Any = "default"
    lasts: Annotated[Duration, Field("The minimum length of the story.")] = 0
    every: Annotated[Duration, Field("The interval in which expectations are checked.")] = "1s"
    timeline: tuple[StoryStep, ...] = ()
    expect: tuple[Expectation, ...] = ()

    @property
    def plan(self) -> FleetPlan:
        if self.fleet == "default":
            return default_fleet()
        return flows_fleet() if self.fleet == "flows" else parse_fleet(self.fleet)


def parse_seconds(text: Duration) -> float:
    """The seconds of `90`, `90s` or `1h30m`."""
    if isinstance(text, int | float):
        return float(text)
    if _DURATION.fullmatch(text) is None:
        raise InputError(f"{text!r} is not a duration such as 90s or 1h30m")
    return parse_duration(text).total_seconds()


def as_names(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


class StoryError(InputError):
    """A story is wrong: in which field, and why."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field


def read_story(path: Path) -> Story:
    """The story of a file; an invalid one raises `InputError` with the file, the line and the field."""
    try:
        text = path.read_text(encoding="utf-8")
        return _with_objects(parse_story(load_yaml(text, FILE)), path.parent)
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from error
    except YamlError as error:
        raise InputError(f"{path} is not YAML: {error}") from error
    except StoryError as fault:
        line = line_of(text, fault.field)
        raise InputError(f"{path}:{line}: {fault}" if line is not None else f"{path}: {fault}") from fault


def _with_objects(story: Story, folder: Path) -> Story:
    """The story with the objects of the files that its steps name."""
    steps = []
    for number, step in enumerate(story.timeline):
        with _errors_at(f"timeline[{number}].apply"):
            steps.append(step.but(apply=list(_load_objects(step.apply, folder))))
    return story.but(timeline=tuple(steps))


def _load_objects(given: Any, folder: Path) -> Iterator[Raw]:
    """The objects of `apply`: given inline, or in files relative to the folder of the story."""
    if isinstance(given, str):
        try:
            text = (folder / given).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise unreadable(folder / given, error) from error
        try:
            yield from (document for document in load_yaml_documents(text, FILE) if document)
        except YamlError as error:
            raise InputError(f"{folder / given} is not YAML: {error}") from error
    elif isinstance(given, list):
        for one in given:
            yield from _load_objects(one, folder)
    elif isinstance(given, dict):
        yield given


def parse_story(description: Any) -> Story:
    """The story of a decoded YAML document; raises `StoryError`."""
    if not isinstance(description, dict):
        raise StoryError("", "this is not a story, which has at least the fields name and timeline")
    try:
        story = msgspec.convert(description, Story, strict=False)
    except msgspec.ValidationError as error:
        raise StoryError(*field_and_message(str(error))) from error
    for check in (_check_head, _check_steps, _check_expectations):
        check(story)
    return story


@contextmanager
def _errors_at(field: str) -> Iterator[None]:
    """Give errors of expressions and durations the field in which they occur."""
    try:
        yield
    except StoryError:
        raise
    except FleetError as fault:
        raise StoryError(f"{field}.{fault.field}".rstrip("."), fault.message) from fault
    except InputError as fault:
        raise StoryError(field, str(fault)) from fault


def _check_head(story: Story) -> None:
    if story.profile not in ("trimtab", "upstream"):
        raise StoryError("profile", f"is {story.profile!r}; it must be trimtab or upstream")
    for name, value in story.settings.items():
        if name not in SETTINGS:
            near = difflib.get_close_matches(name, SETTINGS, 1)
            hint = f"did you mean {near[0]}?" if near else f"the settings are {', '.join(SETTINGS)}"
            raise StoryError(f"settings.{name}", f"there is no setting {name!r}; {hint}")
        if fault := value_fault(SETTINGS[name], value):
            raise StoryError(f"settings.{name}", f"is {value!r}: {fault}")
    with _errors_at("fleet"):
        _ = story.plan
    for field in ("lasts", "every"):
        with _errors_at(field):
            seconds = parse_seconds(getattr(story, field))
        if field == "every" and seconds <= 0:
            raise StoryError(field, f"is {story.every}; it must be greater than 0")


def _check_steps(story: Story) -> None:
    """The errors of steps that can be found without running the story."""
    for number, step in enumerate(story.timeline):
        here = f"timeline[{number}]"
        if sum((step.at is not None, step.after is not None, bool(step.when))) > 1:
            raise StoryError(here, "a step has no more than one of `at`, `after` and `when`")
        for field in ("at", "after", "timeout", "wait"):
            time = getattr(step, field)
            with _errors_at(f"{here}.{field}"):
                _ = parse_seconds(time) if time is not None else 0
        if step.when:
            with _errors_at(f"{here}.when"):
                Expression(step.when)
        for name in ("fail", "recover"):
            failure = getattr(step, name)
            if failure is not None and failure.how not in APP_FAILURE_NAMES:
                message = f"is {failure.how!r}; it must be one of {', '.join(APP_FAILURE_NAMES)}"
                raise StoryError(f"{here}.{name}.how", message)


def _check_expectations(story: Story) -> None:
    names = {step.name for step in story.timeline if step.name}
    found = [(f"expect[{n}]", one) for n, one in enumerate(story.expect)]
    for number, step in enumerate(story.timeline):
        found += [(f"timeline[{number}].expect[{n}]", one) for n, one in enumerate(step.expect)]
    if not found and not any(step.when for step in story.timeline):
        raise StoryError("", "the story has no expectations")
    for here, expectation in found:
        _check_expectation(here, expectation, names)


def _check_expectation(here: str, expectation: Expectation, names: set[str]) -> None:
    given = [name for name in ("that", "always", "never") if getattr(expectation, name)]
    if len(given) != 1:
        raise StoryError(here, "an expectation must have exactly one of `that`, `always` and `never`")
    with _errors_at(f"{here}.{given[0]}"):
        Expression(expectation.text)
    for field, time in (("from", expectation.start), ("until", expectation.until)):
        if time is not None and time not in names:
            with _errors_at(f"{here}.{field}"):
                parse_seconds(time)
    if expectation.within is not None:
        with _errors_at(f"{here}.within"):
            parse_seconds(expectation.within)
        if not expectation.that:
            raise StoryError(f"{here}.within", f"is only allowed with `that`: {expectation}")
