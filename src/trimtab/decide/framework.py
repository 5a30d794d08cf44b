"""Defines placement plugins: functions that prepare one request and return a function that evaluates one target.

The outer call prepares, the inner call evaluates one target. A plugin declares which part of the request it reads, and
the pipeline never calls it more often than needed: the results for the whole fleet are cached as one array per
(plugin, part), and only the columns of targets that changed are evaluated again (see `decide.fleet`).

    @filter_plugin("TaintToleration", reads=lambda request: hashable_key(request.placement.spec.cluster_tolerations))
    def taint_toleration(request: PlacementRequest, fleet: Fleet[Cluster]) -> Check[Cluster]:
        def check(cluster: Cluster) -> Reason | None:
            ...
        return check

How an API dialect uses it
- It has its own request type, a target type with a `name`, and its own pair of registries (below).
- `feasible_mask(filters, request, fleet, placed)` is the mask of targets that no filter rejects; `first_rejections`
  returns the reasons of the same plugins, for `explain` and error messages.
- `weighted_total(scores, request, fleet)` is the weighted sum of scores per target; `scores_of_target` are the scores
  of one target per plugin.
- Numbers that rules need in bulk (free cpu, zone codes) are `fleet.column(key, prepare)`: computed once per target and
  updated column by column. Results of array arithmetic on them can be cached with `fleet.compute_once`.
- After a decision, `fleet.change([target])` or `fleet.reserve` returns the next fleet; nothing else is invalidated.

`reads` returns anything hashable that contains all the plugin reads from the request; `hashable_key(value)` makes a
hashable key of an API value. A plugin without `reads` is evaluated again for each request. A plugin that concerns only
a few named targets declares `targets` (their names) instead: no array is cached, only those targets are evaluated.
A plugin whose result for one target depends on the others (how pods are spread over zones) also declares
`evaluate_all`, which evaluates the whole fleet by array arithmetic. `skips(request)` means that the plugin has no
effect on this request.
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
    """Why a target is rejected: a CamelCase code for machines, a sentence for people."""

    code: str
    message: str


Check: TypeAlias = Callable[[T], Reason | None]
"""Returns None when the target is accepted."""
Grade: TypeAlias = Callable[[T], int]


class Objection(NamedTuple):
    """Which plugin rejected a target, and why."""

    plugin: str
    reason: Reason


@dataclass(frozen=True, eq=False, slots=True)
class Filter(Generic[A, T]):
    """A declared filter; `prepare(request, fleet)` returns the check of one target."""

    name: str
    study: Callable[[A, Fleet[T]], Check[T]]
    reads: Callable[[A], Hashable] | None = None
    about: Callable[[A], Collection[str]] | None = None
    spares_placed: bool = False
    """Targets where the workload already is are not checked."""
    sweep: Callable[[A, Fleet[T]], Mask] | None = None
    """Checks all targets at once, for rules in which targets depend on each other; must agree with `prepare`."""
    skips: Callable[[A], bool] | None = None
    """Rejects no target for this request."""
    bulk: Callable[[A, Fleet[T]], Mask] | None = None
    """The same results as `prepare`, by array arithmetic; used when many targets must be evaluated."""
    never: Callable[[A, Fleet[T]], Mask] | None = None
    """The targets that are rejected whatever runs there, by array arithmetic; must agree with `prepare`."""
    terse: Callable[[A], Callable[[T], bool]] | None = None
    """The same results as `prepare`, without the message."""

    def truth(self, ask: A, fleet: Fleet[T]) -> Callable[[T], bool]:
        """Returns whether one target is accepted."""
        if self.terse is not None:
            return self.terse(ask)
        check = self.study(ask, fleet)
        return lambda target: check(target) is None


@dataclass(frozen=True, eq=False, slots=True)
class Score(Generic[A, T]):
    """A declared score; `prepare(request, fleet)` returns the scorer of one target."""

    name: str
    study: Callable[[A, Fleet[T]], Grade[T]]
    reads: Callable[[A], Hashable] | None = None
    about: Callable[[A], Collection[str]] | None = None
    """Only the named targets are scored; the others get 0."""
    sweep: Callable[[A, Fleet[T], Mask], Array | None] | None = None
    """The final score of all targets at once, given which are feasible; None: it contributes nothing."""
    settle: Callable[[Array], Array] | None = None
    """Maps the raw scores of the feasible targets to the common range."""
    skips: Callable[[A], bool] | None = None
    """Contributes nothing to any target for this request."""
    bulk: Callable[[A, Fleet[T]], Array] | None = None
    """The same scores as `prepare`, by array arithmetic; used when many targets must be evaluated."""


Study = TypeVar("Study", bound=Callable[..., Callable[..., Any]])


def _filter_decorator(registry: "Registry[Filter[Any, Any]]") -> Callable[..., Callable[[Study], Study]]:
    def declare(
        name: str,
        *,
        reads: Callable[[Any], Hashable] | None = None,
        targets: Callable[[Any], Collection[str]] | None = None,
        skips_placed: bool = False,
        evaluate_all: Callable[[Any, Fleet[Any]], Mask] | None = None,
        skips: Callable[[Any], bool] | None = None,
        bulk: Callable[[Any, Fleet[Any]], Mask] | None = None,
        never_fits: Callable[[Any, Fleet[Any]], Mask] | None = None,
        predicate: Callable[[Any], Callable[[Any], bool]] | None = None,
    ) -> Callable[[Study], Study]:
        def register(study: Study) -> Study:
            registry.add(
                name,
                Filter(name, study, reads, targets, skips_placed, evaluate_all, skips, bulk, never_fits, predicate),
            )
            return study

        return register

    return declare


def _score_decorator(registry: "Registry[Score[Any, Any]]") -> Callable[..., Callable[[Study], Study]]:
    def declare(
        name: str,
        *,
        reads: Callable[[Any], Hashable] | None = None,
        targets: Callable[[Any], Collection[str]] | None = None,
        evaluate_all: Callable[[Any, Fleet[Any], Mask], Array | None] | None = None,
        normalize: Callable[[Array], Array] | None = None,
        skips: Callable[[Any], bool] | None = None,
        bulk: Callable[[Any, Fleet[Any]], Array] | None = None,
    ) -> Callable[[Study], Study]:
        def register(study: Study) -> Study:
            registry.add(name, Score(name, study, reads, targets, evaluate_all, normalize, skips, bulk))
            return study

        return register

    return declare


filters: Registry[Filter[Any, Any]] = Registry("filter")
"""Filters of clusters, for propagation policies."""
scores: Registry[Score[Any, Any]] = Registry("score")
prioritizers: Registry[Score[Any, Any]] = Registry("prioritizer")
"""Scores that a prioritizer policy names; their request is a `decide.request.ScoreQuery`."""
placement_filters: Registry[Filter[Any, Any]] = Registry("placement filter")
"""Filters of managed clusters, for OCM Placements."""
node_filters: Registry[Filter[Any, Any]] = Registry("node filter")
"""Filters of nodes, for pods."""
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
    """A hashable key that is equal for equal values, including dicts. Cheap when the same object is passed again."""
    seal = _seals.get(id(value))
    if seal is None:
        if len(_seals) >= _SEALS_KEPT:
            _seals.clear()
        # the value is stored with its key: while it is alive, no other object can have its id
        seal = _seals[id(value)] = (value, _encode(value))
    return seal[1]


def verdicts(plugin: Filter[A, T], ask: A, fleet: Fleet[T]) -> Mask:
    """For every target, whether this plugin accepts it; a plugin with `targets` is evaluated again."""
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
    """The targets that no plugin rejects; `placed` are the columns where the workload already is."""
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
    """The targets that no filter rejects."""

    mask: Mask
    columns: Array
    """The same as column numbers, in name order."""
    shared: Hashable = None
    """A cache key shared by all requests with exactly this result, for values that follow from it alone."""


class Sieve(Generic[A, T]):
    """Filters that are evaluated often on one fleet: their combined result is cached until it changes.

    Same results as `feasible_mask`; useful where many requests share their parts and the fleet changes seldom.
    """

    def __init__(self, plugins: Iterable[Filter[A, T]]) -> None:
        plugins = list(plugins)
        self._kept = [plugin for plugin in plugins if _keeps_array(plugin)]
        self._reads = [plugin.reads for plugin in self._kept if plugin.reads is not None]
        self._others = [plugin for plugin in plugins if not _keeps_array(plugin)]

    def sift(self, ask: A, fleet: Fleet[T], spared: Sequence[int] = ()) -> Sifted:
        """The result belongs to the cache: do not write to it."""
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
        """The targets that all filters accept, and those accepted where the workload already is."""
        strict = sift([plugin for plugin in self._kept if not plugin.spares_placed], ask, fleet)
        mask = strict & sift([plugin for plugin in self._kept if plugin.spares_placed], ask, fleet)
        return Sifted(mask, np.flatnonzero(mask), key), strict


def _keeps_array(plugin: Filter[A, T]) -> bool:
    return plugin.reads is not None and plugin.about is None and plugin.sweep is None


def objections(
    plugins: Iterable[Filter[A, T]], ask: A, fleet: Fleet[T], columns: Iterable[int], spared: Collection[int] = ()
) -> Iterator[tuple[int, Objection | None]]:
    """The first rejection of each of these columns, in the order of `plugins`; same rules as `feasible_mask`."""
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
    """For every target, the score of this plugin; belongs to the cache, do not write to it."""
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
    """The weighted sum of the scores, for every target."""
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
    """The score of each plugin for one target, unweighted."""
    target = fleet.targets[column]
    return {
        plugin.name: plugin.study(ask, fleet)(target) if plugin.about is None or target.name in plugin.about(ask) else 0
        for plugin in plugins
    }
