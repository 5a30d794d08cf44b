"""Defines placement plugins: a rule that prepares one request and evaluates one target, and at most one array form.

The outer call of a rule prepares, the inner call evaluates one target. A plugin declares which part of the request it
reads, and the pipeline never calls it more often than needed: the results for the whole fleet are cached as one array
per (plugin, part), and only the columns of targets that changed are evaluated again (see `decide.fleet`).

    @filter_plugin("TaintToleration", reads=lambda request: hashable_key(request.placement.spec.cluster_tolerations))
    def taint_toleration(request: PlacementRequest, fleet: Fleet[Cluster]) -> Check[Cluster]:
        def check(cluster: Cluster) -> Reason | None:
            ...
        return check

How an API dialect uses it
- It has its own request type, a target type with a `name`, and its own pair of registries (below).
- `feasible_mask(filters, request, fleet, placed)` is the mask of targets that no filter rejects; `first_rejections`
  returns the reasons of the same plugins, for `explain` and error messages.
- `weighted_total(scores, request, fleet, feasible)` is the weighted sum of scores per target; `scores_of_target` are the
  scores of one target per plugin.
- Numbers that rules need in bulk (free cpu, zone codes) are `fleet.column(key, prepare)`: computed once per target and
  updated column by column. Results of array arithmetic on them can be cached with `fleet.compute_once`.
- After a decision, `fleet.change([target])` or `fleet.reserve` returns the next fleet; nothing else is invalidated.

`reads` returns anything hashable that contains all the plugin reads from the request; `hashable_key(value)` makes a
hashable key of an API value. A plugin without `reads` is evaluated again for each request. A plugin that concerns only
a few named targets declares `targets` (their names) instead: no array is cached, only those targets are evaluated.

`array` is the array form: the results for the whole fleet at once, by array arithmetic. It must agree with the rule;
`tests/plugins/test_forms.py` checks that for every registered plugin. With `reads` it is used when many targets must be
evaluated, and the rule when a few have changed. Without `reads` it is always used, and the rule only explains: this
suits rules in which the result for one target depends on the others (how pods are spread over zones).
`skips(request)` means that the plugin has no effect on this request.

Many requests share most of a result, and their decisions should not cost a pass over the fleet each:
- a filter without `reads` can declare `array_key`: requests with an equal key have the same array;
- a score can declare `sparse` as its array form: an array that requests share, and the few columns in which this request
  differs (`SparseScores`). `decide.shared_totals` ranks the shared part once, and each request against it.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from trimtab.api.cache_by_identity import cache_by_identity
from trimtab.decide.fleet import Array, Fleet, Named
from trimtab.registry import Registry

A = TypeVar("A")
T = TypeVar("T", bound=Named)
Mask: TypeAlias = NDArray[np.bool_]


class Reason:
    """Why a target is rejected: a CamelCase code for machines, a sentence for people.

    The sentence may be given as a function. It is then built when it is read: most rejections are only counted.
    """

    __slots__ = ("_message", "code")

    def __init__(self, code: str, message: str | Callable[[], str]) -> None:
        self.code = code
        self._message = message

    @property
    def message(self) -> str:
        return self._message if isinstance(self._message, str) else self._message()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reason) and (self.code, self.message) == (other.code, other.message)

    def __hash__(self) -> int:
        return hash((self.code, self.message))

    def __repr__(self) -> str:
        return f"Reason({self.code!r}, {self.message!r})"


Check: TypeAlias = Callable[[T], Reason | None]
"""Returns None when the target is accepted."""
Scorer: TypeAlias = Callable[[T], int]


class Rejection(NamedTuple):
    """Which plugin rejected a target, and why."""

    plugin: str
    reason: Reason


@dataclass(frozen=True, eq=False, slots=True)
class FilterPlugin(Generic[A, T]):
    """A declared filter; `prepare(request, fleet)` returns the check of one target."""

    name: str
    prepare: Callable[[A, Fleet[T]], Check[T]]
    reads: Callable[[A], Hashable] | None = None
    targets: Callable[[A], Collection[str]] | None = None
    skips_placed: bool = False
    """Targets where the workload already is are not checked."""
    limits_placed: bool = False
    """With `skips_placed`: a rejected target keeps what it has of the workload and gets no more, if the profile says so."""
    skips: Callable[[A], bool] | None = None
    """Rejects no target for this request."""
    array: Callable[[A, Fleet[T]], Mask] | None = None
    """Which targets are accepted, as a new array: the same results as `prepare`."""
    ignores_load: bool = False
    """The check of a target does not depend on what runs there (see `Fleet.change_load`)."""
    array_key: Callable[[A, Fleet[T]], Hashable | None] | None = None
    """Equal for requests with the same array on this fleet; None where the array belongs to one request."""

    @property
    def depends_on_fleet(self) -> bool:
        """Whether the result for one target depends on the other targets."""
        return self.array is not None and self.reads is None


class SparseScores(NamedTuple):
    """The scores of one request: an array that requests share, and what this request adds to a few columns of it."""

    key: Hashable | None
    """Equal keys have equal arrays on one fleet; None: the array belongs to this request."""
    common: Callable[[], Array] | None
    """Computes the shared array; None: 0 everywhere."""
    columns: list[int] | Array = []
    """Without repetition; a list where they are few, because lists of a few numbers are faster than arrays."""
    added: list[int] | Array | int = 0
    """What is added to these columns: one number each, or one for all."""

    def by_column(self, size: int) -> Array:
        scores = np.zeros(size, dtype=np.int64) if self.common is None else self.common().copy()
        if len(self.columns):
            scores[self.columns] += self.added
        return scores

    def weighted(self, weight: int) -> list[int] | Array | int:
        """What is added to the columns, times this weight."""
        return [score * weight for score in self.added] if isinstance(self.added, list) else self.added * weight


@dataclass(frozen=True, eq=False, slots=True)
class ScorePlugin(Generic[A, T]):
    """A declared score; `prepare(request, fleet)` returns the scorer of one target."""

    name: str
    prepare: Callable[[A, Fleet[T]], Scorer[T]]
    reads: Callable[[A], Hashable] | None = None
    targets: Callable[[A], Collection[str]] | None = None
    """Only the named targets are scored; the others get 0."""
    normalize: Callable[[Array], Array] | None = None
    """Maps the raw scores of the feasible targets to the common range."""
    skips: Callable[[A], bool] | None = None
    """Contributes nothing to any target for this request."""
    array: Callable[[A, Fleet[T], Mask], Array | None] | None = None
    """The scores of all targets as a new array, given which are feasible; None: it contributes nothing.

    Where all are feasible, the same scores as `prepare`.
    """
    depends_on_feasible: bool = False
    """With `reads`: the array also depends on which targets are feasible."""
    sparse: Callable[[A, Fleet[T]], SparseScores] | None = None
    """The array form for scores in which requests differ in a few columns only."""
    ignores_load: bool = False
    """The score of a target does not depend on what runs there (see `Fleet.change_load`)."""

    @property
    def depends_on_fleet(self) -> bool:
        """Whether the score of one target depends on the other targets."""
        return self.sparse is not None or (self.array is not None and (self.reads is None or self.depends_on_feasible))


PluginFunction = TypeVar("PluginFunction", bound=Callable[..., Callable[..., Any]])


def _filter_decorator(
    registry: "Registry[FilterPlugin[Any, Any]]",
) -> Callable[..., Callable[[PluginFunction], PluginFunction]]:
    def declare(
        name: str,
        *,
        reads: Callable[[Any], Hashable] | None = None,
        targets: Callable[[Any], Collection[str]] | None = None,
        skips_placed: bool = False,
        limits_placed: bool = False,
        skips: Callable[[Any], bool] | None = None,
        array: Callable[[Any, Fleet[Any]], Mask] | None = None,
        ignores_load: bool = False,
        array_key: Callable[[Any, Fleet[Any]], Hashable | None] | None = None,
    ) -> Callable[[PluginFunction], PluginFunction]:
        def register(rule: PluginFunction) -> PluginFunction:
            plugin = FilterPlugin(
                name, rule, reads, targets, skips_placed, limits_placed, skips, array, ignores_load, array_key
            )
            registry.add(name, plugin)
            return rule

        return register

    return declare


def _score_decorator(
    registry: "Registry[ScorePlugin[Any, Any]]",
) -> Callable[..., Callable[[PluginFunction], PluginFunction]]:
    def declare(
        name: str,
        *,
        reads: Callable[[Any], Hashable] | None = None,
        targets: Callable[[Any], Collection[str]] | None = None,
        normalize: Callable[[Array], Array] | None = None,
        skips: Callable[[Any], bool] | None = None,
        array: Callable[[Any, Fleet[Any], Mask], Array | None] | None = None,
        depends_on_feasible: bool = False,
        sparse: Callable[[Any, Fleet[Any]], SparseScores] | None = None,
        ignores_load: bool = False,
    ) -> Callable[[PluginFunction], PluginFunction]:
        if array is not None and sparse is not None:
            raise ValueError(f"the score {name} has two array forms: declare `array` or `sparse`")

        def register(rule: PluginFunction) -> PluginFunction:
            registry.add(
                name,
                ScorePlugin(
                    name, rule, reads, targets, normalize, skips, array, depends_on_feasible, sparse, ignores_load
                ),
            )
            return rule

        return register

    return declare


filters: Registry[FilterPlugin[Any, Any]] = Registry("filter")
"""Filters of clusters, for propagation policies."""
scores: Registry[ScorePlugin[Any, Any]] = Registry("score")
prioritizers: Registry[ScorePlugin[Any, Any]] = Registry("prioritizer")
"""Scores that a prioritizer policy names; their request is a `decide.request.ScoreQuery`."""
placement_filters: Registry[FilterPlugin[Any, Any]] = Registry("placement filter")
"""Filters of managed clusters, for OCM Placements."""
node_filters: Registry[FilterPlugin[Any, Any]] = Registry("node filter")
"""Filters of nodes, for pods."""
node_scores: Registry[ScorePlugin[Any, Any]] = Registry("node score")

filter_plugin = _filter_decorator(filters)
score_plugin = _score_decorator(scores)
prioritizer = _score_decorator(prioritizers)
placement_filter = _filter_decorator(placement_filters)
node_filter = _filter_decorator(node_filters)
node_score = _score_decorator(node_scores)


_MAX_HASHABLE_KEYS = 8192
_MAX_SCORE_ARRAYS = 128
hashable_key: Callable[[Any], Hashable] = cache_by_identity(
    msgspec.json.Encoder(order="deterministic").encode, max_entries=_MAX_HASHABLE_KEYS
)
"""A hashable key that is equal for equal values, including dicts. Cheap when the same object is passed again."""


def filter_mask(plugin: FilterPlugin[A, T], request: A, fleet: Fleet[T]) -> Mask:
    """For every target, whether this plugin accepts it; a plugin with `targets` is evaluated again."""
    if plugin.array is not None and plugin.reads is None:
        return plugin.array(request, fleet)
    if plugin.targets is not None:
        mask = np.ones(len(fleet), dtype=bool)
        for column in _rejected_columns(plugin, plugin.targets(request), request, fleet):
            mask[column] = False
        return mask
    key = (plugin, None if plugin.reads is None else plugin.reads(request))
    bulk = None if plugin.array is None else partial(plugin.array, request, fleet)
    prepare = partial(_accepts, plugin, request, fleet)
    return fleet.column(key, prepare, bool, keep=plugin.reads is not None, bulk=bulk, ignores_load=plugin.ignores_load)


def _accepts(plugin: FilterPlugin[A, T], request: A, fleet: Fleet[T]) -> Callable[[T], bool]:
    check = plugin.prepare(request, fleet)
    return lambda target: check(target) is None


def _rejected_columns(plugin: FilterPlugin[A, T], names: Collection[str], request: A, fleet: Fleet[T]) -> Iterator[int]:
    if not names:
        return
    check = plugin.prepare(request, fleet)
    for name in names:
        column = fleet.index.get(name)
        if column is not None and check(fleet.targets[column]) is not None:
            yield column


def feasible_mask(
    plugins: Iterable[FilterPlugin[A, T]], request: A, fleet: Fleet[T], placed: Sequence[int] = ()
) -> Mask:
    """The targets that no plugin rejects; `placed` are the columns where the workload already is."""
    mask = np.ones(len(fleet), dtype=bool)
    for plugin in plugins:
        if plugin.targets is not None:
            for column in _rejected_columns(plugin, plugin.targets(request), request, fleet):
                mask[column] = mask[column] and plugin.skips_placed and column in placed
        elif plugin.skips_placed and placed:
            kept = [column for column in placed if mask[column]]
            mask &= filter_mask(plugin, request, fleet)
            mask[kept] = True
        else:
            mask &= filter_mask(plugin, request, fleet)
    return mask


def filter_key(plugin: FilterPlugin[A, T], request: A, fleet: Fleet[T]) -> Hashable | None:
    """Equal for requests with the same `filter_mask`; None where it belongs to one request."""
    if plugin.reads is not None:
        return plugin, plugin.reads(request)
    if plugin.array_key is None:
        return None
    key = plugin.array_key(request, fleet)
    return None if key is None else (plugin, key)


class FeasibleSet(NamedTuple):
    """The targets that no filter rejects."""

    mask: Mask
    columns: Array
    """The same as column numbers, in name order."""
    cache_key: Hashable = None
    """A cache key shared by all requests with exactly this result, for values that follow from it alone."""


class CachedFilters(Generic[A, T]):
    """Filters that are evaluated often on one fleet: their combined result is cached until it changes.

    Same results as `feasible_mask`; useful where many requests share their parts and the fleet changes seldom.
    """

    def __init__(self, plugins: Iterable[FilterPlugin[A, T]]) -> None:
        plugins = list(plugins)
        self._cacheable = [plugin for plugin in plugins if _is_cacheable(plugin)]
        self._reads = [plugin.reads for plugin in self._cacheable if plugin.reads is not None]
        self._others = [plugin for plugin in plugins if not _is_cacheable(plugin)]

    def feasible(self, request: A, fleet: Fleet[T], placed: Sequence[int] = ()) -> FeasibleSet:
        """The result belongs to the cache: do not write to it."""
        key = (self, *[reads(request) for reads in self._reads])
        found, accepted_if_placed = fleet.compute_once(key, lambda: self._evaluate(request, fleet))
        others = [plugin for plugin in self._others if plugin.targets is None or plugin.targets(request)]
        if not others and (not placed or accepted_if_placed.isdisjoint(placed)):
            return found
        mask = found.mask.copy()
        mask[[column for column in placed if column in accepted_if_placed]] = True
        if others:
            mask &= self.evaluate(others, request, fleet, placed)
        return FeasibleSet(mask, np.flatnonzero(mask))

    def _evaluate(self, request: A, fleet: Fleet[T]) -> tuple[FeasibleSet, frozenset[int]]:
        """The targets that all filters accept, and those accepted only where the workload already is."""
        strict = self.evaluate([plugin for plugin in self._cacheable if not plugin.skips_placed], request, fleet)
        mask = strict & self.evaluate([plugin for plugin in self._cacheable if plugin.skips_placed], request, fleet)
        return FeasibleSet(mask, np.flatnonzero(mask), object()), frozenset(np.flatnonzero(strict & ~mask).tolist())

    def evaluate(
        self, plugins: Iterable[FilterPlugin[A, T]], request: A, fleet: Fleet[T], placed: Sequence[int] = ()
    ) -> Mask:
        """The targets that none of these plugins rejects."""
        return feasible_mask(plugins, request, fleet, placed)


def _is_cacheable(plugin: FilterPlugin[A, T]) -> bool:
    return plugin.reads is not None and plugin.targets is None


def first_rejections(
    plugins: Iterable[FilterPlugin[A, T]],
    request: A,
    fleet: Fleet[T],
    columns: Iterable[int],
    placed: Collection[int] = (),
) -> Iterator[tuple[int, Rejection | None]]:
    """The first rejection of each of these columns, in the order of `plugins`; same rules as `feasible_mask`."""
    checks = [
        (plugin, plugin.prepare(request, fleet), None if plugin.targets is None else frozenset(plugin.targets(request)))
        for plugin in plugins
    ]
    for column in columns:
        target = fleet.targets[column]
        yield column, _first_rejection(target, checks, placed=column in placed)


def _first_rejection(
    target: T, checks: Iterable[tuple[FilterPlugin[Any, T], Check[T], frozenset[str] | None]], *, placed: bool
) -> Rejection | None:
    for plugin, check, about in checks:
        if (placed and plugin.skips_placed) or (about is not None and target.name not in about):
            continue
        if (reason := check(target)) is not None:
            return Rejection(plugin.name, reason)
    return None


def every_rejection(
    plugins: Iterable[FilterPlugin[A, T]],
    request: A,
    fleet: Fleet[T],
    columns: Iterable[int],
    placed: Collection[int] = (),
) -> Iterator[tuple[int, list[Rejection]]]:
    """All rejections of each of these columns, in the order of `plugins`; same rules as `first_rejections`."""
    checks = [
        (plugin, plugin.prepare(request, fleet), None if plugin.targets is None else frozenset(plugin.targets(request)))
        for plugin in plugins
    ]
    for column in columns:
        target = fleet.targets[column]
        found = (_first_rejection(target, [check], placed=column in placed) for check in checks)
        yield column, [rejection for rejection in found if rejection is not None]


def scores_of(plugin: ScorePlugin[A, T], request: A, fleet: Fleet[T], feasible: Mask) -> Array | None:
    """For every target, the final score of this plugin; None: it contributes nothing.

    Undefined for targets that are not feasible. Belongs to the cache, do not write to it.
    """
    if plugin.skips is not None and plugin.skips(request):
        return None
    if plugin.sparse is not None:
        return plugin.sparse(request, fleet).by_column(len(fleet))
    if plugin.array is not None and plugin.depends_on_fleet:
        return plugin.array(request, fleet, feasible)
    raw = _raw_scores(plugin, request, fleet)
    if plugin.normalize is None:
        return raw
    if np.logical_and.reduce(feasible):
        return plugin.normalize(raw)
    normalized: Array = np.zeros(len(raw), dtype=np.int64)
    normalized[feasible] = plugin.normalize(raw[feasible])
    return normalized


def sparse_scores_of(
    plugin: ScorePlugin[A, T], request: A, fleet: Fleet[T], feasible: FeasibleSet
) -> SparseScores | None:
    """The same as `scores_of`, with the part that other requests share apart."""
    if plugin.skips is not None and plugin.skips(request):
        return None
    if plugin.sparse is not None:
        return plugin.sparse(request, fleet)
    if plugin.targets is not None and plugin.array is None and plugin.normalize is None:
        named = _scores_of_named(plugin, request, fleet)
        return SparseScores(plugin, None, np.array(list(named), dtype=np.intp), np.array(list(named.values())))
    key = None
    if plugin.reads is not None and plugin.normalize is None:
        key = (plugin, plugin.reads(request), feasible.cache_key if plugin.depends_on_feasible else None)

    def compute() -> Array:
        return _scores_or_zero(plugin, request, fleet, feasible.mask)

    if key is None or not plugin.depends_on_feasible or feasible.cache_key is None:
        return SparseScores(key, compute)
    return SparseScores(key, lambda: fleet.compute_once(key, compute, max_entries=_MAX_SCORE_ARRAYS))


def _scores_or_zero(plugin: ScorePlugin[A, T], request: A, fleet: Fleet[T], feasible: Mask) -> Array:
    scores = scores_of(plugin, request, fleet, feasible)
    return np.zeros(len(fleet), dtype=np.int64) if scores is None else scores


def _scores_of_named(plugin: ScorePlugin[A, T], request: A, fleet: Fleet[T]) -> dict[int, int]:
    """By column, the scores of a plugin that scores only named targets."""
    names = plugin.targets(request) if plugin.targets is not None else ()
    if not names:
        return {}
    score, index, targets = plugin.prepare(request, fleet), fleet.index, fleet.targets
    return {index[name]: score(targets[index[name]]) for name in names if name in index}


def _raw_scores(plugin: ScorePlugin[A, T], request: A, fleet: Fleet[T]) -> Array:
    if plugin.targets is not None:
        named = np.zeros(len(fleet), dtype=np.int64)
        for column, score in _scores_of_named(plugin, request, fleet).items():
            named[column] = score
        return named
    key = (plugin, None if plugin.reads is None else plugin.reads(request))
    bulk = None if plugin.array is None else partial(_all_scores, plugin.array, request, fleet)
    prepare = partial(plugin.prepare, request, fleet)
    return fleet.column(
        key, prepare, np.int64, keep=plugin.reads is not None, bulk=bulk, ignores_load=plugin.ignores_load
    )


def _all_scores(array: Callable[[A, Fleet[T], Mask], Array | None], request: A, fleet: Fleet[T]) -> Array:
    scores = array(request, fleet, np.ones(len(fleet), dtype=bool))
    return np.zeros(len(fleet), dtype=np.int64) if scores is None else scores


def few_scores(plugins: Sequence[ScorePlugin[A, T]], request: A, fleet: Fleet[T]) -> dict[int, int] | None:
    """The sum of the scores by column, where these plugins score only named targets; else None."""
    total: dict[int, int] = {}
    for plugin in plugins:
        if not _scores_only_named(plugin):
            return None
        for column, score in _scores_of_named(plugin, request, fleet).items():
            total[column] = total.get(column, 0) + score
    return total


def _scores_only_named(plugin: ScorePlugin[A, T]) -> bool:
    return not (plugin.targets is None or plugin.depends_on_fleet or plugin.skips or plugin.normalize)


def weighted_total(
    plugins: Iterable[tuple[ScorePlugin[A, T], int]], request: A, fleet: Fleet[T], feasible: Mask
) -> Array:
    """The weighted sum of the scores, for every feasible target."""
    total = np.zeros(len(fleet), dtype=np.int64)
    for plugin, weight in plugins:
        if _scores_only_named(plugin):
            for column, score in _scores_of_named(plugin, request, fleet).items():
                total[column] += weight * score
        elif (scores := scores_of(plugin, request, fleet, feasible)) is not None:
            total += weight * scores
    return total


def scores_of_target(
    plugins: Iterable[ScorePlugin[A, T]], request: A, fleet: Fleet[T], feasible: Mask, column: int
) -> dict[str, int]:
    """The score of each plugin for one feasible target, unweighted."""
    return {plugin.name: _score_of_target(plugin, request, fleet, feasible, column) for plugin in plugins}


def _score_of_target(plugin: ScorePlugin[A, T], request: A, fleet: Fleet[T], feasible: Mask, column: int) -> int:
    if plugin.depends_on_fleet or plugin.normalize is not None:
        scores = scores_of(plugin, request, fleet, feasible)
        return 0 if scores is None else int(scores[column])
    target = fleet.targets[column]
    if (plugin.skips is not None and plugin.skips(request)) or (
        plugin.targets is not None and target.name not in plugin.targets(request)
    ):
        return 0
    return plugin.prepare(request, fleet)(target)
