"""What a placement plugin is: a function that studies one ask, and returns one opinion per target.

The outer call prepares whatever it likes; the inner one judges one target. A plugin declares which part of the ask it
reads, and the pipeline never calls it more often than needed: verdicts for the whole fleet are kept as one array per
(plugin, part) and only the columns of targets that changed are judged again (see `decide.fleet`).

    @filter_plugin("TaintToleration", reads=lambda ask: ask.placement.cluster_tolerations)
    def taint_toleration(ask: Ask, fleet: Fleet[Cluster]) -> Check[Cluster]:
        def check(cluster: Cluster) -> Reason | None:
            ...
        return check

How a dialect uses it
- It has an Ask type of its own, a target type with a `name`, and its own pair of registries (below).
- `sift(filters, ask, fleet, spared)` is the mask of targets that no filter refuses; `objection` and `objections` ask the
  very same plugins for their sentences, for `explain` and error texts.
- `tally(scores, ask, fleet)` is the weighted sum of grades per target; `marks` are the grades of one target per plugin.
- Numbers that rules need in bulk (free cpu, zone codes) are `fleet.column(key, prepare)`: judged once per target, kept,
  refreshed column by column. What is computed from them by array arithmetic may be kept with `fleet.derived`.
- After a decision is booked, `fleet.change([target])` (or `fleet.reserve`) gives the next picture; nothing else is
  invalidated.

What `reads` may return: anything hashable that holds all the plugin looks at in the ask; `sealed(value)` makes a
hashable stand-in of an API value. A plugin without `reads` is asked anew for each ask. A plugin that can only object
to a few named targets declares `about` (their names) instead: no array is kept, only those targets are judged.
A plugin whose opinion of one target depends on the others (how pods are spread over zones) declares `sweep` besides: it
judges the whole fleet by array arithmetic; `skips(ask)` says that it has nothing to say about this ask.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from trimtab.decide.fleet import Array, Fleet, Named
from trimtab.registry import Registry

A = TypeVar("A")
T = TypeVar("T", bound=Named)
Mask: TypeAlias = NDArray[np.bool_]


class Reason(NamedTuple):
    """Why not: a CamelCase code for machines, a sentence for people."""

    code: str
    message: str


Check: TypeAlias = Callable[[T], Reason | None]
"""None: nothing against this target."""
Grade: TypeAlias = Callable[[T], int]


class Objection(NamedTuple):
    """Which plugin turned a target down, and what it said."""

    plugin: str
    reason: Reason


@dataclass(frozen=True, eq=False, slots=True)
class Filter(Generic[A, T]):
    """A declared filter; `study(ask, fleet)` returns the check of one target."""

    name: str
    study: Callable[[A, Fleet[T]], Check[T]]
    reads: Callable[[A], Hashable] | None = None
    about: Callable[[A], Collection[str]] | None = None
    spares_placed: bool = False
    """Does not judge targets where the workload already is."""
    sweep: Callable[[A, Fleet[T]], Mask] | None = None
    """The verdict on every target at once, for rules in which targets depend on each other; `study` must agree."""
    skips: Callable[[A], bool] | None = None
    """Has nothing against any target for this ask."""
    bulk: Callable[[A, Fleet[T]], Mask] | None = None
    """The same verdicts as `study`, by array arithmetic; used when many targets are to be judged."""
    never: Callable[[A, Fleet[T]], Mask] | None = None
    """The targets that it would turn down whatever runs there, by array arithmetic; `study` must agree."""
    terse: Callable[[A], Callable[[T], bool]] | None = None
    """The same verdicts as `study`, without the sentence."""

    def truth(self, ask: A, fleet: Fleet[T]) -> Callable[[T], bool]:
        """Whether it lets one target pass."""
        if self.terse is not None:
            return self.terse(ask)
        check = self.study(ask, fleet)
        return lambda target: check(target) is None


@dataclass(frozen=True, eq=False, slots=True)
class Score(Generic[A, T]):
    """A declared score; `study(ask, fleet)` returns the grade of one target."""

    name: str
    study: Callable[[A, Fleet[T]], Grade[T]]
    reads: Callable[[A], Hashable] | None = None
    about: Callable[[A], Collection[str]] | None = None
    """Only the named targets are graded; the others get 0."""
    sweep: Callable[[A, Fleet[T], Mask], Array | None] | None = None
    """The final grade of every target at once, given which are feasible; None: it contributes nothing."""
    settle: Callable[[Array], Array] | None = None
    """Puts the raw grades of the feasible targets on the common range."""
    skips: Callable[[A], bool] | None = None
    """Contributes nothing to any target for this ask."""
    bulk: Callable[[A, Fleet[T]], Array] | None = None
    """The same grades as `study`, by array arithmetic; used when many targets are to be judged."""


Study = TypeVar("Study", bound=Callable[..., Callable[..., Any]])


def _filter_decorator(registry: "Registry[Filter[Any, Any]]") -> Callable[..., Callable[[Study], Study]]:
    def declare(
        name: str,
        *,
        reads: Callable[[Any], Hashable] | None = None,
        about: Callable[[Any], Collection[str]] | None = None,
        spares_placed: bool = False,
        sweep: Callable[[Any, Fleet[Any]], Mask] | None = None,
        skips: Callable[[Any], bool] | None = None,
        bulk: Callable[[Any, Fleet[Any]], Mask] | None = None,
        never: Callable[[Any, Fleet[Any]], Mask] | None = None,
        terse: Callable[[Any], Callable[[Any], bool]] | None = None,
    ) -> Callable[[Study], Study]:
        def register(study: Study) -> Study:
            registry.add(name, Filter(name, study, reads, about, spares_placed, sweep, skips, bulk, never, terse))
            return study

        return register

    return declare


def _score_decorator(registry: "Registry[Score[Any, Any]]") -> Callable[..., Callable[[Study], Study]]:
    def declare(
        name: str,
        *,
        reads: Callable[[Any], Hashable] | None = None,
        about: Callable[[Any], Collection[str]] | None = None,
        sweep: Callable[[Any, Fleet[Any], Mask], Array | None] | None = None,
        settle: Callable[[Array], Array] | None = None,
        skips: Callable[[Any], bool] | None = None,
        bulk: Callable[[Any, Fleet[Any]], Array] | None = None,
    ) -> Callable[[Study], Study]:
        def register(study: Study) -> Study:
            registry.add(name, Score(name, study, reads, about, sweep, settle, skips, bulk))
            return study

        return register

    return declare


filters: Registry[Filter[Any, Any]] = Registry("filter")
"""Filters of clusters, dialect `karmada`."""
scores: Registry[Score[Any, Any]] = Registry("score")
prioritizers: Registry[Score[Any, Any]] = Registry("prioritizer")
"""Scores that a prioritizer policy names, answering a `decide.ask.Question`."""
placement_filters: Registry[Filter[Any, Any]] = Registry("placement filter")
"""Filters of managed clusters, dialect `ocm`."""
node_filters: Registry[Filter[Any, Any]] = Registry("node filter")
"""Filters of nodes, dialect `pods`."""
node_scores: Registry[Score[Any, Any]] = Registry("node score")

filter_plugin = _filter_decorator(filters)
score_plugin = _score_decorator(scores)
prioritizer = _score_decorator(prioritizers)
placement_filter = _filter_decorator(placement_filters)
node_filter = _filter_decorator(node_filters)
node_score = _score_decorator(node_scores)


_SEALS_KEPT = 8192
_seals: dict[int, tuple[Any, Hashable]] = {}
_encode = msgspec.json.Encoder(order="deterministic").encode


def sealed(value: Any) -> Hashable:
    """A hashable stand-in: equal for equal values, whatever dicts they hold. Cheap when the same object comes again."""
    seal = _seals.get(id(value))
    if seal is None:
        if len(_seals) >= _SEALS_KEPT:
            _seals.clear()
        # the value is kept beside its seal: as long as it is here, no other object can have its id
        seal = _seals[id(value)] = (value, _encode(value))
    return seal[1]


def verdicts(plugin: Filter[A, T], ask: A, fleet: Fleet[T]) -> Mask:
    """For every target, whether this plugin lets it pass; of a plugin with `about`, judged anew."""
    if plugin.sweep is not None:
        return plugin.sweep(ask, fleet)
    if plugin.about is not None:
        mask = np.ones(len(fleet), dtype=bool)
        for column in _refused_by_name(plugin, plugin.about(ask), ask, fleet):
            mask[column] = False
        return mask
    key = (plugin, None if plugin.reads is None else plugin.reads(ask))
    bulk = None if plugin.bulk is None else partial(plugin.bulk, ask, fleet)
    return fleet.column(key, lambda: plugin.truth(ask, fleet), bool, keep=plugin.reads is not None, bulk=bulk)


def _refused_by_name(plugin: Filter[A, T], names: Collection[str], ask: A, fleet: Fleet[T]) -> Iterator[int]:
    if not names:
        return
    check = plugin.study(ask, fleet)
    for name in names:
        column = fleet.index.get(name)
        if column is not None and check(fleet.targets[column]) is not None:
            yield column


def sift(plugins: Iterable[Filter[A, T]], ask: A, fleet: Fleet[T], spared: Sequence[int] = ()) -> Mask:
    """The targets that no plugin turns down; `spared` are the columns where the workload already is."""
    mask = np.ones(len(fleet), dtype=bool)
    for plugin in plugins:
        if plugin.about is not None:
            for column in _refused_by_name(plugin, plugin.about(ask), ask, fleet):
                mask[column] = mask[column] and plugin.spares_placed and column in spared
        elif plugin.spares_placed and spared:
            kept = [column for column in spared if mask[column]]
            mask &= verdicts(plugin, ask, fleet)
            mask[kept] = True
        else:
            mask &= verdicts(plugin, ask, fleet)
    return mask


class Sifted(NamedTuple):
    """The targets that no filter turns down."""

    mask: Mask
    columns: Array
    """The same as columns, in order of names."""
    shared: Hashable = None
    """What all asks with the very same answer have in common: a key for what follows from it alone."""


class Sieve(Generic[A, T]):
    """Filters that are asked again and again about one picture: what they say together is kept until it changes.

    Same answers as `sift`; worth it where many asks share their parts and the fleet changes seldom.
    """

    def __init__(self, plugins: Iterable[Filter[A, T]]) -> None:
        plugins = list(plugins)
        self._kept = [plugin for plugin in plugins if _keeps_array(plugin)]
        self._reads = [plugin.reads for plugin in self._kept if plugin.reads is not None]
        self._others = [plugin for plugin in plugins if not _keeps_array(plugin)]

    def sift(self, ask: A, fleet: Fleet[T], spared: Sequence[int] = ()) -> Sifted:
        """What is returned is borrowed: do not write to it."""
        key = (self, *[reads(ask) for reads in self._reads])
        sifted, spared_pass = fleet.derived(key, lambda: self._judge(ask, fleet, key))
        others = [plugin for plugin in self._others if plugin.about is None or plugin.about(ask)]
        if not others and all(sifted.mask[column] == spared_pass[column] for column in spared):
            return sifted
        mask = sifted.mask.copy()
        for column in spared:
            mask[column] = spared_pass[column]
        if others:
            mask &= sift(others, ask, fleet, spared)
        return Sifted(mask, np.flatnonzero(mask))

    def _judge(self, ask: A, fleet: Fleet[T], key: Hashable) -> tuple[Sifted, Mask]:
        """What lets every target pass, and what lets those pass where the workload already is."""
        strict = sift([plugin for plugin in self._kept if not plugin.spares_placed], ask, fleet)
        mask = strict & sift([plugin for plugin in self._kept if plugin.spares_placed], ask, fleet)
        return Sifted(mask, np.flatnonzero(mask), key), strict


def _keeps_array(plugin: Filter[A, T]) -> bool:
    return plugin.reads is not None and plugin.about is None and plugin.sweep is None


def objections(
    plugins: Iterable[Filter[A, T]], ask: A, fleet: Fleet[T], columns: Iterable[int], spared: Collection[int] = ()
) -> Iterator[tuple[int, Objection | None]]:
    """The first objection to each of these columns, in the order of `plugins`; the same rules as `sift`, in words."""
    checks = [
        (plugin, plugin.study(ask, fleet), None if plugin.about is None else frozenset(plugin.about(ask)))
        for plugin in plugins
    ]
    for column in columns:
        target = fleet.targets[column]
        yield column, _first_objection(target, checks, spared=column in spared)


def _first_objection(
    target: T, checks: Iterable[tuple[Filter[Any, T], Check[T], frozenset[str] | None]], *, spared: bool
) -> Objection | None:
    for plugin, check, about in checks:
        if (spared and plugin.spares_placed) or (about is not None and target.name not in about):
            continue
        if (reason := check(target)) is not None:
            return Objection(plugin.name, reason)
    return None


def grades(plugin: Score[A, T], ask: A, fleet: Fleet[T]) -> Array:
    """For every target, the grade this plugin gives it; borrowed, do not write to it."""
    if plugin.about is not None:
        named = np.zeros(len(fleet), dtype=np.int64)
        grade = plugin.study(ask, fleet)
        for name in plugin.about(ask):
            if (column := fleet.index.get(name)) is not None:
                named[column] = grade(fleet.targets[column])
        return named
    key = (plugin, None if plugin.reads is None else plugin.reads(ask))
    bulk = None if plugin.bulk is None else partial(plugin.bulk, ask, fleet)
    return fleet.column(key, lambda: plugin.study(ask, fleet), np.int64, keep=plugin.reads is not None, bulk=bulk)


def tally(plugins: Iterable[tuple[Score[A, T], int]], ask: A, fleet: Fleet[T]) -> Array:
    """The weighted sum of the grades, for every target."""
    total = np.zeros(len(fleet), dtype=np.int64)
    for plugin, weight in plugins:
        if plugin.about is None:
            total += weight * grades(plugin, ask, fleet)
        elif names := plugin.about(ask):
            grade = plugin.study(ask, fleet)
            for name in names:
                if (column := fleet.index.get(name)) is not None:
                    total[column] += weight * grade(fleet.targets[column])
    return total


def marks(plugins: Iterable[Score[A, T]], ask: A, fleet: Fleet[T], column: int) -> dict[str, int]:
    """What each plugin says of one target, unweighted."""
    target = fleet.targets[column]
    return {
        plugin.name: plugin.study(ask, fleet)(target) if plugin.about is None or target.name in plugin.about(ask) else 0
        for plugin in plugins
    }
